"""Sessions are parked: asked for, refused with a reason or booked, and begun as their hosts take another copy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.audit import changed, with_why
from jupyter_gpushare.rules.change import Change, Verb
from jupyter_gpushare.rules.copies import Slots, deadline_of, host_of
from jupyter_gpushare.rules.host_memory import copy_of, fits_session, most
from jupyter_gpushare.rules.lease import Status, Target
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.turns import pool_of

if TYPE_CHECKING:
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["ask_to_park", "begin_parks", "refuse_to_park", "refused_because"]


def refused_because(snapshot: Snapshot, lease: Lease, memory: Memory) -> Reason | None:
    """Why this session cannot be parked now with a copy of *memory*; None if it can."""
    if snapshot.is_parking_stopped:
        return Reason.PARKING_STOPPED
    if pool_of(snapshot, lease).parking == "off":
        return Reason.PARKING_IS_OFF
    if not lease.is_parkable:
        return Reason.NOT_PARKABLE
    return None if fits_session(snapshot, lease, memory) else Reason.NO_HOST_MEMORY


def ask_to_park(
    snapshot: Snapshot, lease: Lease, now: float, *, memory: Memory | None, by: str, because_of: str = "", why: str = ""
) -> Change:
    """Book the host memory for a session that has its share, and have it parked; or refuse, and say why.

    *memory* of None books what it is known to hold; more than its devices have is never booked.
    """
    size = copy_of(snapshot, lease) if memory is None else min(memory, most(snapshot, lease))
    reason = refused_because(snapshot, lease, size)
    if reason is not None:
        return refuse_to_park(lease, reason, now, by=by)
    wanted = Reason.TURN_IS_OVER if because_of else None
    after = lease.evolve(target=Target.PARKED, host_memory=size, reason=wanted, because_of=because_of)
    details = with_why({"memory": size.human}, why)
    return changed(after, Verb.ASKED_TO_PARK, now, by=by, details=details)


def refuse_to_park(lease: Lease, reason: Reason, now: float, *, by: str) -> Change:
    """It goes on running, nothing is booked for it, and the audit says why."""
    after = lease.evolve(target=Target.RUNNING, host_memory=Memory.ZERO, reason=reason, because_of="")
    return changed(after, Verb.NOT_PARKED, now, by=by)


def begin_parks(snapshot: Snapshot, now: float) -> Change:
    """Those that were asked begin to park, as many at once as their hosts take, longest asked first."""
    asked = [lease for key in snapshot.unsettled if _is_asked(lease := snapshot.leases[key])]
    if not asked:
        return Change()
    slots, change = Slots(snapshot, now), Change()
    for lease in sorted(asked, key=lambda lease: (lease.since, lease.id)):
        change = change.then(_begin(snapshot, lease, slots, now))
    return change


def _is_asked(lease: Lease) -> bool:
    return lease.status is Status.RUNNING and lease.is_session and lease.target is Target.PARKED


def _begin(snapshot: Snapshot, lease: Lease, slots: Slots, now: float) -> Change:
    if snapshot.is_parking_stopped:
        return refuse_to_park(lease, Reason.PARKING_STOPPED, now, by="rules")
    if not slots.take_copy(host_of(snapshot, lease)):
        return _waits(lease, Reason.WAITING_FOR_COPIES)
    reason = None if lease.reason is Reason.WAITING_FOR_COPIES else lease.reason
    after = lease.enter(Status.PARKING, now, bursts=(), burst_loans=(), reason=reason)
    return Change(leases={lease.id: deadline_of(snapshot, after, now)})


def _waits(lease: Lease, reason: Reason) -> Change:
    if lease.reason is not None:
        return Change()
    return Change(leases={lease.id: lease.evolve(reason=reason)})
