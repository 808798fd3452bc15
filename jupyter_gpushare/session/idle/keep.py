"""Timed locks: their owner keeps a kernel, or the whole session, from being parked by itself."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Keep"]


class Keep:
    """Until when what is kept. Times are seconds since the epoch.

    Args:
        limit_s: the longest that one wish can reach from now.
        clock: gives the time.
    """

    def __init__(self, limit_s: float, *, clock: Callable[[], float] = time.time) -> None:
        self._limit_s = limit_s
        self._clock = clock
        self._session: float | None = None
        self._kernels: dict[str, float] = {}

    def keep(self, seconds: float, kernel_id: str | None = None) -> float | None:
        """Keep one kernel, or the session when None, for so long from now; what holds then, None for nothing.

        0 ends the lock: that of the kernel, or every lock. A kernel stays kept while its session is.

        Raises:
            ValueError: *seconds* is no number of seconds.
        """
        if not math.isfinite(seconds) or seconds < 0:
            raise ValueError(f"seconds: {seconds} is no time to keep something; write for example 3600")
        until = self._clock() + min(seconds, self._limit_s) if seconds else None
        if kernel_id is None:
            self._keep_session(until)
        elif until is None:
            self._kernels.pop(kernel_id, None)
        else:
            self._kernels[kernel_id] = until
        return self.until(kernel_id)

    def until(self, kernel_id: str | None = None) -> float | None:
        """Until when that kernel is kept, by its own lock or the session's; None where it is not."""
        own = self._kernels.get(kernel_id) if kernel_id is not None else None
        latest = max((lock for lock in (self._session, own) if lock is not None), default=None)
        return latest if latest is not None and latest > self._clock() else None

    def forget(self, kernel_id: str) -> None:
        """The kernel is no more."""
        self._kernels.pop(kernel_id, None)

    def _keep_session(self, until: float | None) -> None:
        self._session = until
        if until is None:
            self._kernels.clear()
