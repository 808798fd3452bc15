"""The one entrance: events go in, the next books and what changed come out. No I/O, no clock, replayable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_gpushare.rules.change import Change
    from jupyter_gpushare.rules.event import Event
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["Step", "step"]


@dataclass(frozen=True, slots=True)
class Step:
    """The books after it; what changed, to be kept before anything is said or done about it.

    *look_again* is the earliest time at which time alone may change something; None when it cannot.
    """

    snapshot: Snapshot
    change: Change
    look_again: float | None


def step(snapshot: Snapshot, events: Iterable[Event], now: float) -> Step:
    """Take in *events*, one after the other, and decide until there is nothing left to decide.

    Events of the past are harmless: one that is repeated, stale (its epoch is over) or about an unknown lease changes
    nothing but, where somebody may want to know, the audit.
    """
    raise NotImplementedError
