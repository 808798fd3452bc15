"""What people, holders and admins wish of a lease: they write its target, never its status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.audit import changed, with_why
from jupyter_gpushare.rules.change import Change, Entry, Verb
from jupyter_gpushare.rules.holding import let_go_now
from jupyter_gpushare.rules.lease import Lease, Status, Target
from jupyter_gpushare.rules.parking_requests import ask_to_park
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.yielding import call

if TYPE_CHECKING:
    from jupyter_gpushare.rules.event import Idle, OverUse, Parkable, ParkingSwitched, Reclaimed, Submitted, Wanted
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["busy_or_idle", "over_use", "parkable", "reclaimed", "submitted", "switch_parking", "wanted"]


def submitted(snapshot: Snapshot, event: Submitted, now: float) -> Change:
    """A claim joins those that wait. One that is known, by its id or by its holder's key, changes nothing."""
    lease = event.lease
    if lease.id in snapshot.leases or (lease.key and (lease.person, lease.key) in snapshot.holders):
        return Change()
    claim = Lease(
        id=lease.id,
        kind=lease.kind,
        project=lease.project,
        person=lease.person,
        name=lease.name,
        share=lease.share,
        submitted=lease.submitted,
        since=now,
        key=lease.key,
        pool=lease.pool,
        epoch=lease.epoch,
        is_parkable=lease.is_parkable,
        spread_group=lease.spread_group,
        grace_s=lease.grace_s,
        start_cost_s=lease.start_cost_s,
        most_turns_lost=lease.most_turns_lost,
        hold=lease.hold,
    )
    return changed(claim, Verb.SUBMITTED, now, by="holder", details={"share": str(lease.share)})


def wanted(snapshot: Snapshot, event: Wanted, now: float) -> Change:
    """Another target. Ended is for good; wanting what is wanted already changes nothing."""
    lease = snapshot.leases.get(event.lease)
    if lease is None or lease.target in (event.target, Target.ENDED):
        return Change()
    if event.target is Target.ENDED:
        if lease.hold is not None:
            return let_go_now(snapshot, lease, now, by=event.by)
        asked = with_why({"asked": "yes"}, event.why)
        return changed(lease.evolve(target=Target.ENDED), Verb.ENDED, now, by=event.by, details=asked)
    if event.target is Target.RUNNING:
        return want_back(lease, now, by=event.by)
    if not lease.is_session:
        return Change()
    return _want_parked(snapshot, lease, event, now)


def want_back(lease: Lease, now: float, *, by: str) -> Change:
    """A session is wanted back. One that has not begun to park stays where it is, and its host memory is free again."""
    after = lease.evolve(target=Target.RUNNING, wanted_since=now, reason=None, because_of="")
    if lease.status in (Status.GRANTED, Status.RUNNING):
        after = after.evolve(host_memory=Memory.ZERO, wanted_since=None)
    return changed(after, Verb.WANTED_BACK, now, by=by)


def _want_parked(snapshot: Snapshot, lease: Lease, event: Wanted, now: float) -> Change:
    if lease.status is Status.RUNNING:
        return ask_to_park(snapshot, lease, now, memory=event.memory, by=event.by)
    if lease.status in (Status.PARKING, Status.PARKED):
        after = lease.evolve(target=Target.PARKED, wanted_since=None, reason=None)
        return changed(after, Verb.ASKED_TO_PARK, now, by=event.by)
    # Before it runs there is nothing to park; while it is missing nobody is there to do it.
    return Change()


def busy_or_idle(snapshot: Snapshot, event: Idle, now: float) -> Change:  # every event is taken in so
    """Remember since when it computes nothing: no moment after now, and no line in the audit."""
    lease = snapshot.leases.get(event.lease)
    since = None if event.since is None else min(event.since, now)
    if lease is None or lease.idle_since == since:
        return Change()
    return Change(leases={lease.id: lease.evolve(idle_since=since)})


def parkable(snapshot: Snapshot, event: Parkable, now: float) -> Change:  # noqa: ARG001  # every event is taken in so
    """Whether it can be parked holds from its next yield or park on."""
    lease = snapshot.leases.get(event.lease)
    if lease is None or lease.is_parkable == event.is_parkable:
        return Change()
    return Change(leases={lease.id: lease.evolve(is_parkable=event.is_parkable)})


def reclaimed(snapshot: Snapshot, event: Reclaimed, now: float) -> Change:
    """An admin takes back what a lease has: a session is parked, a job yields and waits again."""
    lease = snapshot.leases.get(event.lease)
    if lease is None or not lease.can_be_called:
        return Change()
    if not lease.is_session:
        details = with_why({}, event.why)
        return changed(call(lease, Reason.RECLAIMED), Verb.RECLAIMED, now, by=event.by, details=details)
    if lease.status is not Status.RUNNING:
        return Change()
    return ask_to_park(snapshot, lease, now, memory=event.memory, by=event.by, why=event.why)


def over_use(snapshot: Snapshot, event: OverUse, now: float) -> Change:
    """Who does not give back a burst is parked, or, as a job, yields. It is never ended for it."""
    lease = snapshot.leases.get(event.lease)
    if lease is None or lease.status is not Status.RUNNING or lease.target is not Target.RUNNING:
        return Change()
    if lease.is_session:
        return ask_to_park(snapshot, lease, now, memory=None, by="rules") if lease.is_parkable else Change()
    return Change() if lease.is_called else Change(leases={lease.id: call(lease, Reason.CALLED_BACK)})


def switch_parking(snapshot: Snapshot, event: ParkingSwitched, now: float) -> Change:
    """With parking stopped every session that is parked, or to be, is wanted back: longest parked first."""
    if snapshot.is_parking_stopped == event.is_stopped:
        return Change()
    change = Change(is_parking_stopped=event.is_stopped, audit=(_switched(event, now),))
    if not event.is_stopped:
        return change
    for key in sorted(snapshot.leases):
        lease = snapshot.leases[key]
        if lease.is_session and lease.target is Target.PARKED:
            change = change.then(want_back(lease, now, by=event.by))
    return change


def _switched(event: ParkingSwitched, now: float) -> Entry:
    details = with_why({"stopped": "yes" if event.is_stopped else "no"}, event.why)
    return Entry(now, Verb.PARKING_SWITCHED, by=event.by, details=details)
