"""What is wished for at the wrong moment, and faults of ours at the worst one, on the state machine by itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jupyter_gpushare.parking.sequence import GpuStateLost, NoRoom
from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.session.parking.view import when_nothing_runs
from tests.session.parking.fakes import Bench
from tests.session.parking.test_words import GB, NOW, view

WHY = Message("BECAUSE", "because.")


@pytest.fixture(autouse=True)
def _begun() -> None:
    """No server is wanted here."""


@pytest.fixture(name="bench")
def _bench() -> Bench:
    return Bench()


async def test_a_wake_that_comes_late_calls_no_wish_off(bench: Bench) -> None:
    """A kernel says that it holds a message; by the time that is heard its gate is open, and a park was asked for."""
    bench.working = True
    asked = bench.parkings.park("K", asked_by="owner", when_idle=True)
    bench.parkings.wake("K", from_inside=True)
    assert (bench.record.status, bench.record.target, bench.record.held_inside) == ("asked", "parked", False)
    bench.working = False
    assert (await asked).refusal is None


async def test_an_interrupt_calls_off_no_wish_of_the_owners(bench: Bench) -> None:
    """Interrupt aborts cells that wait. The Resume button was no cell."""
    await bench.parked()
    bench.parker.trouble = [NoRoom(WHY)] * 3
    bench.parkings.resume("K")
    await bench.parker.refused.wait()
    bench.parkings.interrupted("K")
    await bench.settle()
    assert bench.record.status == "running"


async def test_what_waits_for_a_cell_is_called_off_when_the_kernel_ends(bench: Bench) -> None:
    """Nothing begins to move in a process that is on its way out."""
    bench.working = True
    asked = bench.parkings.park("K", asked_by="owner", when_idle=True)
    assert not await bench.parkings.before_end("K")
    bench.working = False
    assert (await asked).refusal is not None
    assert (bench.record.status, bench.parker.calls) == ("running", [])


async def test_a_kernel_that_ends_behind_its_gate_is_not_moved(bench: Bench) -> None:
    """The order to end it comes while it is examined: it is left alone from then on."""
    bench.on_examine = lambda: setattr(bench.record, "is_ending", True)
    outcome = await bench.parkings.park("K", asked_by="policy")
    assert outcome.refusal is not None
    assert (outcome.refusal.reason.code, bench.parker.calls) == ("KERNEL_ENDED", [])


async def test_what_the_driver_needs_before_a_kill_makes_it_a_plain_one(bench: Bench) -> None:
    """After one more checkpoint the process's own way out would touch a GPU that is not there."""
    await bench.parked()
    bench.parkings.resume("K")
    await bench.settle()
    bench.parker.harms_at_kill = True
    assert await bench.parkings.before_end("K")
    assert not bench.gate.is_open


async def test_a_server_that_stops_does_what_the_driver_needs_first(bench: Bench) -> None:
    """The server ends its kernels after this has stopped, and then nobody could do it."""
    await bench.parked()
    bench.parkings.resume("K")
    await bench.settle()
    await bench.parkings.stop()
    assert "before_kill" in bench.parker.calls


async def test_a_disk_that_is_full_is_no_fault_of_the_kernels(bench: Bench) -> None:
    """People are told that something failed here, not that their kernel does not answer."""
    bench.gate.raises = OSError("disk full")
    outcome = await bench.parkings.park("K", asked_by="owner")
    assert outcome.refusal is not None
    assert outcome.refusal.reason.code == "INTERNAL_ERROR"


async def test_a_resume_is_not_told_any_more_once_something_else_happened(bench: Bench) -> None:
    """That every variable is as it was is true until the next attempt, which may lose them."""
    await bench.parked()
    bench.parkings.resume("K")
    await bench.settle()
    assert bench.record.resumed_at is not None
    await bench.parked()
    bench.parker.trouble = [GpuStateLost(WHY)]
    bench.parkings.resume("K")
    await bench.settle()
    assert bench.record.resumed_at is None


@pytest.mark.parametrize(
    ("held", "read_at", "code"),
    [(6 * GB, NOW - 61, "PARKED"), (6 * GB, NOW - 59, None), (7 * GB, NOW - 61, None), (None, NOW - 61, None)],
)
def test_a_reading_from_before_the_park_is_corrected(held: int | None, read_at: float, code: str | None) -> None:
    """Between the attested park and the next reading nobody is told that what was parked is still held."""
    message: Any = when_nothing_runs([view(status="parked", memory=6 * GB)], held=held, read_at=read_at)
    assert (message.code if message else None) == code


async def test_a_kernel_is_forgotten_in_the_middle_of_its_resume(bench: Bench) -> None:
    """A kernel that dies while it comes back leaves nothing that hangs and no gate of its successor closed."""
    await bench.parked()
    bench.parker.trouble = [NoRoom(WHY)] * 1000
    bench.parkings.resume("K")
    await bench.parker.refused.wait()
    bench.parkings.forget("K")
    async with asyncio.timeout(5):
        await bench.parkings.stop()
    assert bench.parkings.all() == []
