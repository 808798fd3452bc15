"""What parking did: counts for Prometheus, and the intervals in which the share was handed back."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Literal

from jupyter_gpushare.session import metrics

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.session.idle.observer import Tally as Did

__all__ = ["HandedBack", "Intervals", "Tally"]


class Tally:
    """Counts for Prometheus and for the report (*did*), and has *learn* know how long a move of so many bytes took."""

    def __init__(self, learn: Callable[[Literal["park", "resume"], int, float], None], did: Did) -> None:
        self._learn = learn
        self._did = did

    def parked(self, kernel_id: str, memory: int, took_s: float, moved_s: float) -> None:
        """Something was parked: so many bytes, so many seconds after its gate closed; the move alone took *moved_s*."""
        self._did.parked(kernel_id)
        self._learn("park", memory, moved_s)
        metrics.count_park(memory, took_s)

    def resumed(self, kernel_id: str, memory: int, took_s: float) -> None:
        """Something came back, in so many seconds."""
        self._did.resumed(kernel_id)
        self._learn("resume", memory, took_s)
        metrics.count_resume(memory, took_s)

    def refused(self, code: str) -> None:
        """Something could not be parked."""
        metrics.count_refusal(code)

    def lost(self) -> None:
        """A kernel's GPU state was lost: it should never happen, so it is counted."""
        metrics.count_lost_state()


class Intervals:
    """When something was so.

    Args:
        kept_s: how long intervals are remembered; at least a day, as people are told of today.
        clock: seconds since the epoch.
    """

    def __init__(self, kept_s: float = 2 * 86400.0, clock: Callable[[], float] = time.time) -> None:
        self._kept_s = kept_s
        self._clock = clock
        self._ended: deque[tuple[float, float]] = deque()
        self._began: float | None = None

    def look(self, *, is_so: bool) -> None:
        """Take note of how it is now."""
        now = self._clock()
        if is_so and self._began is None:
            self._began = now
        elif not is_so and self._began is not None:
            self._ended.append((self._began, now))
            self._began = None
        while self._ended and now - self._ended[0][1] > self._kept_s:
            self._ended.popleft()

    def intervals(self, last_s: float) -> list[list[float]]:
        """Those of the last so many seconds, oldest first; the one that goes on ends now."""
        now = self._clock()
        return [[max(begin, now - last_s), end] for begin, end in self._all(now) if end > now - last_s]

    def _all(self, now: float) -> list[tuple[float, float]]:
        return [*self._ended, *([] if self._began is None else [(self._began, now)])]


class HandedBack(Intervals):
    """The intervals in which the share was handed back: something was parked, and nothing else held a GPU.

    Per session and not per kernel: as long as one kernel holds a GPU the session has it.
    """

    def today_s(self) -> float:
        """Seconds since midnight, by the server's clock."""
        now = self._clock()
        midnight = time.mktime((*time.localtime(now)[:3], 0, 0, 0, 0, 0, -1))
        return sum(end - max(begin, midnight) for begin, end in self._all(now) if end > midnight)
