"""The states and outcomes that only bad luck at the right moment brings about: a real server, kernels, hostile machine."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from typing import Any

import pytest

from jupyter_gpushare.devices.simulated.faults import DriverLost, HangsAt, OutOfMemory
from jupyter_gpushare.session.parking.sentences import COMES_BACK, OUR_FAULT, SERVER_STOPS
from tests.session.parking.conftest import CHECK, HOLD
from tests.session.parking.preflight_row import PROBE, STAYS, child

#: Long before anything of ours gives up, and far more than an error takes.
AT_ONCE_S = 10


@pytest.fixture(name="holding")
def _holding(start_kernel: Any, run: Any, word_is: Any) -> Any:
    """Starts a kernel that holds a GPU and could be parked; its id."""

    async def holding(code: str = HOLD) -> str:
        kernel_id: str = await start_kernel()
        assert (reply := await run(kernel_id, code))["status"] == "ok", reply
        await word_is(kernel_id, "PARKABLE")
        return kernel_id

    return holding


@pytest.fixture(name="at_step")
def _at_step(session: Any, until: Any) -> Any:
    """Waits until a kernel's park has begun that step; its record."""

    async def at_step(kernel_id: str, step: str) -> Any:
        record = session.parking.parkings.of(kernel_id)
        await until(lambda: record.step == step and record.processes)
        return record

    return at_step


async def test_a_park_that_cannot_be_undone_for_want_of_room_comes_back_later(
    holding: Any,
    park: Any,
    run: Any,
    machine: Any,
    session: Any,
    at_step: Any,
    word_is: Any,
    parking_of: Any,
    page_of: Any,
    until: Any,
) -> None:
    """One process is away when the next cannot follow, and its room is gone: it waits safely, and then comes back."""
    kernel_id = await holding(HOLD + child(STAYS))
    machine.inject(HangsAt("lock"))
    asked = asyncio.ensure_future(park(kernel_id))
    record = await at_step(kernel_id, "lock")
    machine.occupancy.use(record.processes[-1], "mps")  # begun after preflight has looked
    machine.inject(OutOfMemory())
    machine.clear(HangsAt)
    failed = await asked
    values = failed["message"]["values"]
    assert (failed["status"], values["reason_code"], values["remedy"]) == ("failed", "DRIVER_REFUSED", COMES_BACK.text)
    waiting = await word_is(kernel_id, "WAITING_FOR_ROOM")
    assert "stay safe in host memory" in waiting["message"]["text"]
    assert not session.parking.gates.of(kernel_id).is_open
    page = await page_of(kernel_id)
    cell = page.execute(CHECK)
    machine.clear()
    assert (await until(lambda: page.answers(cell, "execute_reply")))[0]["status"] == "ok"
    assert (await run(kernel_id, "assert child.poll() is None"))["status"] == "ok"

    async def is_looked_at_again() -> bool:
        # Until then people read why the attempt failed.
        return bool((await parking_of(kernel_id))["refusal"]["code"] == "MPS_CLIENT")

    await until(is_looked_at_again)


async def test_before_it_was_looked_at_nothing_is_claimed(holding: Any, run: Any, api: Any, word_is: Any) -> None:
    """A new policy makes the last answer void; until the kernel has given another one, that is what people read."""
    kernel_id = await holding()
    assert (await run(kernel_id, f"{PROBE}probes['gpushare_probe_request'] = lambda *_: None"))["status"] == "ok"
    await api("kernels", kernel_id, "policy", method="PUT", body={"allow_foreign": True})
    parking = await word_is(kernel_id, "NOT_LOOKED_YET")
    assert parking["message"]["text"] == "Whether it can be parked is being looked at."
    assert (parking["status"], parking["refusal"], parking["memory"]) == ("running", None, None)
    assert (await word_is(kernel_id, "CANNOT_PARK"))["refusal"]["code"] == "BACKGROUND_UNKNOWN"
    assert (await run(kernel_id, "probes['gpushare_probe_request'] = probe"))["status"] == "ok"
    await word_is(kernel_id, "PARKABLE")


async def test_a_disk_that_fails_us_is_said_to_be_our_fault(
    holding: Any, park: Any, run: Any, session: Any, word_is: Any
) -> None:
    """No flag can be set, so nothing is touched and the notebook goes on; the next wish finds all mended."""
    kernel_id = await holding()
    flags = session.parking.gates._directory
    shutil.rmtree(flags)
    flags.write_text("in the way of the directory")
    failed = await park(kernel_id)
    values = failed["message"]["values"]
    assert (failed["status"], values["reason_code"]) == ("failed", "INTERNAL_ERROR")
    assert values["reason"] == OUR_FAULT.reason.text
    assert "nothing is lost" in values["reason"]
    assert session.parking.gates.of(kernel_id).is_open
    assert (await run(kernel_id, CHECK))["status"] == "ok"
    flags.unlink()
    await word_is(kernel_id, "PARKABLE")
    assert (await park(kernel_id))["status"] == "released"
    assert (await run(kernel_id, CHECK))["status"] == "ok"


