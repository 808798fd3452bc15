"""How sure a count of failures makes us."""

from __future__ import annotations

import math

__all__ = ["upper_bound"]

_HALVINGS = 100


def upper_bound(failures: int, tries: int, confidence: float = 0.95) -> float:
    """The exact one-sided upper bound (Clopper and Pearson, 1934) of the chance of failure in one try."""
    if failures >= tries:
        return 1.0
    low, high = failures / tries, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _at_most(failures, tries, middle) > 1 - confidence:
            low = middle
        else:
            high = middle
    return high


def _at_most(failures: int, tries: int, chance: float) -> float:
    """The probability of no more than *failures* failures."""
    if not 0 < chance < 1:
        return float(chance <= 0)
    logs = (
        math.lgamma(tries + 1)
        - math.lgamma(k + 1)
        - math.lgamma(tries - k + 1)
        + k * math.log(chance)
        + (tries - k) * math.log1p(-chance)
        for k in range(failures + 1)
    )
    return sum(map(math.exp, logs))
