"""The broker's clock and ours: its times are told in ours, so that a deadline leaves as long as it was meant to."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.broker.wire import LeaseModel

__all__ = ["in_our_time"]

# Less is the way of the message, and a lease whose times change with each message would look like a new one.
_THE_SAME_S: Final = 2.0


def in_our_time(lease: LeaseModel, at: float | None, clock: Callable[[], float] = time.time) -> LeaseModel:
    """*lease* with its moments by our clock, told when the broker's said *at*; None when it did not say.

    The broker's clock does not jump, and ours may have been set, or have gone on while the machine was asleep. When
    it was first asked for stays as it is: that is its place in line, and no moment to count from.
    """
    ahead = 0.0 if at is None else clock() - at
    if abs(ahead) < _THE_SAME_S:
        return lease
    deadline = None if lease.deadline is None else lease.deadline + ahead
    return msgspec.structs.replace(lease, since=lease.since + ahead, deadline=deadline)
