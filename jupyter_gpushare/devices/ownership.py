"""Whose the listed processes are, without asking the process tables anew every second."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from jupyter_gpushare.devices.attribution import Owner

__all__ = ["Ownership"]

_FRESH_S: Final = 10.0


class Ownership:
    """Remembers owners, and who has a device open, while the driver lists the same processes; 10 s at most.

    A process id that is used again is the reason to forget: with the list unchanged the driver would have had to list
    the new process in the place of the old one between two readings.

    Args:
        owner_of: the owner of a local process, None for one that is not of this session.
        has_open: which of some local processes have a device open.
        clock: seconds that only go forward.
    """

    def __init__(
        self,
        owner_of: Callable[[int], Owner | None],
        has_open: Callable[[Collection[int]], frozenset[int]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask_owner = owner_of
        self._ask_open = has_open
        self._clock = clock
        self._listed: frozenset[int] = frozenset()
        self._roots: Mapping[int, Owner] = {}
        self._since = -float("inf")
        self._owners: dict[int, Owner | None] = {}
        self._open: set[int] = set()

    def begin(self, listed: frozenset[int], roots: Mapping[int, Owner]) -> None:
        """A new reading: forget what was learned for another list or other roots, or too long ago."""
        now = self._clock()
        if listed != self._listed or roots != self._roots or now - self._since >= _FRESH_S:
            self._listed, self._roots, self._since = listed, roots, now
            self._owners.clear()
            self._open.clear()

    def owner_of(self, pid: int) -> Owner | None:
        """The owner of *pid*, None for one that is not of this session."""
        if pid not in self._owners:
            self._owners[pid] = self._ask_owner(pid)
        return self._owners[pid]

    def has_open(self, pids: Collection[int]) -> frozenset[int]:
        """Which of *pids* have a device open. Only a yes is remembered: a device may be opened at any moment."""
        unknown = [pid for pid in pids if pid not in self._open]
        if unknown:
            self._open |= self._ask_open(unknown)
        return frozenset(pid for pid in pids if pid in self._open)
