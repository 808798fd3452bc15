"""How it is with parking, as people see it: one kernel's `ParkingModel`, and the part of the session's state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_gpushare.parking.verdict import NotParkable, Parkable
from jupyter_gpushare.session.idle.policy import BusyButQuiet, Idle
from jupyter_gpushare.session.parking import sentences as say
from jupyter_gpushare.session.wire import MessageModel, ParkingModel

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jupyter_gpushare.parking.speed import Speed
    from jupyter_gpushare.parking.verdict import Verdict
    from jupyter_gpushare.rules.message import Message
    from jupyter_gpushare.session.idle.policy import Judgement
    from jupyter_gpushare.session.parking.record import Parking
    from jupyter_gpushare.session.wire import ParkStatus, PolicyModel

__all__ = ["KernelParking", "most_pressing"]

_RESUMED_SHOWN_S = 8.0


@dataclass(frozen=True, slots=True)
class KernelParking:
    """Everything about one kernel's parking at one moment.

    Attributes:
        record: where it is and where it should be.
        verdict: whether it could be parked, None while nobody has looked.
        judgement: how idle it is, None while it holds nothing or is parked.
        ends_at: when its countdown ends, None while none runs.
        kept_until: until when the owner keeps it, None where they do not.
        held: what waits for it.
        moved: bytes that have moved, None where that cannot be told.
        policy: when it is parked by itself.
        speed: how fast memory moves here.
        now: the moment, in seconds since the epoch.
        looked_at: when the look began that *verdict* comes from, in seconds since the epoch.
    """

    record: Parking
    verdict: Verdict | None
    judgement: Judgement | None
    ends_at: float | None
    kept_until: float | None
    held: int
    moved: int | None
    policy: PolicyModel
    speed: Speed
    now: float
    looked_at: float = 0.0

    @property
    def status(self) -> ParkStatus:
        """The record's status; a countdown is one of the idle policy's."""
        counting = self.record.status == "running" and self.ends_at is not None
        return "counting_down" if counting else self.record.status

    def model(self) -> ParkingModel:
        """As it travels."""
        refusal = self._refusal()
        return ParkingModel(
            status=self.status,
            since=self._since(),
            message=_model(self.message()),
            memory=self._memory(),
            moved=self.moved,
            expected_s=self._expected_s(),
            parks_at=self.ends_at if self.status == "counting_down" else None,
            kept_until=self.kept_until,
            held=self.held,
            refusal=None if refusal is None else _model(refusal.reason),
            remedy=None if refusal is None else _model(refusal.remedy),
            caution=_model(self.verdict.caution)
            if isinstance(self.verdict, Parkable) and self.verdict.caution
            else None,
            policy=self.policy,
        )

    def message(self) -> Message:
        """The one sentence about this kernel's parking now."""
        record, memory = self.record, self._memory()
        match record.status:
            case "asked":
                return say.asked(memory)
            case "parking":
                return say.parking(memory, self.moved)
            case "parked":
                return say.parked(memory or 0, record.since, self._expected_s())
            case "waiting":
                return say.waiting_for_room(memory or 0, record.why)
            case "resuming":
                return say.resuming(memory or 0, self.moved)
            case "running":
                return self._running()

    def _running(self) -> Message:
        """On its GPU: what has just happened, then what is about to, then what could."""
        return self._by_what_happens() or (say.kept(self.kept_until) if self.kept_until else self._by_what_could_be())

    def _by_what_happens(self) -> Message | None:
        resumed_at = self.record.resumed_at
        if resumed_at is not None and self.now - resumed_at < _RESUMED_SHOWN_S:
            return say.resumed(self.record.resumed_s)
        if isinstance(self.judgement, Idle) and self.ends_at is not None:
            return say.counting_down(self.judgement.since, self.ends_at, self.now)
        if isinstance(self.judgement, BusyButQuiet):
            return say.busy_but_quiet(self.judgement.since, self.now)
        return None

    def _by_what_could_be(self) -> Message:
        refusal = self._refusal()
        if refusal is not None:
            return say.cannot_park(refusal)
        if isinstance(self.verdict, Parkable):
            return say.parkable(self.verdict.memory, self.verdict.park_s)
        return say.not_looked_yet()

    def _since(self) -> float:
        """When the status began; for a countdown, when people were first warned."""
        idle = self.judgement
        if self.status == "counting_down" and isinstance(idle, Idle) and idle.warns_at is not None:
            return idle.warns_at
        return self.record.since

    def _refusal(self) -> NotParkable | None:
        """Why it cannot be parked, by the newest look; a failed attempt counts until somebody has looked again."""
        if self.record.status != "running":
            return None
        if isinstance(self.verdict, NotParkable):
            return self.verdict
        return None if self.looked_at > self.record.refused_at else self.record.refusal

    def _memory(self) -> int | None:
        if self.record.memory is not None:
            return self.record.memory
        if self.record.status == "parking":
            return None  # cached memory is freed first, and only what is left will move
        return self.verdict.memory if isinstance(self.verdict, Parkable) else None

    def _expected_s(self) -> float | None:
        memory = self._memory()
        if memory is None:
            return None
        off = self.record.status in ("parked", "waiting", "resuming")
        return self.speed.resume_s(memory) if off else self.speed.park_s(memory)


def most_pressing(parkings: Iterable[KernelParking]) -> Message | None:
    """What the session's state is while something of it moves, waits or has just come back; None for nothing."""
    ranked = {"waiting": 0, "resuming": 1, "parking": 2}
    urgent = sorted(
        (each for each in parkings if each.status in ranked), key=lambda each: (ranked[each.status], each.record.since)
    )
    return urgent[0].message() if urgent else None


def when_nothing_runs(
    parkings: Sequence[KernelParking], *, held: int | None, read_at: float = float("inf")
) -> Message | None:
    """What the session's state is while no cell runs: all parked, counting down, kept; None where parking says nothing.

    Args:
        parkings: of all kernels.
        held: bytes that the session holds on its devices; None while unknown.
        read_at: when that was read, in seconds since the epoch. What was parked later is not held any more.
    """
    parked = [each for each in parkings if each.status == "parked"]
    gone = sum(each.record.memory or 0 for each in parked if each.record.since > read_at)
    if parked and held is not None and held <= gone:
        memory = sum(each.record.memory or 0 for each in parked)
        since = max(each.record.since for each in parked)
        return say.parked(memory, since, max(each.model().expected_s or 0 for each in parked))
    counting = [each for each in parkings if each.status == "counting_down"]
    if counting:
        return min(counting, key=lambda each: each.model().parks_at or 0).message()
    kept = [each.kept_until for each in parkings if each.kept_until is not None and each.status == "running"]
    return say.kept(max(kept)) if kept and held else None


def just_resumed(parkings: Iterable[KernelParking]) -> Message | None:
    """A resume that has just ended."""
    back = [each for each in parkings if each.status == "running" and each.message().code == "RESUMED"]
    return max(back, key=lambda each: each.record.resumed_at or 0).message() if back else None


def busy_but_quiet(parkings: Iterable[KernelParking]) -> Message | None:
    """A cell that runs while its GPU does nothing."""
    quiet = [each for each in parkings if each.status == "running" and isinstance(each.judgement, BusyButQuiet)]
    return quiet[0].message() if quiet else None


def _model(message: Message) -> MessageModel:
    return MessageModel.of(message)
