"""How much of a device's time each computation got. Pure arithmetic.

Computations that together want more than the device has get equal parts of what they want, as the
driver's time slices give them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Load", "share_of_time"]


class Load(NamedTuple):
    """A computation of *context* that takes *per_cent* of the device's time; *ended* is None while it runs."""

    context: int
    per_cent: float
    began: float
    ended: float | None


def share_of_time(loads: Sequence[Load], begin: float, end: float) -> dict[int, float]:
    """What per cent of one device's time between *begin* and *end* each context got by *loads*, all on this device."""
    got: dict[int, float] = {}
    marks = sorted({begin, end, *(min(max(time, begin), end) for load in loads for time in _span(load, end))})
    for left, right in pairwise(marks):
        running = [load for load in loads if _span(load, end)[0] <= left and _span(load, end)[1] >= right]
        wanted = sum(load.per_cent for load in running)
        for load in running:
            part = load.per_cent * min(1.0, 100 / wanted) if wanted else 0.0
            got[load.context] = got.get(load.context, 0.0) + part * (right - left) / (end - begin)
    return got


def _span(load: Load, now: float) -> tuple[float, float]:
    return load.began, now if load.ended is None else load.ended
