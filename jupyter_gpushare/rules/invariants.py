"""What must always hold of the books (DESIGN 5): for tests, for soak runs, and for a broker that looks at itself.

Admins and hardware can break I1, I2, I3 and I6: quotas and capacity fall below use. Each such violation carries by how
much it is one, so that a test can see that no decision of ours makes it larger.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from jupyter_gpushare.rules.lease import Lease, Status
from jupyter_gpushare.rules.over_commitment import booked_excess, held_excess, promised_excess, quota_excess
from jupyter_gpushare.rules.room import burst_room
from jupyter_gpushare.rules.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Violation", "excesses", "mistakes", "violations"]


@dataclass(frozen=True, slots=True)
class Violation:
    """What does not hold, of which device, project, host or lease, and by how much where that can be said."""

    invariant: str
    of: str
    excess: int = 0

    def __str__(self) -> str:
        return f"{self.invariant}: {self.of}" + (f", by {self.excess}" if self.excess else "")


def violations(snapshot: Snapshot) -> list[str]:
    """Everything that does not hold, a sentence each."""
    return [str(each) for each in (*excesses(snapshot), *mistakes(snapshot))]


def excesses(snapshot: Snapshot) -> Iterator[Violation]:
    """What is promised, held or booked above what there is."""
    for uuid in sorted(snapshot.devices.keys() | snapshot.device_books.keys()):
        yield from _excess("I1, requests fit the device", uuid, held_excess(snapshot, uuid))
        yield from _excess("I2, promises fit the device", uuid, promised_excess(snapshot, uuid))
    for name in sorted(snapshot.project_books):
        yield from _excess("I3, sessions fit the quota", name, quota_excess(snapshot, name))
    for name in sorted(snapshot.host_books):
        yield from _excess("I6, parked state fits the budget", name, booked_excess(snapshot, name))


def _excess(invariant: str, of: str, excess: int) -> Iterator[Violation]:
    if excess:
        yield Violation(invariant, of, excess)


def mistakes(snapshot: Snapshot) -> Iterator[Violation]:
    """What nobody can break but a mistake of ours."""
    yield from _recount(snapshot)
    for uuid in sorted(snapshot.device_books):
        yield from _loans_on(snapshot, uuid)
        yield from _bursts_on(snapshot, uuid)
    restoring: dict[str, str] = {}
    for key in sorted(snapshot.leases):
        lease = snapshot.leases[key]
        for problem in _problems(snapshot, lease):
            yield Violation(problem, key)
        for uuid in lease.devices if lease.status is Status.RESUMING else ():
            if restoring.setdefault(uuid, key) != key:
                yield Violation("one restores on a device at a time", uuid)


def _recount(snapshot: Snapshot) -> Iterator[Violation]:
    again = Snapshot.of(
        projects=snapshot.projects.values(),
        pools=snapshot.pools.values(),
        hosts=snapshot.hosts.values(),
        devices=snapshot.devices.values(),
        leases=snapshot.leases.values(),
        is_parking_stopped=snapshot.is_parking_stopped,
    )
    for each in fields(Snapshot):
        if getattr(again, each.name) != getattr(snapshot, each.name):
            yield Violation("the books are what counting anew gives", each.name)


def _loans_on(snapshot: Snapshot, uuid: str) -> Iterator[Violation]:
    """Loans stand on promises: of one who is parked, or who is wanted back and has called them."""
    lent: dict[str, int] = {}
    for key in sorted(snapshot.device_books[uuid].leases):
        lease = snapshot.leases[key]
        own = _on(lease, uuid)
        for loan in lease.loans:
            if loan.device == uuid:
                lent[loan.lender] = lent.get(loan.lender, 0) + loan.amount.millionths
                own -= loan.amount.millionths
        if own < 0:
            yield Violation("nobody borrows more than it has", key, -own)
    for lender, amount in lent.items():
        known = snapshot.leases.get(lender)
        if known is None or not known.is_promised:
            yield Violation("loans name a lender with a promise", lender)
        elif amount > _on(known, uuid):
            yield Violation("nobody lends more than its promise", lender, amount - _on(known, uuid))


def _on(lease: Lease, uuid: str) -> int:
    return sum(grant.amount.millionths for grant in lease.grants if grant.device == uuid)


def _bursts_on(snapshot: Snapshot, uuid: str) -> Iterator[Violation]:
    """I7: bursts stand on room that nobody needs, and each can be called back by parking who has it."""
    total = 0
    for key in snapshot.device_books[uuid].leases:
        lease = snapshot.leases[key]
        total += sum(burst.amount.millionths for burst in lease.bursts if burst.device == uuid)
        if lease.bursts and not lease.is_parkable:
            yield Violation("I7, who bursts can be parked", key)
    if total and uuid in snapshot.devices:
        room = burst_room(snapshot, uuid)
        yield from _excess("I7, bursts fit what nobody is promised", uuid, max(0, total - max(0, room)))


def _problems(snapshot: Snapshot, lease: Lease) -> Iterator[str]:
    has_grants = bool(lease.grants)
    if lease.is_over:
        yield "what is over is in no books"
    if lease.is_resident and not has_grants:
        yield "what may be on a device has a grant"
    if lease.status is Status.QUEUED and (has_grants or lease.loans or lease.host_memory):
        yield "what waits has nothing"
    if lease.loans and not lease.is_resident:
        yield "who borrows has it on a device"
    if lease.loans and lease.is_session:
        yield "sessions do not borrow: they take turns"
    if has_grants and lease.epoch < 1:
        yield "who has a grant has an epoch"
    if (lease.status is Status.MISSING) != (lease.was is not None):
        yield "who is missing was something before, and nobody else"
    if len({snapshot.devices[uuid].host for uuid in lease.devices if uuid in snapshot.devices}) > 1:
        yield "a lease is on one host"
    if any(uuid not in snapshot.devices for uuid in lease.devices):
        yield "a lease is on devices that there are"
