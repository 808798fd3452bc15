"""Holders that vanish and return, also to a ledger that was restored from an old backup.

What a vanished holder held stays quarantined until the device shows it free. Epochs never go back: whoever returns
with a higher one than the books have is believed and gets a still higher one, whoever has an older one may not act on
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.audit import changed
from jupyter_gpushare.rules.change import Change, Verb
from jupyter_gpushare.rules.copies import deadline_of
from jupyter_gpushare.rules.ending import end
from jupyter_gpushare.rules.event import Submitted
from jupyter_gpushare.rules.host_memory import fits_session, most
from jupyter_gpushare.rules.lease import Lease, Status, Target
from jupyter_gpushare.rules.lending import borrowers, call_back
from jupyter_gpushare.rules.over_commitment import promised_excess, quota_excess
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.reports import fenced, started
from jupyter_gpushare.rules.wishes import submitted

if TYPE_CHECKING:
    from jupyter_gpushare.rules.event import Returned, Vanished
    from jupyter_gpushare.rules.lease import Grant
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["returned", "vanished"]


def vanished(snapshot: Snapshot, event: Vanished, now: float) -> Change:
    """Without a word from its holder a claim ends; what may be on a device, or is parked, is missing."""
    lease = snapshot.leases.get(event.lease)
    if lease is None:
        return Change()
    if event.is_dead or lease.status is Status.QUEUED:
        return end(snapshot, lease, now, reason=Reason.HOLDER_GONE)
    if lease.status is Status.MISSING:
        return Change()
    after = lease.enter(Status.MISSING, now, was=lease.status, deadline=None)
    return changed(after, Verb.VANISHED, now, by="holder")


def returned(snapshot: Snapshot, event: Returned, now: float) -> Change:
    """A holder is back with the *epoch* that it has; whether its state is on the device was checked."""
    lease = snapshot.leases.get(event.lease.id)
    if lease is None:
        return _adopt_unknown(snapshot, event, now)
    if event.epoch > lease.epoch:
        return _adopt_newer(snapshot, lease, event, now)
    back = _back(snapshot, lease, now)
    made = Change() if back is lease else changed(back, Verb.RETURNED, now, by="holder")
    return made.then(_believed(snapshot.with_change(made), back, event, now))


def _back(snapshot: Snapshot, lease: Lease, now: float) -> Lease:
    """As it was before it was missing. What its holder was asked to do it has its time for again."""
    if lease.status is not Status.MISSING or lease.was is None:
        return lease
    after = lease.enter(lease.was, now, was=None)
    is_asked = lease.was in (Status.PARKING, Status.RESUMING, Status.YIELDING)
    return deadline_of(snapshot, after, now) if is_asked else after


def _believed(snapshot: Snapshot, lease: Lease, event: Returned, now: float) -> Change:
    """What its being on the device, or not, says beyond the books."""
    if not event.is_resident:
        return _parked_already(snapshot, lease, event, now)
    if event.epoch < lease.epoch or lease.status is Status.QUEUED:
        return fenced(lease, event.epoch, now, "resident")
    if lease.status in (Status.GRANTED, Status.RESUMING):
        return started(lease, now)
    if lease.status is not Status.PARKED:
        return Change()
    if lease.is_session:
        return _came_back_alone(snapshot, lease, now)
    after = lease.enter(Status.YIELDING, now, host_memory=Memory.ZERO, reason=None, because_of="")
    return changed(deadline_of(snapshot, after, now), Verb.OVER_COMMITTED, now, by="device")


def _parked_already(snapshot: Snapshot, lease: Lease, event: Returned, now: float) -> Change:
    """Books of before it parked: it does not run. That nothing of it is on the device, the device has to say."""
    is_asked = lease.status is Status.YIELDING and lease.target is Target.RUNNING
    if not (lease.status is Status.RUNNING or is_asked) or event.lease.status not in (Status.PARKING, Status.PARKED):
        return Change()
    memory = min(event.lease.host_memory, most(snapshot, lease))
    target = event.lease.target if lease.target is Target.RUNNING else lease.target
    after = lease.enter(Status.PARKING, now, target=target, host_memory=memory, bursts=(), burst_loans=())
    return changed(deadline_of(snapshot, after, now), Verb.ASKED_TO_PARK, now, by="holder")


def _came_back_alone(snapshot: Snapshot, lease: Lease, now: float) -> Change:
    """While no broker was there it resumed on local proof of room: so it is, and what it had lent is called back.

    Its epoch is a new one: what was said of the time before its resume must not count for the time after it.
    """
    # What it waited for it waits for no more; left standing, a device that was gone would call it away again.
    alone = lease.evolve(
        status=Status.RESUMING, target=_running(lease), epoch=lease.epoch + 1, reason=None, because_of=""
    )
    made = started(alone, now)
    return made.then(call_back(snapshot.with_change(made), made.leases[lease.id]))


def _running(lease: Lease) -> Target:
    return Target.ENDED if lease.target is Target.ENDED else Target.RUNNING


def _adopt_newer(snapshot: Snapshot, lease: Lease, event: Returned, now: float) -> Change:
    """The books are from an old backup: the holder's record holds for where it is, ours for whose it is."""
    record = event.lease
    known = lease.evolve(epoch=event.epoch, grants=_real(snapshot, record) or lease.grants)
    return _adopt(snapshot, known, event, now)


