"""What may get between a session and its share: no room, other people's wishes, neighbours, second kernels."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tornado.httpclient import HTTPClientError

from jupyter_gpushare.broker.wire import ProcessModel
from jupyter_gpushare.devices.attribution import Owner
from jupyter_gpushare.devices.identity import Identity, identify
from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.event import ParkingSwitched, Reclaimed
from jupyter_gpushare.rules.reason import Reason
from tests.session.conftest import refusal
from tests.session.parking.conftest import CHECK, HOLD

if TYPE_CHECKING:
    from tests.session.lease.conftest import Kept, Others


async def test_only_the_last_kernel_hands_the_share_back(
    kept: Kept, start_kernel: Any, run: Any, park: Any, until: Any
) -> None:
    """While another notebook still computes on the share it stays the session's; then it is handed back whole."""
    first, second = await start_kernel("a.ipynb"), await start_kernel("b.ipynb")
    await run(first, HOLD)
    await run(second, HOLD)
    assert (await park(first))["status"] == "released"
    assert kept.status() == "running"
    assert (await park(second))["status"] == "released"
    await until(lambda: kept.status() == "parked")
    assert kept.lease().host_memory.bytes > 128 << 20
    assert (await run(second, CHECK))["status"] == "ok"
    await until(lambda: kept.status() == "running")
    assert (await run(first, CHECK))["status"] == "ok"


async def test_no_host_memory_is_said_and_nothing_moves(
    kept: Kept, start_kernel: Any, run: Any, park: Any, until: Any
) -> None:
    """The broker's budget is asked first: a refusal is shown as every other one, and the notebook goes on."""
    kernel_id = await start_kernel()
    await run(kernel_id, HOLD)
    await kept.set_budget(Memory(1 << 20))
    ended = await park(kernel_id)
    assert ended["message"]["values"].get("reason_code") == "NO_HOST_MEMORY", ended
    assert (await run(kernel_id, CHECK))["status"] == "ok"
    assert kept.status() == "running"
    await kept.set_budget(Memory(1 << 40))
    assert (await park(kernel_id))["status"] == "released"
    await until(lambda: kept.status() == "parked")


async def test_an_admin_takes_the_share_back(
    kept: Kept, start_kernel: Any, run: Any, parking_of: Any, until: Any, api: Any
) -> None:
    """A reclaim by the broker parks the notebook with a warning that says so, and any cell brings it back."""
    kernel_id = await start_kernel()
    await run(kernel_id, HOLD)
    await kept.set_budget(Memory(1 << 40))
    await kept.submit(Reclaimed(kept.lease().id, "root"))
    await until(lambda: kept.status() == "parked")
    assert (await parking_of(kernel_id))["status"] == "parked"
    codes = [notice["message"]["code"] for notice in (await api("session"))["notices"]]
    assert "ASKED_TO_PARK" in codes
    assert (await run(kernel_id, CHECK))["status"] == "ok"


async def test_who_could_not_be_parked_once_is_asked_again(
    kept: Kept, start_kernel: Any, run: Any, until: Any, parking_of: Any
) -> None:
    """A refusal is of one park: an admin who asks later, when nothing is in the way any more, has it parked."""
    kernel_id = await start_kernel()
    await run(kernel_id, HOLD)
    await run(kernel_id, "import threading\nended = threading.Event()\nthreading.Thread(target=ended.wait).start()")
    await kept.set_budget(Memory(1 << 40))
    await kept.submit(Reclaimed(kept.lease().id, "root"))
    await until(lambda: kept.lease().reason is Reason.NOT_PARKABLE)
    assert kept.status() == "running"
    await run(kernel_id, "ended.set()")
    await kept.submit(Reclaimed(kept.lease().id, "root"))
    await until(lambda: kept.status() == "parked")
    assert (await parking_of(kernel_id))["status"] == "parked"
    assert (await run(kernel_id, CHECK))["status"] == "ok"


async def test_who_is_parked_when_parking_is_stopped_comes_back(
    kept: Kept, start_kernel: Any, run: Any, park: Any, until: Any, session: Any
) -> None:
    """The one switch brings the notebook itself back and not its share alone: nobody has to run a cell for that."""
    kernel_id = await start_kernel()
    await run(kernel_id, HOLD)
    assert (await park(kernel_id))["status"] == "released"
    await until(lambda: kept.status() == "parked")
    await kept.submit(ParkingSwitched(is_stopped=True, by="root"))
    await until(lambda: session.parking.parkings.of(kernel_id).status == "running")
    await until(lambda: kept.status() == "running")
    assert (await run(kernel_id, CHECK))["status"] == "ok"
    assert (await park(kernel_id))["message"]["values"].get("reason_code") == "PARKING_STOPPED"


