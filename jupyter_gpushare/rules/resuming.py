"""Parked sessions come back: first who waits longest, as their devices have room and their hosts take copies.

A job that parks for whoever waits longest takes its copy before a later session does: who came first is served first,
however many come after.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from jupyter_gpushare.rules.audit import entry
from jupyter_gpushare.rules.change import Change, Verb
from jupyter_gpushare.rules.copies import Slots, deadline_of, host_of, is_overdue
from jupyter_gpushare.rules.lease import Lease, Status, Target
from jupyter_gpushare.rules.lending import borrowers, loans_kept
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.room import is_best_effort, unpromised_room
from jupyter_gpushare.rules.snapshot import DeviceBooks
from jupyter_gpushare.rules.turns import pool_of, turn_is_over
from jupyter_gpushare.rules.yielding import call, would_park

if TYPE_CHECKING:
    from jupyter_gpushare.quantity import Fraction
    from jupyter_gpushare.rules.change import Entry
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["place_of", "resume", "resume_sessions", "waiting_sessions"]


def waiting_sessions(snapshot: Snapshot) -> list[Lease]:
    """Parked sessions that are wanted back, in the order in which they come."""
    back = [lease for key in snapshot.unsettled if _is_wanted(lease := snapshot.leases[key])]
    return sorted(back, key=place_of)


def _is_wanted(lease: Lease) -> bool:
    return lease.status is Status.PARKED and lease.is_session and lease.target is Target.RUNNING


def place_of(lease: Lease) -> tuple[float, float, str]:
    """Who comes back first: whoever has been wanted the longest, was parked the longest, by name."""
    return lease.since if lease.wanted_since is None else lease.wanted_since, lease.since, lease.id


def resume_sessions(snapshot: Snapshot, now: float) -> Change:
    """Call back what is lent from those that are wanted, and let those restore that have their room.

    A resume under ``guaranteed`` calls back at once, whatever turn it interrupts. On devices where promises exceed the
    device (``best-effort``) turns are respected, and nobody overtakes whoever waits there longer.
    """
    waiting = waiting_sessions(snapshot)
    if not waiting:
        return Change()
    work = _Pass(snapshot, now, Slots(snapshot, now))
    for lease in waiting:
        work.take(lease)
    return work.change()


@dataclass
class _Pass:
    """One look at all that wait; what is given to the first is seen by the next."""

    snapshot: Snapshot
    now: float
    slots: Slots
    leases: dict[str, Lease] = field(default_factory=dict)
    audit: list[Entry] = field(default_factory=list)
    taken: dict[str, int] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    parking: set[str] = field(default_factory=set)
    owned: dict[str, int] = field(default_factory=dict)

    def change(self) -> Change:
        """All that it came to."""
        return Change(leases=self.leases, audit=tuple(self.audit))

    def take(self, lease: Lease) -> None:
        """Bring *lease* back, or say why not yet."""
        reason = self._obstacle(lease)
        if reason is not None:
            if not self._is_guaranteed(lease):
                self.kept.update(lease.devices)
            if reason is not lease.reason:
                self.leases[lease.id] = lease.evolve(reason=reason)
            return
        for grant in lease.grants:
            self.taken[grant.device] = self.taken.get(grant.device, 0) + grant.amount.millionths
        after = resume(self.snapshot, lease, self.now)
        self.leases[lease.id] = after
        self.audit.append(entry(after, Verb.RESUMING, self.now))

    def _is_guaranteed(self, lease: Lease) -> bool:
        return pool_of(self.snapshot, lease).resume == "guaranteed"

    def _obstacle(self, lease: Lease) -> Reason | None:
        if any(self._is_gone(uuid) for uuid in lease.devices):
            return Reason.DEVICE_GONE
        if lease.not_before > self.now:
            return Reason.WAITING_FOR_BACK_OFF
        if not self.kept.isdisjoint(lease.devices):
            return Reason.WAITING_FOR_DEVICE
        on_loan = [each for each in borrowers(self.snapshot, lease) if not self._stands_alone(each, lease)]
        in_the_way = on_loan or self._short_of_room(lease)
        if in_the_way:
            return self._call(lease, in_the_way)
        if short := [grant.device for grant in lease.grants if self._missing(grant.device, grant.amount) > 0]:
            foreign = any(self.snapshot.devices[uuid].foreign for uuid in short)
            return Reason.BLOCKED_BY_FOREIGN_MEMORY if foreign else Reason.WAITING_FOR_DEVICE
        return self._no_slot(lease)

    def _stands_alone(self, borrower: Lease, lender: Lease) -> bool:
        """Let *borrower* have for its own what it borrowed from *lender*, where meanwhile nobody is promised as much.

        Not while room is kept there for claims that wait for a call back: it is theirs.
        """
        borrower = self.leases.get(borrower.id, borrower)
        loans = [loan for loan in borrower.loans if loan.lender == lender.id]
        if self._is_room_kept or borrower.is_called or borrower.status is Status.YIELDING:
            return not loans
        if any(loan.amount.millionths > self._unpromised(loan.device) for loan in loans):
            return False
        for loan in loans:
            self.owned[loan.device] = self.owned.get(loan.device, 0) + loan.amount.millionths
        self.leases[borrower.id] = loans_kept(borrower, lender.id)
        return True

    @cached_property
    def _is_room_kept(self) -> bool:
        kept = (Reason.WAITING_FOR_CALL_BACK, Reason.MOVED)
        return any(self.snapshot.leases[key].reason in kept for key in self.snapshot.waiting)

    def _unpromised(self, uuid: str) -> int:
        device = self.snapshot.devices[uuid]
        room = 0 if is_best_effort(self.snapshot, device) else unpromised_room(self.snapshot, uuid)
        return room - self.owned.get(uuid, 0)

    def _is_gone(self, uuid: str) -> bool:
        device = self.snapshot.devices.get(uuid)
        return device is None or device.condition == "gone"

    def _no_slot(self, lease: Lease) -> Reason | None:
        if not self.slots.has_tokens(lease.devices):
            return Reason.WAITING_FOR_DEVICE
        if not self.slots.take_copy(host_of(self.snapshot, lease)):
            return Reason.WAITING_FOR_COPIES
        self.slots.take_tokens(lease.devices)
        return None

    def _missing(self, uuid: str, amount: Fraction) -> int:
        """How much too little room *uuid* has for *amount*, in millionths; not above zero if it fits."""
        held = self.snapshot.device_books.get(uuid, DeviceBooks()).held.millionths + self.taken.get(uuid, 0)
        return held + amount.millionths - self.snapshot.devices[uuid].capacity.millionths

    def _short_of_room(self, lease: Lease) -> list[Lease]:
        """Jobs to call although they borrow from others, or from nobody: where capacity shrank, or is promised twice.

        Those that are on their way out already count, so that no more than needed are called; but not those that are
        missing, or ignore it: nobody can say when they leave.
        """
        found: dict[str, Lease] = {}
        for grant in lease.grants:
            missing = self._missing(grant.device, grant.amount)
            for other in self._jobs_on(grant.device) if missing > 0 else ():
                if missing <= 0:
                    break
                found[other.id] = other
                missing -= sum(part.amount.millionths for part in other.grants if part.device == grant.device)
            if missing > 0:
                # Even without all of them it would not fit: nobody loses anything for nothing.
                return []
        return list(found.values())

    def _jobs_on(self, uuid: str) -> list[Lease]:
        ids = self.snapshot.device_books.get(uuid, DeviceBooks()).leases
        leases = (self.leases.get(key, self.snapshot.leases[key]) for key in ids)
        jobs = [lease for lease in leases if not lease.is_session and lease.is_resident and self._may_leave(lease)]
        leaving = {Status.PARKING: 0, Status.YIELDING: 0}
        return sorted(jobs, key=lambda job: (leaving.get(job.status, 2 - job.is_called), -job.turn_began, job.id))

    def _may_leave(self, job: Lease) -> bool:
        is_asked = job.status in (Status.PARKING, Status.YIELDING)
        return job.status is not Status.MISSING and not (is_asked and is_overdue(self.snapshot, job, self.now))

    def _call(self, lease: Lease, in_the_way: list[Lease]) -> Reason:
        reason = Reason.WAITING_FOR_CALL_BACK
        for each in in_the_way:
            other = self.leases.get(each.id, each)
            if not other.can_be_called:
                continue
            if not self._is_guaranteed(lease) and not turn_is_over(self.snapshot, other, self.now):
                reason = Reason.WAITING_FOR_MINIMUM_TURN
                continue
            self.leases[other.id] = call(other, Reason.CALLED_BACK, lease.id)
        for each in in_the_way:
            self._leave_copy(self.leases.get(each.id, each))
        return reason

    def _leave_copy(self, called: Lease) -> None:
        """Keep a copy for *called*, which begins right after this pass, from those that come later in it."""
        if called.is_called and called.id not in self.parking and would_park(self.snapshot, called):
            self.parking.add(called.id)
            self.slots.take_copy(host_of(self.snapshot, called))


def resume(snapshot: Snapshot, lease: Lease, now: float) -> Lease:
    """*lease*, allowed to restore with a new epoch and a deadline; what it stands on is as it was."""
    after = lease.enter(Status.RESUMING, now, epoch=lease.epoch + 1, reason=None, because_of="")
    return deadline_of(snapshot, after, now)
