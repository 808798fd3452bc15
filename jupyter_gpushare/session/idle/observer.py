"""What parking did, and in mode *observe* what it would have done and won."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from jupyter_gpushare.session.idle.observer_sentences import said_of
from jupyter_gpushare.session.wire import MessageModel, ParkingReport

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from jupyter_gpushare.session.wire import ParkingMode

__all__ = ["Observer", "Tally", "resolve_mode"]


def resolve_mode(configured: Literal["auto", "off", "observe", "park"], vendor: str, *, qualified: bool) -> ParkingMode:
    """The mode that holds. *auto* parks on simulated devices, and on real ones only where this host is qualified."""
    if configured != "auto":
        return configured
    return "park" if vendor == "simulated" or qualified else "observe"


class Tally:
    """Counts parks and resumes of one session, and for how long they handed its share back.

    The share is handed back while at least one kernel is parked and nothing else of the session holds a GPU.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._away: set[str] = set()
        self._holding: frozenset[str] = frozenset()
        self._outside = False
        self._back_since: float | None = None
        self._handed_back_s = 0.0
        self.parks = 0
        self.resumes = 0
        self.refusals: dict[str, int] = {}

    @property
    def handed_back_s(self) -> float:
        """Seconds until now."""
        running = 0.0 if self._back_since is None else max(0.0, self._clock() - self._back_since)
        return self._handed_back_s + running

    def parked(self, kernel_id: str) -> None:
        """The kernel's GPU state left the device."""
        if kernel_id not in self._away:
            self.parks += 1
            self._away.add(kernel_id)
            self._settle()

    def resumed(self, kernel_id: str) -> None:
        """It is back on the device."""
        if kernel_id in self._away:
            self.resumes += 1
            self._holding |= {kernel_id}
            self.forget(kernel_id)

    def refused(self, code: str) -> None:
        """A park was due and refused."""
        self.refusals[code] = self.refusals.get(code, 0) + 1

    def holds(self, kernel_ids: Collection[str], *, outside: bool) -> None:
        """Which kernels hold a GPU now, and whether processes of the session outside kernels do."""
        self._holding, self._outside = frozenset(kernel_ids), outside
        self._settle()

    def forget(self, kernel_id: str) -> None:
        """It is parked no more; also when the kernel ended."""
        self._away.discard(kernel_id)
        self._settle()

    def _settle(self) -> None:
        back = bool(self._away) and not self._outside and self._holding <= self._away
        if back and self._back_since is None:
            self._back_since = self._clock()
        elif not back:
            self._handed_back_s, self._back_since = self.handed_back_s, None


class Observer:
    """Two tallies: *did* is what was parked in truth, whoever asked; *would* is what mode *observe* would have parked.

    Args:
        mode: gives the mode that holds now.
        clock: gives the time, in seconds since the epoch.
    """

    def __init__(self, mode: Callable[[], ParkingMode], clock: Callable[[], float] = time.time) -> None:
        self._mode = mode
        self.since = clock()
        self.did = Tally(clock)
        self.would = Tally(clock)

    @property
    def mode(self) -> ParkingMode:
        """The mode that holds now."""
        return self._mode()

    def holds(self, kernel_ids: Collection[str], *, outside: bool) -> None:
        """Which kernels hold a GPU now, and whether processes of the session outside kernels do."""
        for tally in (self.did, self.would):
            tally.holds(kernel_ids, outside=outside)

    def forget(self, kernel_id: str) -> None:
        """The kernel is no more."""
        for tally in (self.did, self.would):
            tally.forget(kernel_id)

    def report(self) -> ParkingReport:
        """What there is to say, for the mode that holds now."""
        mode = self.mode
        tally = self.would if mode == "observe" else self.did
        refused = sum(tally.refusals.values())
        message = said_of(mode, tally.parks, tally.handed_back_s, refused)
        return ParkingReport(
            mode=mode,
            since=self.since,
            parked=tally.parks,
            handed_back_s=tally.handed_back_s,
            resumed=tally.resumes,
            refused=dict(tally.refusals),
            message=MessageModel.of(message),
        )