async def test_a_reclaim_waits_for_the_cell(
    kept: Kept, start_kernel: Any, page_of: Any, run: Any, until: Any, session: Any
) -> None:
    """Nothing is parked under a running cell, whoever asks; it goes when the cell has ended."""
    kernel_id = await start_kernel()
    await run(kernel_id, HOLD)
    page = await page_of(kernel_id)
    page.execute("import os, time\nwhile not os.path.exists('go'): time.sleep(0.05)")
    await until(lambda: session.kernels.get(kernel_id).cells)
    await kept.set_budget(Memory(1 << 40))
    await kept.submit(Reclaimed(kept.lease().id, "root"))
    await until(lambda: session.parking.parkings.of(kernel_id).status == "asked")
    assert kept.status() == "parking"
    await session._server.kernel_manager.interrupt_kernel(kernel_id)
    await until(lambda: kept.status() == "parked")
    assert (await run(kernel_id, CHECK))["status"] == "ok"


async def test_a_kernel_that_opens_the_gpu_wakes_the_share(
    kept: Kept, start_kernel: Any, run: Any, park: Any, until: Any
) -> None:
    """A kernel without a context runs on while the share is lent; once it opens one the share is called back."""
    first, second = await start_kernel("a.ipynb"), await start_kernel("b.ipynb")
    await run(first, HOLD)
    await park(first)
    await until(lambda: kept.status() == "parked")
    await run(second, HOLD)
    await until(lambda: kept.status() == "running")
    assert (await run(first, CHECK))["status"] == "ok"


async def test_a_neighbour_with_a_lease_is_no_stranger(
    kept: Kept, others: Others, start_kernel: Any, run: Any, park: Any, until: Any
) -> None:
    """Memory of other leases on the same GPU keeps nobody from being parked; that of no lease does."""
    kernel_id = await start_kernel()
    await run(kernel_id, HOLD)
    device = kept.lease().grants[0].device
    index = sorted(kept.broker.books.devices).index(device) if kept.broker else 0
    neighbour = await _stranger(index)
    try:
        await others.hold("0.5", ProcessModel(neighbour.pid, neighbour.start))
        await until(lambda: kept.broker and not kept.broker.books.devices[device].foreign)
        await until(lambda: _released(park, kernel_id))
        await until(lambda: kept.status() == "parked")
        assert (await run(kernel_id, CHECK))["status"] == "ok"
    finally:
        os.kill(neighbour.pid, signal.SIGTERM)


async def _released(park: Any, kernel_id: str) -> bool:
    """Ask again while the server has not heard yet who the neighbour is."""
    return bool((await park(kernel_id))["status"] == "released")


async def _stranger(index: int) -> Identity:
    """A process that holds memory on a device and is nobody's child."""
    holder = f"{sys.executable} -m jupyter_gpushare.devices.simulated.holder --memory 1GiB --device {index}"
    shell = await asyncio.create_subprocess_shell(f"{holder} >&2 & echo $!", stdout=asyncio.subprocess.PIPE)
    said, _ = await shell.communicate()
    process = identify(int(said))
    assert process is not None
    return process


async def test_a_job_in_a_terminal_of_this_server_is_not_the_sessions(kept: Kept, session: Any, until: Any) -> None:
    """What holds a lease of its own is not counted with the session, which could never be parked otherwise."""
    await until(lambda: kept.status() == "running")
    job = await asyncio.create_subprocess_exec("sleep", "60", env={**os.environ, "GPUSHARE_LEASE": "L7"})
    plain = await asyncio.create_subprocess_exec("sleep", "60")
    try:
        me = Owner("server", "")
        assert session.lease.unless_job(plain.pid, me) == me
        assert session.lease.unless_job(job.pid, me) is None
        await kept.stop()
        await until(lambda: session.lease.unless_job(job.pid, me) == me)
    finally:
        for process in (job, plain):
            process.terminate()
            await process.wait()


async def test_another_share_is_had_live(kept: Kept, api: Any, others: Others, until: Any, jp_fetch: Any) -> None:
    """A smaller share is had at once; one that does not fit beside a neighbour is refused with the reason."""
    await until(lambda: kept.status() == "running")
    answer = await api("request", body={"share": "0.25..0.5"})
    assert (answer["share"]["text"], answer["restart"]) == ("0.25..0.5", [])
    assert str(kept.lease().share) == "0.25..0.5"
    for _ in kept.broker.books.devices if kept.broker else ():
        await others.hold("0.7")
    with pytest.raises(HTTPClientError) as refused:
        await api("request", body={"share": "0.5"})
    said = refusal(refused.value)["error"]
    assert (refused.value.code, said["code"]) == (409, "SHARE_REFUSED")
    assert said["values"]["reason_code"].isupper()
    assert (await api("session"))["share"]["text"] == "0.25..0.5"


@pytest.mark.parametrize("wish", ["-1", "NaN", "0.5..0.1", "x" * 100])
async def test_a_share_that_is_none_is_explained(api: Any, wish: str) -> None:
    """What is no share never reaches the broker."""
    with pytest.raises(HTTPClientError) as refused:
        await api("request", body={"share": wish})
    assert (refused.value.code, refusal(refused.value)["error"]["code"]) == (400, "BAD_SHARE")


async def test_the_end_of_the_server_ends_its_lease(kept: Kept, session: Any, until: Any) -> None:
    """A server that stops gives its share back at once and not after a time-out."""
    await until(lambda: kept.status() == "running")
    await session.lease.stop()
    await until(lambda: kept.lease() is None)
