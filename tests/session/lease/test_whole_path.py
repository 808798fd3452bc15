"""A session and its broker, from the claim to parked and back, with the broker dying in between."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.session.parking.conftest import CHECK, HOLD

if TYPE_CHECKING:
    from tests.session.lease.conftest import Kept, Others


async def test_a_session_holds_a_lease(kept: Kept, api: Any, until: Any) -> None:
    """A server claims its share at its start and shows what it got, from whom, and for which project."""
    await until(lambda: kept.status() == "running")
    shown = await api("session")
    assert shown["lease"]["connection"] == "joined"
    assert shown["lease"]["status"] == "running"
    assert shown["lease"]["project"] == "default"
    assert shown["share"]["source"] == "broker"
    assert shown["share"]["devices"] == [grant.device for grant in kept.lease().grants]


async def test_idle_is_parked_and_a_cell_brings_it_back(
    kept: Kept, start_kernel: Any, run: Any, park: Any, until: Any
) -> None:
    """The lease follows the kernel: parked when nothing is held any more, back with a new epoch before the cell runs."""
    kernel_id = await start_kernel()
    await run(kernel_id, HOLD)
    assert (await park(kernel_id))["status"] == "released"
    await until(lambda: kept.status() == "parked")
    assert kept.lease().host_memory.bytes > 64 << 20
    epoch = kept.lease().epoch
    assert (await run(kernel_id, CHECK))["status"] == "ok"
    await until(lambda: kept.status() == "running")
    assert kept.lease().epoch == epoch + 1


async def test_a_parked_session_comes_back_through_a_broker_that_was_restarted(
    kept: Kept, start_kernel: Any, run: Any, park: Any, until: Any
) -> None:
    """A broker that dies and comes back finds the lease parked as it was, and gives it back as if nothing had been."""
    kernel_id = await start_kernel()
    await run(kernel_id, HOLD)
    await park(kernel_id)
    await until(lambda: kept.status() == "parked")
    key = kept.lease().id
    await kept.stop()
    await kept.start()
    assert (await run(kernel_id, CHECK))["status"] == "ok"
    await until(lambda: kept.status() == "running")
    assert kept.lease().id == key


async def test_without_the_broker_it_comes_back_alone(
    kept: Kept, start_kernel: Any, run: Any, park: Any, until: Any, parking_of: Any, page_of: Any
) -> None:
    """After its grace a parked notebook resumes on its own proof of room, and a broker that returns takes it as it is."""
    kernel_id = await start_kernel()
    await run(kernel_id, HOLD)
    await park(kernel_id)
    await until(lambda: kept.status() == "parked")
    await kept.stop()
    assert (await run(kernel_id, CHECK))["status"] == "ok"
    await kept.start()
    await until(lambda: kept.status() == "running")


async def test_training_that_leaves_is_shown_and_then_the_cell_runs(
    kept: Kept, others: Others, start_kernel: Any, run: Any, park: Any, until: Any, api: Any, page_of: Any
) -> None:
    """What was lent is called back by a cell: people see who leaves and how long that has, and then their result."""
    kernel_id = await start_kernel()
    await run(kernel_id, HOLD)
    await park(kernel_id)
    await until(lambda: kept.status() == "parked")
    jobs = [await others.hold("1", kind="training") for _ in (kept.broker.books.devices if kept.broker else ())]
    lent = await until(lambda: _shown(api, "LENT_TO_TRAINING"))
    assert lent["lease"]["lent_to"][0]["name"] == "other"
    past = await until(lambda: _lent_before(api))
    assert past["parked"][-1][0] <= past["lent"][-1][0] < past["lent"][-1][1]
    page = await page_of(kernel_id)
    cell = page.execute(CHECK)
    leaves = await until(lambda: _shown(api, "TRAINING_LEAVES"))
    assert leaves["lease"]["deadline"] > leaves["lease"]["began"]
    waiting = leaves["kernels"][0]["parking"]
    assert waiting["status"] == "waiting"
    assert waiting["message"]["text"].startswith("Waiting for room: Training is leaving (")
    for job in jobs:
        if job.lease is not None and job.lease.status == "yielding":
            job.did("released", job.lease.epoch)
    await until(lambda: page.answers(cell, "execute_reply"))
    assert page.answers(cell, "execute_reply")[0]["status"] == "ok"
    await until(lambda: kept.status() == "running")


async def _lent_before(api: Any) -> Any:
    past = await api("history")
    return past if past["lent"] and past["lent"][-1][1] > past["lent"][-1][0] else None


async def _shown(api: Any, code: str) -> Any:
    shown = await api("session")
    return shown if shown["lease"]["message"]["code"] == code else None


async def test_a_share_of_which_nothing_is_held_is_handed_back(
    kept: Kept, session: Any, start_kernel: Any, run: Any, until: Any
) -> None:
    """A server that nobody uses keeps no GPU: its share is lent after the idle time, and a cell that computes has it."""
    await until(lambda: kept.status() == "running")
    session.lease._at = session.lease.lease._at = replace(session.lease._at, idle_timeout_s=0.0)
    await until(lambda: _looked(session) and kept.status() == "parked")
    assert kept.lease().host_memory.bytes <= 1
    session.lease._at = session.lease.lease._at = replace(session.lease._at, idle_timeout_s=None)
    kernel_id = await start_kernel()
    assert (await run(kernel_id, HOLD))["status"] == "ok"
    await until(lambda: kept.status() == "running")


def _looked(session: Any) -> bool:
    session.lease.look()
    return True


async def test_after_an_hour_without_the_broker_it_comes_back(
    kept: Kept, session: Any, start_kernel: Any, run: Any, park: Any, until: Any, page_of: Any, parking_of: Any
) -> None:
    """A parked notebook waits out its grace, says for how long, and then needs nobody."""
    kernel_id = await start_kernel()
    await run(kernel_id, HOLD)
    await park(kernel_id)
    await until(lambda: kept.status() == "parked")
    lease = session.lease.lease
    lease._settings = replace(lease._settings, grace_s=3600.0)
    await kept.stop()
    await until(lambda: not session.lease.joining.holding.connected)
    page = await page_of(kernel_id)
    cell = page.execute(CHECK)
    await until(lambda: _waits_alone(parking_of, kernel_id))
    assert not page.answers(cell, "execute_reply")
    lease._clock = lambda: time.time() + 3601.0
    reply = (await until(lambda: page.answers(cell, "execute_reply")))[0]
    assert reply["status"] == "ok"


async def _waits_alone(parking_of: Any, kernel_id: str) -> bool:
    text = (await parking_of(kernel_id))["message"]["text"]
    return "lost contact with the broker, and it looks for room by itself in 3" in text


async def test_the_broker_dies_at_any_moment(
    kept: Kept, start_kernel: Any, run: Any, park: Any, until: Any, page_of: Any
) -> None:
    """Killed while the share is handed back and again while it comes back: nothing is lost, and both end well."""
    kernel_id = await start_kernel()
    await run(kernel_id, HOLD)
    page = await page_of(kernel_id)
    for _ in range(3):
        await _park_and_come_back(kept, kernel_id, park, until, page)


async def _park_and_come_back(kept: Kept, kernel_id: str, park: Any, until: Any, page: Any) -> None:
    parking = asyncio.ensure_future(park(kernel_id))
    await until(lambda: kept.status() == "parking" or parking.done())
    await kept.stop()
    await kept.start()
    await parking
    cell = page.execute(CHECK)
    await until(lambda: kept.status() in ("resuming", "running"))
    await kept.stop()
    await kept.start()
    reply = (await until(lambda: page.answers(cell, "execute_reply")))[0]
    assert reply["status"] == "ok"
    await until(lambda: kept.status() == "running")
