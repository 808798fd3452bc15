"""The state machine by itself: every failure is undone, nothing waits behind a closed gate, no wish is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from jupyter_gpushare.parking.checkpoint import CheckpointError
from jupyter_gpushare.parking.sequence import GpuStateLost, NoRoom, Parked, ParkFailed
from jupyter_gpushare.parking.verdict import NotParkable
from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.session.parking.parts import Examined
from tests.session.parking.fakes import TARGET, Bench

WHY = Message("BECAUSE", "because.")


@pytest.fixture(name="bench")
def _bench() -> Bench:
    return Bench()


async def reason(bench: Bench, **options: Any) -> str:
    """Why a park was refused."""
    outcome = await bench.parkings.park("K", asked_by="owner", **options)
    assert outcome.refusal is not None
    await bench.settle()
    return outcome.refusal.reason.code


async def test_the_gate_closes_for_a_park_and_opens_after_the_resume(bench: Bench) -> None:
    """As long as the state is away nothing may reach the kernel; a resume opens the gate last."""
    await bench.parked()
    assert (bench.record.status, bench.gate.is_open) == ("parked", False)
    assert bench.parkings.resume("K")
    await bench.settle()
    assert (bench.record.status, bench.gate.is_open, bench.tally.told) == ("running", True, ["parked", "resumed"])


@pytest.mark.parametrize("trouble", [ParkFailed(WHY), RuntimeError("ours")])
async def test_a_failed_park_opens_the_gate(bench: Bench, trouble: Exception) -> None:
    """Whatever the Parker raises, the notebook goes on and the reason is kept for people."""
    bench.parker.trouble = [trouble]
    await reason(bench)
    assert (bench.record.status, bench.gate.is_open) == ("running", True)
    assert bench.record.refusal is not None


async def test_a_kernel_that_does_not_become_quiet_is_not_touched(bench: Bench) -> None:
    """Without the barrier nothing proves that no cell is in flight, so the Parker is never called."""
    bench.gate.raises = TimeoutError("no answer")
    assert await reason(bench) == "KERNEL_DID_NOT_ANSWER"
    assert (bench.gate.is_open, bench.parker.calls) == (True, [])


async def test_a_refusal_by_preflight_opens_the_gate(bench: Bench) -> None:
    """What preflight finds behind the closed gate ends the attempt before the driver is asked anything."""
    bench.examined = Examined(NotParkable(WHY, WHY), None)
    assert await reason(bench) == "BECAUSE"
    assert (bench.gate.is_open, bench.parker.calls, bench.tally.told) == (True, [], ["BECAUSE"])


async def test_a_cell_that_comes_before_the_move_goes_first(bench: Bench) -> None:
    """A message held during the examination ends the attempt: the cell must not wait for a copy."""
    bench.on_examine = lambda: setattr(bench.gate, "held", 1)
    assert await reason(bench) == "CELL_CAME"
    assert (bench.parker.calls, bench.gate.is_open) == ([], True)


async def test_a_cell_that_comes_during_the_move_is_served_right_after(bench: Bench) -> None:
    """The copy is finished, as it cannot be stopped safely, and the kernel comes back at once."""
    bench.parker.waits = asyncio.Event()
    asked = bench.parkings.park("K", asked_by="policy")
    await bench.parker.began.wait()
    bench.gate.held = 1
    bench.parkings.wake("K")
    bench.parker.waits.set()
    assert (await asked).refusal is None
    await bench.settle()
    assert (bench.record.status, bench.parker.calls, bench.gate.is_open) == ("running", ["park", "resume"], True)


async def test_without_room_it_waits_and_comes_back(bench: Bench) -> None:
    """No room is a state to wait in, with its reason; faults of the driver are waited out alike."""
    await bench.parked()
    bench.parker.trouble = [NoRoom(WHY), CheckpointError("died", "gone"), NoRoom(WHY)]
    bench.parkings.resume("K")
    await bench.settle()
    assert (bench.record.status, bench.parker.calls.count("resume")) == ("running", 4)


async def test_nothing_waiting_any_more_ends_the_wait(bench: Bench) -> None:
    """A resume that only a held cell wanted is called off with that cell; one that the owner wanted is not."""
    await bench.parked()
    bench.gate.held = 1
    bench.parker.trouble = [NoRoom(WHY)] * 3
    bench.parkings.wake("K")
    await bench.parker.refused.wait()
    bench.gate.held = 0
    await bench.settle()
    assert (bench.record.status, bench.gate.is_open) == ("parked", False)


async def test_what_waits_inside_the_kernel_keeps_it_coming(bench: Bench) -> None:
    """A message held inside is not counted at the gate and must not be forgotten for it."""
    await bench.parked()
    bench.parker.trouble = [NoRoom(WHY)] * 3
    bench.parkings.wake("K", from_inside=True)
    await bench.settle()
    assert bench.record.status == "running"


async def test_a_lost_state_is_said_plainly(bench: Bench) -> None:
    """The gate opens, since the kernel still has its other variables, and people hear of the loss."""
    await bench.parked()
    bench.parker.trouble = [GpuStateLost(WHY)]
    bench.parkings.resume("K")
    await bench.settle()
    assert (bench.record.status, bench.gate.is_open, bench.tally.told[-1]) == ("running", True, "lost")
    (notice,) = bench.notices.models()
    assert (notice.kind, "eda.ipynb" in notice.message.text) == ("loss", True)


async def test_what_could_not_be_undone_stays_safe_and_comes_back(bench: Bench) -> None:
    """When the room was taken before the undo, the kernel stays parked and is resumed as any other."""
    bench.parker.trouble = [ParkFailed(WHY, undone=False, leftover=Parked(TARGET, 0.0, 0.1)), NoRoom(WHY)]
    assert await reason(bench) == "BECAUSE"
    assert (bench.record.status, bench.parker.calls) == ("running", ["park", "resume", "resume"])


async def test_asked_for_while_a_cell_runs(bench: Bench) -> None:
    """Now is refused; when idle waits for the end of the cell, and through other cells that come first."""
    bench.working = True
    assert await reason(bench) == "CELL_RUNNING"
    asked = bench.parkings.park("K", asked_by="owner", when_idle=True)
    assert bench.record.status == "asked"
    assert await asyncio.wait([asked], timeout=0.05) == (set(), {asked})
    examined: list[int] = []

    def a_cell_comes_first() -> None:
        examined.append(1)
        bench.gate.held = len(examined) == 1

    bench.on_examine = a_cell_comes_first
    bench.working = False
    assert (await asked).refusal is None
    assert len(examined) == 2


async def test_a_wish_to_park_again_waits_for_the_cell_it_comes_back_for(bench: Bench) -> None:
    """`%gpushare release` in a notebook that is coming back parks it once more, after its cells."""
    await bench.parked()
    bench.gate.held = 1
    bench.parker.trouble = [NoRoom(WHY)] * 2
    bench.parkings.wake("K")
    asked = bench.parkings.park("K", asked_by="owner", when_idle=True)
    assert (await asked).refusal is None
    await bench.settle()
    assert (bench.record.status, bench.parker.calls) == ("parked", ["park", "resume", "resume", "resume", "park"])


async def test_an_ended_kernel_is_forgotten(bench: Bench) -> None:
    """A kernel that ends while it is parked or moving leaves no task, no booking and no future that hangs."""
    bench.parker.waits = asyncio.Event()
    asked = bench.parkings.park("K", asked_by="owner")
    await bench.parker.began.wait()
    assert await bench.parkings.before_end("K")
    bench.parkings.forget("K")
    outcome = await asked
    assert outcome.refusal is not None
    assert outcome.refusal.reason.code == "KERNEL_ENDED"
    await bench.parkings.stop()
    assert bench.parker.calls[-1] == "forget"


async def test_a_kernel_that_is_being_ended_is_left_alone(bench: Bench) -> None:
    """Between the order to end it and its end nothing is moved: the answer would be about a process that is gone."""
    await bench.parked()
    assert await bench.parkings.before_end("K")
    assert not bench.parkings.resume("K")
    assert await reason(bench) == "KERNEL_ENDED"
    assert "before_kill" in bench.parker.calls


async def test_a_gate_that_does_not_open_is_tried_again(bench: Bench) -> None:
    """A full disk must not leave a notebook behind a closed gate for ever."""
    await bench.parked()
    bench.gate.fails_to_open = 3
    bench.parkings.resume("K")
    await bench.settle()
    for _ in range(100):
        if bench.gate.is_open:
            break
        await asyncio.sleep(0.02)
    assert bench.gate.is_open


async def test_a_server_that_stops_says_what_was_parked(bench: Bench) -> None:
    """Parked kernels end with their server; nobody is left waiting."""
    await bench.parked()
    assert await bench.parkings.stop() == ["K"]
    assert bench.parkings.all() == []