async def test_a_fault_of_ours_leaves_no_gate_closed(holding: Any, park: Any, run: Any, session: Any) -> None:
    """Whatever breaks inside the server behind the closed gate: it is said, and the notebook goes on."""
    kernel_id = await holding()
    examiner = session.parking.examiner
    at = examiner._at

    def breaks() -> Any:
        if session.parking.parkings.of(kernel_id).status == "parking":
            raise ZeroDivisionError
        return at.speed()

    examiner._at = replace(at, speed=breaks)
    failed = await park(kernel_id)
    assert (failed["status"], failed["message"]["values"]["reason_code"]) == ("failed", "INTERNAL_ERROR")
    assert session.parking.gates.of(kernel_id).is_open
    examiner._at = at
    assert (await run(kernel_id, CHECK))["status"] == "ok"
    assert (await park(kernel_id))["status"] == "released"


async def test_a_wish_that_waits_hears_that_the_server_stops(
    holding: Any, api: Any, page_of: Any, until: Any, session: Any, word_is: Any
) -> None:
    """A park that waited for its cell ends with its server: it is told so, and the kernel was never touched."""
    kernel_id = await holding()
    page = await page_of(kernel_id)
    cell = page.execute(f"import time; time.sleep(2)\n{CHECK}")
    await until(lambda: session.kernels.get(kernel_id).cells)
    begun = await api("releases", body={"level": "park", "kernel_id": kernel_id, "when": "idle"})
    await word_is(kernel_id, "ASKED")
    await session.stop()
    (release,) = [release.model() for release in session.releases.all() if release.id == begun["id"]]
    values = release.message.values
    assert (release.status, values["reason_code"], values["reason"]) == (
        "failed", "SERVER_STOPS", SERVER_STOPS.reason.text,
    )  # fmt: skip
    assert values["remedy"] == "Start it again."
    assert (await until(lambda: page.answers(cell, "execute_reply")))[0]["status"] == "ok"


async def test_a_cell_that_comes_before_the_move_goes_first(
    holding: Any, park: Any, run: Any, page_of: Any, until: Any, session: Any, machine: Any
) -> None:
    """Sent while the kernel is examined behind its gate, it does not wait for a copy; the next wish parks."""
    kernel_id = await holding()
    page, gate = await page_of(kernel_id), session.parking.gates.of(kernel_id)
    machine.inject(HangsAt("memory"))
    asked = asyncio.ensure_future(park(kernel_id))
    await until(lambda: gate.is_settled or asked.done())
    cell = page.execute(CHECK)
    await until(lambda: gate.held or asked.done())
    machine.clear()
    failed = await asked
    assert (failed["status"], failed["message"]["values"]["reason_code"]) == ("failed", "CELL_CAME"), failed
    assert (await until(lambda: page.answers(cell, "execute_reply")))[0]["status"] == "ok"
    assert session.parking.parkings.of(kernel_id).parks == 0
    await run(kernel_id, "pass")
    assert (await park(kernel_id))["status"] == "released"


async def test_a_lost_gpu_state_fails_at_once_and_a_restart_mends_it(
    holding: Any, park: Any, run: Any, api: Any, machine: Any, jp_serverapp: Any, hears: Any
) -> None:
    """As on a real device after an error that it cannot recover from: each call fails, none hangs, a new process works."""
    kernel_id = await holding()
    assert (await park(kernel_id))["status"] == "released"
    machine.inject(DriverLost())
    machine.clear()
    for cell in (CHECK, "cuda.synchronize()", "cuda.allocate('1MiB')", "cuda.compute(50, 1)", "cuda.empty_cache()"):
        async with asyncio.timeout(AT_ONCE_S):
            reply = await run(kernel_id, cell)
        assert (reply["status"], reply["ename"]) == ("error", "DriverError"), (cell, reply)
        assert "restart the kernel" in reply["evalue"]
    assert "GPU_STATE_LOST" in {notice["message"]["code"] for notice in (await api("session"))["notices"]}
    await jp_serverapp.kernel_manager.restart_kernel(kernel_id)
    await hears(kernel_id)
    assert (await run(kernel_id, f"{HOLD}\n{CHECK}"))["status"] == "ok"
    assert (await park(kernel_id))["status"] == "released"
    assert (await run(kernel_id, CHECK))["status"] == "ok"


async def test_a_driver_that_goes_and_comes_is_told(state_is: Any, machine: Any) -> None:
    """The session's state names what the driver lacks, and nothing any more once it is back."""
    await state_is("NOTHING_HELD")
    machine.inject(DriverLost())
    assert "XID 79" in await state_is("DRIVER_LOST")
    machine.clear()
    await state_is("NOTHING_HELD")
