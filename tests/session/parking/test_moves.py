"""The order of a park and of a resume: what each step must have seen before it, with parts that note when they came."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.devices.identity import Identity
from jupyter_gpushare.parking.sequence import NoRoom, Parked, Resumed, Target
from jupyter_gpushare.parking.verdict import NotParkable, Parkable
from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.session.gate.gate import BarrierFailed
from jupyter_gpushare.session.idle.observer import Tally as Did
from jupyter_gpushare.session.notices import Notices
from jupyter_gpushare.session.parking.moves import KernelSight, Moves, ParkingDeadlines
from jupyter_gpushare.session.parking.parts import Examined
from jupyter_gpushare.session.parking.record import Parking
from jupyter_gpushare.session.parking.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.parking.sequence import Step
    from jupyter_gpushare.parking.verdict import Verdict

TARGET = Target("kernel", (Identity(1, 1),), {"GPU0": 1 << 30})


@pytest.fixture(autouse=True)
def _begun() -> None:
    """No server is wanted here."""


class Parts:
    """A gate, a Parker and an examiner of one kernel that is never quiet, or never has room, when told so."""

    def __init__(self) -> None:
        self.came: list[str] = []
        self.is_quiet = True
        self.has_room = True
        self.verdict: Verdict = Parkable(1 << 30, 1.0, 1.0)
        self.held = 0

    async def close(self) -> None:
        self.came.append("close")

    async def barrier(self, deadline_s: float) -> None:
        self.came.append("barrier")
        if not self.is_quiet:
            raise BarrierFailed(f"the kernel did not answer within {deadline_s:g} s")

    def open(self) -> None:
        self.came.append("open")

    async def examine(self, kernel_id: str) -> Examined:
        assert kernel_id == "kernel"
        self.came.append("examine")
        return Examined(self.verdict, TARGET)

    async def park(self, target: Target, began: Callable[[Step], None]) -> Parked:  # noqa: ARG002
        self.came.append("park")
        return Parked(target, 0.0, 0.0)

    async def resume(self, parked: Parked, began: Callable[[Step], None]) -> Resumed:  # noqa: ARG002
        self.came.append("resume")
        if not self.has_room:
            raise NoRoom(Message("NO_ROOM", "no room"))
        return Resumed(0.0)

    async def forget(self, kernel_id: str) -> None:
        raise NotImplementedError

    async def before_kill(self, kernel_id: str) -> bool:
        raise NotImplementedError

    def answer_for_frozen(self, frozen: bool) -> None:  # noqa: FBT001  # as the real one
        raise NotImplementedError

    def disturb(self) -> None:
        raise NotImplementedError


class OneGate:
    """The gates of a server with one kernel."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def of(self, kernel_id: str) -> Parts:
        assert kernel_id == "kernel"
        return self._parts

    def can_gate(self, kernel_id: str) -> bool:
        raise NotImplementedError

    def environment(self, kernel_id: str) -> dict[str, str]:
        raise NotImplementedError

    def forget(self, kernel_id: str) -> None:
        raise NotImplementedError


@pytest.fixture(name="parts")
def _parts() -> Parts:
    return Parts()


@pytest.fixture(name="moves")
def _moves(parts: Parts) -> Moves:
    async def free_cache(kernel_id: str) -> None:
        parts.came.append("free_cache")

    return Moves(
        gates=OneGate(parts),
        parker=parts,
        kernels=KernelSight(is_working=lambda _: False, is_busy=lambda _: False, label=str),
        examine=parts.examine,
        free_cache=free_cache,
        tally=Tally(lambda *_: None, Did()),
        notices=Notices(),
        changed=lambda: None,
        deadlines=ParkingDeadlines(),
        log=logging.getLogger("moves"),
    )


def test_a_kernel_is_touched_only_behind_its_closed_gate(parts: Parts, moves: Moves) -> None:
    """The gate closes, the barrier holds, only then is the kernel examined and moved; the gate stays closed."""
    parking = Parking("kernel", target="parked")
    asyncio.run(moves.park(parking))
    assert parts.came == ["close", "barrier", "free_cache", "examine", "park"]
    assert parking.status == "parked"


def test_a_kernel_that_does_not_become_quiet_is_not_touched(parts: Parts, moves: Moves) -> None:
    """Only the barrier tells that nothing is in flight: without it nothing is looked at, and the gate opens again."""
    parts.is_quiet = False
    parking = Parking("kernel", target="parked")
    asyncio.run(moves.park(parking))
    assert parts.came == ["close", "barrier", "open"]
    assert parking.status == "running"
    assert parking.refusal is not None
    assert parking.refusal.reason.code == "KERNEL_DID_NOT_ANSWER"


def test_what_preflight_refuses_is_not_moved(parts: Parts, moves: Moves) -> None:
    """A refusal is final for this attempt, with its own reason; the kernel goes on."""
    parts.verdict = NotParkable(
        Message("BACKGROUND_WORK", "a thread runs."), Message("BACKGROUND_WORK_REMEDY", "Wait.")
    )
    parking = Parking("kernel", target="parked")
    asyncio.run(moves.park(parking))
    assert parts.came == ["close", "barrier", "free_cache", "examine", "open"]
    assert parking.refusal == parts.verdict


@pytest.mark.parametrize(("has_room", "came"), [(False, ["resume"]), (True, ["resume", "open"])])
def test_the_gate_opens_last(parts: Parts, moves: Moves, came: list[str], *, has_room: bool) -> None:
    """No cell reaches a kernel before its GPU state is back, however often that has to be tried."""
    parts.has_room = has_room
    parking = Parking("kernel", status="parked", parked=Parked(TARGET, 0.0, 0.0))
    assert asyncio.run(moves.resume(parking)) is has_room
    assert parts.came == came
    assert parking.status == ("running" if has_room else "waiting")
