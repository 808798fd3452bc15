"""What holders report and devices show: starts, failures, and the one thing that frees capacity, attestation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.audit import changed, entry
from jupyter_gpushare.rules.change import Change, Verb
from jupyter_gpushare.rules.copies import deadline_of
from jupyter_gpushare.rules.ending import end
from jupyter_gpushare.rules.lease import CALLS, Lease, Status, Target
from jupyter_gpushare.rules.lending import borrowers, loans_kept
from jupyter_gpushare.rules.parking_requests import refuse_to_park
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.turns import back_off_s, pool_of

if TYPE_CHECKING:
    from jupyter_gpushare.rules.event import Attested, CouldNot, LossAnnounced, Running
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["attested", "could_not", "fenced", "loss_announced", "running"]

# What a holder may say of itself. All other reasons are the broker's to give, and some of them decide things.
_OF_HOLDERS: Final = frozenset(
    {Reason.NOT_PARKABLE, Reason.NO_HOST_MEMORY, Reason.PARKING_IS_OFF, Reason.PARKING_STOPPED}
)
# Whoever yields for these has lost nothing by its project's doing, and goes on elsewhere at once.
_NO_TURN_LOST = frozenset({Reason.MOVED, Reason.DRAINED, Reason.DEVICE_GONE})


def fenced(lease: Lease, epoch: int, now: float, what: str) -> Change:
    """Somebody with an epoch that is over, or never was, said something: kept for people to see, and nothing more."""
    details = {"said": what, "epoch": str(epoch), "valid": str(lease.epoch)}
    return Change(audit=(entry(lease, Verb.FENCED, now, by="holder", details=details),))


def loss_announced(snapshot: Snapshot, event: LossAnnounced, now: float) -> Change:
    """User state is about to end by us. It changes nothing else: only the device frees what it had."""
    lease = snapshot.leases.get(event.lease)
    if lease is None:
        return Change()
    details = {"loss": event.loss.value, "processes": event.processes}
    return Change(audit=(entry(lease, Verb.LOSS, now, by=event.by, details=details),))


def running(snapshot: Snapshot, event: Running, now: float) -> Change:
    """It has started, or has restored: the host memory that it was parked in is free."""
    lease = snapshot.leases.get(event.lease)
    if lease is None:
        return Change()
    if event.epoch != lease.epoch:
        return fenced(lease, event.epoch, now, "running")
    if lease.status not in (Status.GRANTED, Status.RESUMING):
        return Change()
    return started(lease, now)


def started(lease: Lease, now: float) -> Change:
    """*lease*, running now. One that was called meanwhile stays called."""
    verb = Verb.RESUMED if lease.status is Status.RESUMING else Verb.STARTED
    kept = {} if lease.is_called else {"reason": None, "because_of": ""}
    # A turn is one of computing: a session's begins when it has its memory back.
    turn = now if lease.is_session else lease.turn_began
    after = lease.enter(
        Status.RUNNING, now, host_memory=Memory.ZERO, deadline=None, wanted_since=None, turn_began=turn, **kept
    )
    return changed(after, verb, now, by="holder")


def could_not(snapshot: Snapshot, event: CouldNot, now: float) -> Change:
    """The step that its holder could not make is undone, as far as that is safe without the device's word."""
    lease = snapshot.leases.get(event.lease)
    if lease is None:
        return Change()
    if event.epoch != lease.epoch:
        return fenced(lease, event.epoch, now, "could not")
    reason = event.reason if event.reason in _OF_HOLDERS else Reason.NOT_PARKABLE
    if lease.status is Status.PARKING:
        return _could_not_park(snapshot, lease, reason, now)
    if lease.status in (Status.GRANTED, Status.RESUMING):
        return _could_not_start(snapshot, lease, reason, now)
    if lease.status is Status.RUNNING and lease.target is Target.PARKED:
        return refuse_to_park(lease, reason, now, by="holder")
    return Change()


def _could_not_park(snapshot: Snapshot, lease: Lease, reason: Reason, now: float) -> Change:
    if lease.is_session:
        # With a new epoch: the same words, heard twice, must not undo the next park, which its holder may well make.
        later = _later(snapshot, lease, now)
        back = lease.enter(
            Status.RUNNING, now, epoch=lease.epoch + 1, deadline=None, wanted_since=None, not_before=later
        )
        return refuse_to_park(back, reason, now, by="holder")
    # It must yield all the same, and does so by saving itself.
    after = lease.enter(Status.YIELDING, now, is_parkable=False, host_memory=Memory.ZERO)
    return changed(deadline_of(snapshot, after, now), Verb.NOT_PARKED, now, by="holder", reason=reason)


