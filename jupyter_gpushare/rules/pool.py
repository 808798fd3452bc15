"""Devices under one admin policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from jupyter_gpushare.quantity import Fraction

__all__ = ["Pool"]


@dataclass(frozen=True, slots=True)
class Pool:
    """One policy (DESIGN 2, 5).

    Attributes:
        name: unique.
        parking: whether idle sessions are parked; ``observe`` parks none and reports.
        isolation: the mode of DESIGN 8. What cannot be parked under it is never lent against.
        resume: ``guaranteed`` lends to training only; ``best-effort`` lends to sessions too.
        oversubscribe: how much of a device may be promised to sessions; more than one GPU only with ``best-effort``.
        placement: fill devices one after the other, or use all of them.
        consolidation: whether training inside its fair share may be moved to make a claim fit.
        minimum_turn_s: how long a grant is left alone, except by a ``guaranteed`` resume.
        backoff_s: a job's next turn begins so long after its first one at the earliest; doubles with each turn that it
            loses, up to 32 times this.
        grace_s: what a job gets to save itself when it does not say.
        lend_at_least_s: how long a lend is expected to last; a job whose start and park cost more gets none.
        idle_timeout_s: after how long an idle session is to be parked, unless its owner says otherwise.
    """

    name: str
    parking: Literal["off", "observe", "park"] = "park"
    isolation: str = "caps"
    resume: Literal["guaranteed", "best-effort"] = "guaranteed"
    oversubscribe: Fraction = Fraction.ONE
    placement: Literal["binpack", "spread"] = "binpack"
    consolidation: bool = False
    minimum_turn_s: float = 120.0
    backoff_s: float = 10.0
    grace_s: float = 30.0
    lend_at_least_s: float = 60.0
    idle_timeout_s: float = 600.0
