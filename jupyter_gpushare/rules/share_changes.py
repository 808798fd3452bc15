"""A holder asks for another share while it has one: granted whole on the devices that it has, or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules.admission import could_ever_be_held, refusal
from jupyter_gpushare.rules.audit import changed, entry
from jupyter_gpushare.rules.change import Change, Verb
from jupyter_gpushare.rules.demand import demand_of, share_cost
from jupyter_gpushare.rules.lease import Grant, Lease, Loan, Status, Target
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.room import free_room, takes_more, unpromised_room
from jupyter_gpushare.rules.snapshot import DeviceBooks, ProjectBooks

if TYPE_CHECKING:
    from jupyter_gpushare.rules.event import ShareChanged
    from jupyter_gpushare.rules.snapshot import Snapshot
    from jupyter_gpushare.share import Share

__all__ = ["change_share"]

_ON_THE_WAY_OUT = frozenset({Status.YIELDING, Status.MISSING})
# With a smaller share these would come back to less room than what they bring takes.
_WITH_PARKED_MEMORY = frozenset({Status.PARKING, Status.PARKED, Status.RESUMING})


def change_share(snapshot: Snapshot, event: ShareChanged, now: float) -> Change:
    """Another share. It grows into room that is promised to nobody; what it gives up is there for others at once."""
    lease = snapshot.leases.get(event.lease)
    if lease is None or event.share == lease.share or lease.target is Target.ENDED or lease.status in _ON_THE_WAY_OUT:
        return Change()
    details = {"share": str(event.share), "before": str(lease.share)}
    if not lease.grants:
        wished = lease.evolve(share=event.share)
        if (reason := _never(snapshot, lease, wished)) is not None:
            return Change(audit=(entry(lease, Verb.REFUSED, now, by="holder", reason=reason, details=details),))
        return changed(wished, Verb.SHARE_CHANGED, now, by="holder", details=details)
    grants = _grants(snapshot, lease, event.share)
    reason = Reason.NO_SUCH_DEVICE if grants is None else _refusal(snapshot, lease, grants)
    if grants is None or reason is not None:
        return Change(audit=(entry(lease, Verb.REFUSED, now, by="holder", reason=reason, details=details),))
    after = lease.evolve(share=event.share, grants=grants, loans=_trimmed(lease.loans, grants), bursts=())
    return Change(leases=_relabelled(snapshot, after)).then(
        changed(after, Verb.SHARE_CHANGED, now, by="holder", details=details)
    )


def _never(snapshot: Snapshot, lease: Lease, wished: Lease) -> Reason | None:
    """Why a claim that waits could never be served with another share; one that asks for less may always wait."""
    cost = demand_of(wished, snapshot.devices)
    if not could_ever_be_held(snapshot, wished):
        return Reason.NO_SUCH_DEVICE
    return refusal(snapshot, wished, cost) if cost > demand_of(lease, snapshot.devices) else None


def _grants(snapshot: Snapshot, lease: Lease, share: Share) -> tuple[Grant, ...] | None:
    """What the new share is on the devices that it has; None if they can never hold it."""
    devices = [snapshot.devices.get(uuid) for uuid in lease.devices]
    if share.count != len(devices):
        return None
    grants = []
    for device in devices:
        if device is None or share.kind not in ("", device.kind):
            return None
        grants.append(Grant(device.uuid, share_cost(share, device.usable)))
    return tuple(grants) if all(grant.amount <= Fraction.ONE for grant in grants) else None


def _refusal(snapshot: Snapshot, lease: Lease, grants: tuple[Grant, ...]) -> Reason | None:
    more = Fraction.total(grant.amount for grant in grants) - lease.amount
    is_parked = lease.status in _WITH_PARKED_MEMORY
    if is_parked and more < Fraction.ZERO and _bytes(snapshot, grants) < lease.host_memory:
        return Reason.PARKED_MEMORY_IS_LARGER
    if more > Fraction.ZERO and (reason := _exceeds(snapshot, lease, more)) is not None:
        return reason
    for old, new in zip(lease.grants, grants, strict=True):
        grown = (new.amount - old.amount).millionths
        if grown > 0 and not _has_room(snapshot, lease, new.device, grown):
            return Reason.WAITING_FOR_DEVICE
    return None


def _bytes(snapshot: Snapshot, grants: tuple[Grant, ...]) -> Memory:
    return Memory.total(grant.amount.of(snapshot.devices[grant.device].usable) for grant in grants)


def _exceeds(snapshot: Snapshot, lease: Lease, more: Fraction) -> Reason | None:
    project = snapshot.projects.get(lease.project)
    if project is None:
        return Reason.NO_SUCH_PROJECT
    books = snapshot.project_books.get(lease.project, ProjectBooks())
    if lease.is_session and books.sessions + more > project.quota:
        return Reason.EXCEEDS_PROJECT_QUOTA
    if lease.is_session and books.persons.get(lease.person, Fraction.ZERO) + more > project.limit_of(lease.person):
        return Reason.EXCEEDS_PERSON_LIMIT
    lent = Fraction.total(snapshot.leases[key].lent for key in books.leases)
    return Reason.EXCEEDS_PROJECT_LIMIT if books.counted + lent + more > project.limit else None


def _has_room(snapshot: Snapshot, lease: Lease, uuid: str, grown: int) -> bool:
    if not takes_more(snapshot, snapshot.devices[uuid]) or unpromised_room(snapshot, uuid) < grown:
        return False
    return not lease.is_resident or free_room(snapshot, uuid) >= grown


def _trimmed(loans: tuple[Loan, ...], grants: tuple[Grant, ...]) -> tuple[Loan, ...]:
    """Loans that still stand after its own share shrank: never more than what it has on a device."""
    left = {grant.device: grant.amount.millionths for grant in grants}
    kept = []
    for loan in loans:
        amount = min(loan.amount.millionths, left.get(loan.device, 0))
        left[loan.device] = left.get(loan.device, 0) - amount
        if amount > 0:
            kept.append(Loan(loan.lender, loan.device, Fraction(amount)))
    return tuple(kept)


def _relabelled(snapshot: Snapshot, lender: Lease) -> dict[str, Lease]:
    """Borrowers of a promise that shrank: what it no longer covers is theirs, as it is promised to nobody now."""
    left = {grant.device: grant.amount.millionths for grant in lender.grants}
    after: dict[str, Lease] = {}
    for uuid in lender.devices:
        for key in sorted(snapshot.device_books.get(uuid, DeviceBooks()).leases):
            lease = after.get(key, snapshot.leases[key])
            if any(loan.lender == lender.id and loan.device == uuid for loan in lease.loans):
                after[key] = _covered(lease, lender.id, uuid, left)
    return after


def _covered(lease: Lease, lender: str, uuid: str, left: dict[str, int]) -> Lease:
    loans = []
    for loan in lease.loans:
        if (loan.lender, loan.device) != (lender, uuid):
            loans.append(loan)
            continue
        amount = min(loan.amount.millionths, left[uuid])
        left[uuid] -= amount
        if amount > 0:
            loans.append(Loan(lender, uuid, Fraction(amount)))
    return lease.evolve(loans=tuple(loans))