def _could_not_start(snapshot: Snapshot, lease: Lease, reason: Reason, now: float) -> Change:
    """Whether something of it is on the device only the device can tell: it leaves again, and tries later.

    With a new epoch: the same words, heard twice, must not be taken for a park that failed.
    """
    status = Status.PARKING if lease.status is Status.RESUMING else Status.YIELDING
    later = _later(snapshot, lease, now)
    after = lease.enter(status, now, epoch=lease.epoch + 1, reason=reason, because_of="", not_before=later)
    details = {"could_not": "resume" if status is Status.PARKING else "start"}
    return changed(deadline_of(snapshot, after, now), Verb.NOT_PARKED, now, by="holder", details=details)


def _later(snapshot: Snapshot, lease: Lease, now: float) -> float:
    return now + pool_of(snapshot, lease).backoff_s


def attested(snapshot: Snapshot, event: Attested, now: float) -> Change:
    """Nothing of it is on its devices: what it held there is free."""
    lease = snapshot.leases.get(event.lease)
    if lease is None:
        return Change()
    if event.epoch != lease.epoch:
        return fenced(lease, event.epoch, now, "released")
    if lease.status is Status.MISSING:
        return _left_while_missing(snapshot, lease, now)
    if lease.status is Status.PARKING:
        return _parked(snapshot, lease, now)
    if lease.status is Status.YIELDING:
        return _yielded(snapshot, lease, now)
    return Change()


def _left_while_missing(snapshot: Snapshot, lease: Lease, now: float) -> Change:
    """Who was parking is parked, as far as anybody can tell: silence is no reason to lose what is in its memory."""
    if not lease.is_resident:
        return Change()
    is_lost = not lease.is_session and _has_lost_too_many(lease)
    if lease.was is not Status.PARKING or lease.target is Target.ENDED or is_lost:
        return end(snapshot, lease, now, reason=Reason.HOLDER_GONE)
    again = lease if lease.is_session else _turn_lost(snapshot, lease, now)
    after = again.evolve(was=Status.PARKED, loans=(), idle_since=None, because_of="")
    return changed(after, Verb.PARKED, now, by="device", lent=lease.lent, because_of=lease.because_of)


def _parked(snapshot: Snapshot, lease: Lease, now: float) -> Change:
    """Its memory is on the host. A session keeps its promise; a job keeps in mind where its memory belongs."""
    if lease.is_session:
        after = lease.enter(Status.PARKED, now, deadline=None, idle_since=None)
        return changed(after, Verb.PARKED, now, by="device")
    if _has_lost_too_many(lease):
        return end(snapshot, lease, now, reason=Reason.TOO_MANY_RECLAIMS, failed=True)
    after = _turn_lost(snapshot, lease, now).enter(Status.PARKED, now, loans=(), deadline=None, because_of="")
    return changed(after, Verb.PARKED, now, by="device", lent=lease.lent, because_of=lease.because_of)


def _yielded(snapshot: Snapshot, lease: Lease, now: float) -> Change:
    if lease.target is Target.ENDED:
        return end(snapshot, lease, now)
    if not lease.is_session and _has_lost_too_many(lease):
        return end(snapshot, lease, now, reason=Reason.TOO_MANY_RECLAIMS, failed=True)
    again = lease if lease.is_session else _turn_lost(snapshot, lease, now)
    after = again.enter(
        Status.QUEUED,
        now,
        grants=(),
        loans=(),
        host_memory=Memory.ZERO,
        deadline=None,
        because_of="",
        was=None,
        # For what it waits now it is told anew; a job that is moved keeps its turn.
        reason=lease.reason if lease.reason in CALLS else None,
    )
    had = {"devices": lease.devices, "amount": lease.amount, "lent": lease.lent, "because_of": lease.because_of}
    # A session that waits again promises nothing: who borrowed from it has that for its own.
    lent = {each.id: loans_kept(each, lease.id) for each in borrowers(snapshot, lease)} if lease.is_session else {}
    return Change(leases=lent).then(changed(after, Verb.YIELDED, now, by="device", **had))


def _has_lost_too_many(lease: Lease) -> bool:
    is_lost = lease.reason in CALLS - _NO_TURN_LOST
    return is_lost and lease.most_turns_lost is not None and lease.turns_lost + 1 > lease.most_turns_lost


def _turn_lost(snapshot: Snapshot, lease: Lease, now: float) -> Lease:
    """One more turn lost, and a pause that doubles each time.

    It counts from the turn's beginning: a job that could work for longer than its pause goes on at once.
    """
    if lease.reason not in CALLS - _NO_TURN_LOST:
        return lease
    lost = lease.turns_lost + 1
    pause_ends = lease.turn_began + back_off_s(pool_of(snapshot, lease), lost)
    return lease.evolve(turns_lost=lost, not_before=max(now, pause_ends))
