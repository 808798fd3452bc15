"""Who restores where there is no room any more waits in line again (DESIGN 5: what is over-committed is drained).

A session that came back alone has taken the room for which somebody was told to restore. A holder restores only with
proof of room (DESIGN 7), so that one would wait without a word, and meanwhile nobody else could restore on the device.
With a new epoch it leaves, and its old one starts nothing any more. Memory of strangers sends nobody away: it comes and
goes, and a restore that has its proof of room already is not disturbed for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.audit import entry
from jupyter_gpushare.rules.change import Change, Verb
from jupyter_gpushare.rules.copies import deadline_of, is_overdue
from jupyter_gpushare.rules.lease import Status
from jupyter_gpushare.rules.standing import leaving

if TYPE_CHECKING:
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["step_back"]


def step_back(snapshot: Snapshot, now: float) -> Change:
    """Those that restore on devices on which more is held than there is, also without those that leave soon."""
    restoring = [lease for key in snapshot.unsettled if (lease := snapshot.leases[key]).status is Status.RESUMING]
    change = Change()
    for lease in sorted(restoring, key=lambda lease: lease.id):
        if any(_is_too_full(snapshot, uuid, lease, now) for uuid in lease.devices):
            after = deadline_of(snapshot, lease.enter(Status.PARKING, now, epoch=lease.epoch + 1), now)
            line = entry(after, Verb.NOT_PARKED, now, details={"could_not": "resume"})
            change = change.then(Change(leases={after.id: after}, audit=(line,)))
    return change


def _is_too_full(snapshot: Snapshot, uuid: str, lease: Lease, now: float) -> bool:
    excess = snapshot.device_books[uuid].held.millionths - Fraction.PER_GPU
    if excess <= 0:
        return False
    others = (each for each in leaving(snapshot) if each.id != lease.id and _leaves_soon(snapshot, each, now))
    return excess > sum(part.amount.millionths for each in others for part in each.grants if part.device == uuid)


def _leaves_soon(snapshot: Snapshot, lease: Lease, now: float) -> bool:
    return lease.is_called or not is_overdue(snapshot, lease, now)
