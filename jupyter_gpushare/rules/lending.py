"""Loans: what parked sessions lend, and calling back exactly that (DESIGN 5, rule 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.change import Change
from jupyter_gpushare.rules.lease import Loan, Status, Target
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.room import takes_more
from jupyter_gpushare.rules.snapshot import DeviceBooks
from jupyter_gpushare.rules.yielding import call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.pool import Pool
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["borrowers", "call_back", "is_lending", "is_too_short", "lendable", "loans_kept"]


def is_lending(lease: Lease) -> bool:
    """Whether what it is promised may be lent: a parked session that is to stay parked."""
    return lease.is_session and lease.status is Status.PARKED and lease.target is Target.PARKED


def lendable(snapshot: Snapshot, device: str) -> tuple[Loan, ...]:
    """What each parked session could lend on *device* now, longest parked first, then by id; what it lends is off.

    Together never more than is free there. Nothing while the device or its host takes nothing new, and nothing while
    all parking is stopped: whoever is parked then is on the way back.
    """
    books = snapshot.device_books.get(device, DeviceBooks())
    if not books.parked or not _lends(snapshot, device):
        return ()
    left = _left_by_lender(snapshot, device, books)
    free = (snapshot.devices[device].capacity - books.held).millionths
    made = []
    for lender in sorted(left, key=lambda key: (snapshot.leases[key].since, key)):
        amount = min(left[lender], free)
        if amount > 0:
            made.append(Loan(lender, device, Fraction(amount)))
            free -= amount
    return tuple(made)


def _lends(snapshot: Snapshot, device: str) -> bool:
    known = snapshot.devices.get(device)
    if known is None or known.pool not in snapshot.pools or snapshot.is_parking_stopped:
        return False
    return takes_more(snapshot, known)


def _left_by_lender(snapshot: Snapshot, device: str, books: DeviceBooks) -> dict[str, int]:
    left: dict[str, int] = {}
    leases = [snapshot.leases[key] for key in books.leases]
    for lease in leases:
        if is_lending(lease):
            left[lease.id] = sum(grant.amount.millionths for grant in lease.grants if grant.device == device)
    for lease in leases:
        for loan in lease.loans:
            if loan.device == device and loan.lender in left:
                left[loan.lender] -= loan.amount.millionths
    return left


def is_too_short(lease: Lease, pool: Pool) -> bool:
    """Whether a loan in *pool* is not worth what it costs this job to start and to leave.

    Whom it is lent from waits for as long as the job leaves: a longer grace than the pool's is part of the cost.
    """
    longer = 0.0 if lease.grace_s is None else max(0.0, lease.grace_s - pool.grace_s)
    return lease.start_cost_s + longer > pool.lend_at_least_s


def borrowers(snapshot: Snapshot, lender: Lease) -> Iterator[Lease]:
    """Who has something on loan from *lender*, and has it on the device still."""
    for key in sorted({key for device in lender.devices for key in _leases_on(snapshot, device)}):
        lease = snapshot.leases[key]
        if lease.loans and lease.is_resident and any(loan.lender == lender.id for loan in lease.loans):
            yield lease


def _leases_on(snapshot: Snapshot, device: str) -> frozenset[str]:
    return snapshot.device_books.get(device, DeviceBooks()).leases


def call_back(snapshot: Snapshot, lender: Lease) -> Change:
    """Call those who borrow from *lender*, and nobody else, whatever their project.

    One that stands only partly on this loan yields whole.
    """
    called = {
        lease.id: call(lease, Reason.CALLED_BACK, lender.id)
        for lease in borrowers(snapshot, lender)
        if lease.can_be_called
    }
    return Change(leases=called)


def loans_kept(lease: Lease, gone: str) -> Lease:
    """*lease* without loans from *gone*, which ended: what it borrowed there is promised to nobody now."""
    return lease.evolve(loans=tuple(loan for loan in lease.loans if loan.lender != gone))
