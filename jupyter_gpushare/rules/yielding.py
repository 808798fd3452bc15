"""Jobs give up what they have: first they are called, then they begin as their hosts can take it.

A call is a reason of `lease.CALLS` on a lease that is granted, resuming or running, with the lease that it is for. The
lease begins to yield once a copy or a save is free on its host; until then nothing is asked of its holder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jupyter_gpushare.rules.audit import entry
from jupyter_gpushare.rules.change import Change, Verb
from jupyter_gpushare.rules.copies import Slots, deadline_of, host_of
from jupyter_gpushare.rules.host_memory import copy_of, fits_job
from jupyter_gpushare.rules.lease import Status, Target
from jupyter_gpushare.rules.reason import Reason

if TYPE_CHECKING:
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["VERBS", "begin_yields", "call", "urgency", "would_park"]

#: How the audit names the beginning, by the reason of the call.
VERBS: Final = {
    Reason.CALLED_BACK: Verb.CALLED_BACK,
    Reason.RECLAIMED: Verb.RECLAIMED,
    Reason.MOVED: Verb.MOVED,
    Reason.DRAINED: Verb.CALLED_BACK,
    Reason.DEVICE_GONE: Verb.CALLED_BACK,
}


def call(lease: Lease, reason: Reason, because_of: str = "") -> Lease:
    """*lease*, called upon to yield for *reason*, one of `lease.CALLS`, in favour of the lease *because_of*."""
    return lease.evolve(reason=reason, because_of=because_of)


def would_park(snapshot: Snapshot, lease: Lease) -> bool:
    """Whether *lease*, called, yields by parking now: it can be, and its host has the memory. Else it saves itself."""
    is_parkable = lease.status is Status.RUNNING and lease.is_parkable
    return is_parkable and fits_job(snapshot, lease, copy_of(snapshot, lease))


def begin_yields(snapshot: Snapshot, now: float) -> Change:
    """Those that are called begin to yield, as many at once as their hosts take; who waits longest is served first.

    A call for a claim that needs it no more is taken back.
    """
    called = [lease for key in snapshot.unsettled if (lease := snapshot.leases[key]).is_called]
    change, slots = Change(), Slots(snapshot, now) if called else None
    for lease in sorted(called, key=lambda lease: urgency(snapshot, lease)):
        assert slots is not None  # noqa: S101  # there is a called one
        change = change.then(_begin(snapshot, lease, slots, now))
        if lease.id in change.leases:
            snapshot = snapshot.with_change(Change(leases={lease.id: change.leases[lease.id]}))
    return change


def urgency(snapshot: Snapshot, lease: Lease) -> tuple[float, float, str, str]:
    """First those who make room for whoever waits longest, in the order in which parked sessions come back."""
    cause = snapshot.leases.get(lease.because_of)
    if cause is None:
        return 0.0, 0.0, "", lease.id
    since = cause.submitted if cause.wanted_since is None else cause.wanted_since
    return since, cause.since, cause.id, lease.id


def _begin(snapshot: Snapshot, lease: Lease, slots: Slots, now: float) -> Change:
    if not _is_needed(snapshot, lease):
        return Change(leases={lease.id: lease.evolve(reason=None, because_of="")})
    if lease.status is Status.RESUMING:
        # A restore is not disturbed: it is asked as soon as it runs.
        return Change()
    after = _way_out(snapshot, lease, slots, now)
    if after is None:
        return Change()
    verb = VERBS[lease.reason or Reason.CALLED_BACK]
    return Change(leases={lease.id: after}, audit=(entry(after, verb, now, details={"way": after.status.value}),))


def _is_needed(snapshot: Snapshot, lease: Lease) -> bool:
    if not lease.because_of:
        return True
    cause = snapshot.leases.get(lease.because_of)
    if cause is None:
        return False
    if any(loan.lender == cause.id for loan in lease.loans):
        return cause.is_resident or cause.target is not Target.PARKED
    return cause.target is Target.RUNNING and not cause.is_resident


def _way_out(snapshot: Snapshot, lease: Lease, slots: Slots, now: float) -> Lease | None:
    """How it yields: parked where it can be and the host's memory allows it, else it saves itself. None: not yet."""
    host = host_of(snapshot, lease)
    if would_park(snapshot, lease):
        if not slots.take_copy(host):
            return None
        memory = copy_of(snapshot, lease)
        after = lease.enter(Status.PARKING, now, host_memory=memory, bursts=(), burst_loans=())
        return deadline_of(snapshot, after, now)
    if not slots.take_save(host):
        return None
    return deadline_of(snapshot, lease.enter(Status.YIELDING, now, bursts=(), burst_loans=()), now)
