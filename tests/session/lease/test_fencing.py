"""What the broker has not allowed is not done: no park before its word, no restore with an epoch that is over."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.broker.wire import CouldNotMessage, DidMessage, RefusedMessage, WantMessage
from tests.broker.client.scripted_broker import ScriptedBroker, granted, sentence
from tests.session.parking.conftest import CHECK, HOLD

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jupyter_gpushare.devices.simulated.machine import Machine


@pytest.fixture(name="scripted")
def _scripted(directory: Path, jp_asyncio_loop: asyncio.AbstractEventLoop) -> Iterator[ScriptedBroker]:
    """A broker that says only what the test tells it to."""
    broker = ScriptedBroker(directory / "scripted.sock")

    async def start() -> None:
        broker.start()

    async def stop() -> None:
        broker.stop()

    jp_asyncio_loop.run_until_complete(start())
    yield broker
    jp_asyncio_loop.run_until_complete(stop())


@pytest.fixture(name="gpushare_options")
def _gpushare_options(scripted: ScriptedBroker) -> dict[str, Any]:
    """A session of that broker."""
    return {"broker": f"unix:{scripted.path}"}


@pytest.fixture(name="ready")
def _ready(scripted: ScriptedBroker, machine: Machine, start_kernel: Any, run: Any, until: Any) -> Any:
    """A session that runs, with a kernel that holds memory; the kernel's id."""

    async def ready() -> str:
        await until(lambda: scripted.lease)
        scripted.tell(**granted(machine.devices[0].uuid))
        await until(lambda: DidMessage("running", 1) in scripted.heard)
        scripted.tell(status="running")
        kernel_id: str = await start_kernel()
        await run(kernel_id, HOLD)
        return kernel_id

    return ready


def wanted(scripted: ScriptedBroker, target: str) -> list[WantMessage]:
    """What was wanted."""
    return [each for each in scripted.heard if isinstance(each, WantMessage) and each.target == target]


async def test_nothing_moves_before_the_broker_agrees(
    scripted: ScriptedBroker, ready: Any, park: Any, until: Any, session: Any, run: Any
) -> None:
    """Host memory is booked before the first byte moves, and a refusal leaves everything as it was."""
    kernel_id = await ready()
    parking = asyncio.ensure_future(park(kernel_id))
    (wish,) = await until(lambda: wanted(scripted, "parked"))
    assert wish.memory > 64 << 20
    assert session.parking.parkings.of(kernel_id).parked is None
    scripted.say(RefusedMessage(sentence("NO_HOST_MEMORY", "The machine is full."), is_final=False))
    assert (await parking)["message"]["values"]["reason"] == "The machine is full."
    assert session.parking.parkings.of(kernel_id).parked is None
    assert (await run(kernel_id, CHECK))["status"] == "ok"


async def test_a_cell_that_comes_before_the_brokers_word_goes_first(
    scripted: ScriptedBroker, ready: Any, park: Any, until: Any, page_of: Any
) -> None:
    """A silent broker holds no cell up: the wish is taken back and the cell runs."""
    kernel_id = await ready()
    parking = asyncio.ensure_future(park(kernel_id))
    await until(lambda: wanted(scripted, "parked"))
    page = await page_of(kernel_id)
    cell = page.execute(CHECK)
    reply = (await until(lambda: page.answers(cell, "execute_reply")))[0]
    assert reply["status"] == "ok"
    assert (await parking)["status"] != "released"
    assert wanted(scripted, "running")


async def test_a_stale_epoch_restores_nothing(
    scripted: ScriptedBroker, ready: Any, park: Any, until: Any, page_of: Any, session: Any
) -> None:
    """Only an epoch that is newer than the one it was parked with gives the device back."""
    kernel_id = await ready()
    parking = asyncio.ensure_future(park(kernel_id))
    await until(lambda: wanted(scripted, "parked"))
    scripted.tell(status="parking", target="parked")
    assert (await parking)["status"] == "released"
    await until(lambda: DidMessage("released", 1) in scripted.heard)
    scripted.tell(status="parked")
    page = await page_of(kernel_id)
    cell = page.execute(CHECK)
    await until(lambda: wanted(scripted, "running"))
    scripted.tell(status="resuming", target="running", epoch=1)
    await until(lambda: session.lease.joining.holding.lease.status == "resuming")
    for _ in range(30):
        session.lease.look()
        await asyncio.sleep(0.02)
    assert session.parking.parkings.of(kernel_id).status == "waiting"
    assert not page.answers(cell, "execute_reply")
    scripted.tell(epoch=2)
    assert (await until(lambda: page.answers(cell, "execute_reply")))[0]["status"] == "ok"
    await until(lambda: DidMessage("running", 2) in scripted.heard)


BUSY = "import threading\nended = threading.Event()\nthreading.Thread(target=ended.wait).start()"


async def test_what_was_given_up_is_not_parked_after_all(
    scripted: ScriptedBroker, ready: Any, park: Any, until: Any, run: Any, session: Any
) -> None:
    """Once the broker was told that it cannot be parked, nothing moves before it has heard so and agrees anew.

    It takes the lease to run then; a park of before that would leave memory on the host that it knows nothing of.
    """
    kernel_id = await ready()
    await run(kernel_id, BUSY)
    scripted.tell(status="parking", target="parked")
    await until(lambda: [each for each in scripted.heard if isinstance(each, CouldNotMessage)])
    await run(kernel_id, "ended.set()")
    parking = asyncio.ensure_future(park(kernel_id))
    record = session.parking.parkings.of(kernel_id)
    await until(lambda: record.status == "parking" or parking.done())
    for _ in range(30):
        session.lease.look()
        await asyncio.sleep(0.02)
    assert record.parked is None
    assert not [each for each in scripted.heard if isinstance(each, DidMessage) and each.what == "released"]
    assert len([each for each in scripted.heard if isinstance(each, CouldNotMessage)]) == 1
    scripted.tell(status="running", target="running", epoch=2)
    await until(lambda: wanted(scripted, "parked"))
    assert record.parked is None
    scripted.tell(status="parking", target="parked")
    assert (await parking)["status"] == "released"
    await until(lambda: DidMessage("released", 2) in scripted.heard)
