"""The session's recent use, in a ring that never grows."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from jupyter_gpushare.session.wire import HistoryModel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_gpushare.devices.device import Reading

__all__ = ["History"]


class History:
    """Points of (time, memory, utilisation), at most one per *interval_s*, for the last *length_s* seconds."""

    def __init__(self, *, length_s: float, interval_s: float) -> None:
        self.interval_s = interval_s
        self._length_s = length_s
        self._points: deque[tuple[float, int | None, int | None]] = deque(maxlen=max(1, int(length_s / interval_s)))

    def add(self, at: float, memory: Reading, utilisation: Reading) -> None:
        """Remember one moment, unless the last one is nearer than half an interval."""
        if self._points and 0 <= at - self._points[-1][0] < self.interval_s / 2:
            return
        while self._points and at - self._points[0][0] > self._length_s:
            self._points.popleft()
        self._points.append((at, memory.value, utilisation.value))

    def model(self, parked: Sequence[list[float]] = (), lent: Sequence[list[float]] = ()) -> HistoryModel:
        """The points as columns, oldest first, with the intervals in which the share was handed back, and lent."""
        points = list(self._points)
        return HistoryModel(
            interval_s=self.interval_s,
            at=[point[0] for point in points],
            memory=[point[1] for point in points],
            utilisation=[point[2] for point in points],
            parked=list(parked),
            lent=list(lent),
        )
