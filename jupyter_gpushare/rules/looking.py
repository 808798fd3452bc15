"""When time alone may change something: deadlines, turns, back-off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jupyter_gpushare.rules.lease import Status
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.turns import turn_ends

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["look_again"]


def look_again(snapshot: Snapshot, now: float) -> float | None:
    """The earliest time after *now* at which time alone may change something; None when it cannot."""
    return min((at for at in _times(snapshot, now) if at > now), default=None)


#: Whoever waits for these may be helped by the end of somebody's turn: of a job's, or of an idle session's in a class.
_FOR_A_TURN: Final = frozenset({Reason.WAITING_FOR_MINIMUM_TURN, Reason.WAITING_FOR_DEVICE})


def _times(snapshot: Snapshot, now: float) -> Iterator[float]:
    reasons = set()
    for key in (*snapshot.waiting, *snapshot.unsettled):
        lease = snapshot.leases[key]
        reasons.add(lease.reason)
        yield lease.not_before
        if lease.deadline is not None:
            yield lease.deadline
    if not reasons.isdisjoint(_reasons(snapshot)):
        yield from _ends_of_turns(snapshot, now)


def _reasons(snapshot: Snapshot) -> frozenset[Reason]:
    takes_turns = any(pool.resume == "best-effort" for pool in snapshot.pools.values())
    return _FOR_A_TURN if takes_turns else _FOR_A_TURN - {Reason.WAITING_FOR_DEVICE}


def _ends_of_turns(snapshot: Snapshot, now: float) -> Iterator[float]:
    """Only where somebody waits for one are the many leases looked through, and few of them closely."""
    since = now - max((pool.minimum_turn_s for pool in snapshot.pools.values()), default=0.0)
    for lease in snapshot.leases.values():
        if (lease.turn_began > since or lease.not_before > now) and lease.status in (Status.GRANTED, Status.RUNNING):
            yield turn_ends(snapshot, lease)
            yield lease.not_before