def _adopt_unknown(snapshot: Snapshot, event: Returned, now: float) -> Change:
    claim = submitted(snapshot, Submitted(event.lease), now)
    if not claim.leases:
        # Its holder has another lease by now: a second one must not come back.
        return fenced(event.lease, event.epoch, now, "returned")
    known = claim.leases[event.lease.id].evolve(
        epoch=max(event.epoch, event.lease.epoch),
        grants=_real(snapshot, event.lease),
        submitted=min(event.lease.submitted, now),
        turns_lost=event.lease.turns_lost,
    )
    return _adopt(snapshot, known, event, now)


def _real(snapshot: Snapshot, record: Lease) -> tuple[Grant, ...]:
    """The grants of *record*, if each is of a device that there is; else none."""
    return record.grants if all(grant.device in snapshot.devices for grant in record.grants) else ()


def _adopt(snapshot: Snapshot, lease: Lease, event: Returned, now: float) -> Change:
    """As it says, if it is on a device; parked, if its promise can be given again; else it waits."""
    waits = lease.evolve(
        status=Status.QUEUED,
        since=now,
        target=_running(lease),
        grants=(),
        loans=(),
        bursts=(),
        burst_loans=(),
        host_memory=Memory.ZERO,
        deadline=None,
        was=None,
        reason=None,
        because_of="",
    )
    after = _adopted(snapshot, waits, lease, event, now)
    made = Change(leases=_borrowers_left(snapshot, after)).then(changed(after, Verb.ADOPTED, now, by="holder"))
    if after.grants == lease.grants and after.status is Status.RUNNING:
        return made.then(call_back(snapshot.with_change(made), after))
    return made


def _borrowers_left(snapshot: Snapshot, after: Lease) -> dict[str, Lease]:
    """Who borrowed from it where it has no promise any more, by its own word: their loans there are over."""
    before = snapshot.leases.get(after.id, after)
    return {
        each.id: each.evolve(
            loans=tuple(loan for loan in each.loans if loan.lender != after.id or loan.device in after.devices)
        )
        for each in borrowers(snapshot, before)
    }


def _adopted(snapshot: Snapshot, waits: Lease, lease: Lease, event: Returned, now: float) -> Lease:
    if event.is_resident and lease.grants:
        return waits.enter(Status.RUNNING, now, grants=lease.grants, turn_began=now, epoch=lease.epoch + 1)
    if event.lease.status is not Status.PARKED or not lease.grants:
        return waits
    target = Target.PARKED if lease.is_session and event.lease.target is Target.PARKED else waits.target
    after = waits.enter(
        Status.PARKED,
        now,
        grants=lease.grants,
        target=target,
        host_memory=min(event.lease.host_memory, most(snapshot, lease)),
        wanted_since=now if target is Target.RUNNING else None,
    )
    return after if _can_be_promised(snapshot.with_change(Change(leases={waits.id: waits})), after) else waits


def _can_be_promised(snapshot: Snapshot, lease: Lease) -> bool:
    """Whether host memory and, for a session, quota and devices allow to keep what it had."""
    if not fits_session(snapshot, lease.evolve(host_memory=Memory.ZERO), lease.host_memory):
        return False
    if not lease.is_session:
        return True
    after = snapshot.with_change(Change(leases={lease.id: lease}))
    return not any(promised_excess(after, uuid) for uuid in lease.devices) and not quota_excess(after, lease.project)
