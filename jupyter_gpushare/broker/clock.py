"""What time it is for the rules: seconds since the epoch that only go forward, whatever the system's clock does."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Clock", "SteadyClock", "VirtualClock"]


class Clock(Protocol):
    """Tells the time, and waits for it."""

    def now(self) -> float:
        """Seconds since the epoch."""

    async def until(self, at: float) -> None:
        """Return when it is *at*, at once when that is past."""


class SteadyClock:
    """The wall clock at the start, and seconds of the monotonic clock since: a clock that is set changes nothing."""

    def __init__(self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._offset = wall() - monotonic()

    def now(self) -> float:
        """Seconds since the epoch, as of the start of this clock."""
        return self._offset + self._monotonic()

    async def until(self, at: float) -> None:
        """Return when it is *at*."""
        # Timers of the event loop follow the monotonic clock too, and may ring a moment early.
        if (left := at - self.now()) > 0:
            await asyncio.sleep(left)


class VirtualClock:
    """Time that moves only when told to: for replays and tests."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self._now = now
        self._order = itertools.count()
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        """The moment that it was moved to last."""
        return self._now

    async def until(self, at: float) -> None:
        """Return when it was moved to *at* or beyond."""
        if at > self._now:
            woken = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (at, next(self._order), woken))
            await woken

    def advance(self, seconds: float) -> None:
        """Move on by *seconds*; whoever waited for a moment in them wakes in that order.

        Raises:
            ValueError: time does not go back.
        """
        if not seconds >= 0:
            raise ValueError(f"seconds: {seconds} would turn time back; give 0 or more")
        self._now += seconds
        while self._waiting and self._waiting[0][0] <= self._now:
            _, _, woken = heapq.heappop(self._waiting)
            if not woken.done():
                woken.set_result(None)
