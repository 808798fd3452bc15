"""Sessions drawn from published percentiles, for whoever has no trace.

Sources: the percentiles of executions and of the gaps between them that are known of the Adobe Sensei month (the
NotebookOS paper, arXiv 2503.20591, and its published derivative). Between two percentiles a value is drawn evenly by
its logarithm. What the tail holds is fitted to two more figures of that month: gaps are 73 % of all session time, and
those of up to 8 hours are 9 % of that.
"""

from __future__ import annotations

import itertools
import math
import random
from typing import TYPE_CHECKING, Final

from benchmarks.replay.trace import Execution, Session

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["DURATIONS_MIN", "GAPS_MIN", "drawn", "sessions"]

_MINUTE_S: Final = 60.0
_SPAN_S: Final = 30 * 86400.0
#: (chance of at most this, minutes)
DURATIONS_MIN: Final = ((0.0, 1.0), (0.5, 2.0), (0.75, 6.0), (0.9, 20.0), (0.95, 40.0), (0.99, 220.0), (1.0, 1440.0))
GAPS_MIN: Final = (
    (0.0, 0.2), (0.5, 1.0), (0.735, 2.0), (0.75, 3.0), (0.9, 7.0), (0.935, 10.0), (0.95, 15.0), (0.967, 30.0),
    (0.990, 400.0), (1.0, 30000.0),
)  # fmt: skip
_GPUS: Final = ((1, 0.28), (4, 0.30), (8, 0.42))
_MEDIAN_EXECUTIONS: Final = 57.0
_SIGMA_EXECUTIONS: Final = 1.8


def sessions(count: int, seed: int) -> list[Session]:
    """*count* sessions in thirty days; the same *seed* gives the same ones."""
    rng = random.Random(seed)  # noqa: S311  # a simulation
    return [_session(f"g{number:04}", rng) for number in range(1, count + 1)]


def drawn(percentiles: Sequence[tuple[float, float]], rng: random.Random) -> float:
    """A value with these *percentiles*: pairs of a chance and the value that it does not exceed, both ascending."""
    chance = rng.random()
    for (low, value), (high, larger) in itertools.pairwise(percentiles):
        if chance <= high:
            return value * math.exp(math.log(larger / value) * (chance - low) / (high - low))
    return percentiles[-1][1]


def _session(name: str, rng: random.Random) -> Session:
    gpus = rng.choices([size for size, _ in _GPUS], [weight for _, weight in _GPUS])[0]
    wanted = max(1, round(rng.lognormvariate(math.log(_MEDIAN_EXECUTIONS), _SIGMA_EXECUTIONS)))
    now = rng.uniform(0, _SPAN_S)
    executions: list[Execution] = []
    while len(executions) < wanted and now < _SPAN_S:
        duration = drawn(DURATIONS_MIN, rng) * _MINUTE_S
        executions.append(Execution(now, duration))
        now += duration + drawn(GAPS_MIN, rng) * _MINUTE_S
    return Session(name, gpus, tuple(executions))
