"""The books as others see them: from the rules' types to the wire's."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from jupyter_gpushare.broker import wire
from jupyter_gpushare.broker.audit_wire import AuditEntryModel
from jupyter_gpushare.broker.explaining import NAMES_CLOSED, closed_devices, explain_lease
from jupyter_gpushare.broker.public_error import message_model
from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules.estimate import estimates
from jupyter_gpushare.rules.lease import Status, Target
from jupyter_gpushare.rules.queue_order import claim_order
from jupyter_gpushare.rules.resuming import waiting_sessions
from jupyter_gpushare.rules.snapshot import DeviceBooks, HostBooks, ProjectBooks
from jupyter_gpushare.rules.turns import pool_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from jupyter_gpushare.broker.ledger import Recorded, UsageHours
    from jupyter_gpushare.broker.pool_policy import PoolPolicy
    from jupyter_gpushare.rules.capacity import GpuDevice, Host
    from jupyter_gpushare.rules.lease import Grant, Lease, Loan
    from jupyter_gpushare.rules.pace import Paces
    from jupyter_gpushare.rules.project import Project
    from jupyter_gpushare.rules.reason import Reason
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["View", "audit_model", "usage_model", "with_people"]

_MOVING = frozenset({Status.PARKING, Status.RESUMING})


class View:
    """One state of the books, shown to anybody. What is dear to work out is worked out once, and only if asked for.

    Args:
        books: that state.
        now: when, in seconds since the epoch.
        paces: how fast hosts and jobs are, for estimates.
        policies: what the admin's file says to notebook servers, by pool.
        held: bytes of a lease by device, as the devices showed them last; None where a driver gives no number.

    Attributes:
        messages: what watchers were sent about a lease, with its name or without.
    """

    def __init__(
        self,
        books: Snapshot,
        now: float,
        paces: Paces | None = None,
        policies: Mapping[str, PoolPolicy] | None = None,
        held: Callable[[str], Mapping[str, int | None]] = lambda _: {},
    ) -> None:
        self.books = books
        self.now = now
        self._paces = paces
        self._policies = policies or {}
        self._held = held
        self.messages: dict[tuple[str, bool, bool], bytes] = {}

    @cached_property
    def places(self) -> Mapping[str, int]:
        """The place in line of each waiting lease, from 1: those who come back have a line of their own."""
        claims = sorted((self.books.leases[key] for key in self.books.waiting), key=claim_order)
        lines = (claims, waiting_sessions(self.books))
        return {lease.id: place for line in lines for place, lease in enumerate(line, 1)}

    @cached_property
    def estimates(self) -> Mapping[str, float]:
        """About how long each waiting lease still waits, in seconds, where that can be said."""
        return estimates(self.books, self.now, self._paces)

    @cached_property
    def waited_for(self) -> Mapping[str, list[Lease]]:
        """Who yields, for the lease that it is done for."""
        found: dict[str, list[Lease]] = {}
        for key in self.books.unsettled:
            lease = self.books.leases[key]
            if lease.because_of:
                found.setdefault(lease.because_of, []).append(lease)
        return found

    def lease(
        self, lease: Lease, *, named: bool = True, personal: bool = True, with_place: bool = True
    ) -> wire.LeaseModel:
        """One lease; without its name or person for somebody whom that does not concern, perhaps without its place."""
        is_waiting = with_place and _waits(lease)
        return wire.LeaseModel(
            id=lease.id,
            kind=lease.kind.value,
            project=lease.project,
            person=lease.person if personal else "",
            name=lease.name if named else "",
            share=str(lease.share),
            pool=lease.pool,
            status=lease.status.value,
            target=lease.target.value,
            submitted=lease.submitted,
            since=lease.since,
            epoch=lease.epoch,
            grants=self._grants(lease.grants, lease.loans),
            bursts=self._grants(lease.bursts, lease.burst_loans),
            lent=str(lease.lent),
            host_memory=lease.host_memory.bytes,
            turns_lost=lease.turns_lost,
            reason=None if lease.reason is None else self._reason(lease.reason, lease),
            place=self.places.get(lease.id) if is_waiting else None,
            estimate_s=self.estimates.get(lease.id) if is_waiting else None,
            deadline=self._leaves_by(lease) if lease.deadline is None else lease.deadline,
            lent_to=self.lent_to(lease),
            policy=self._policies.get(pool_of(self.books, lease).name) if lease.is_session else None,
        )

    @cached_property
    def closed(self) -> Collection[GpuDevice]:
        """The devices of which leases cannot have all."""
        return closed_devices(self.books)

    def _reason(self, reason: Reason, lease: Lease) -> wire.MessageModel:
        closed = self.closed if reason in NAMES_CLOSED else ()
        return message_model(explain_lease(reason, lease, self.books, closed))

    def lent_to(self, lease: Lease) -> list[wire.LentModel]:
        """Who uses what a session lends, or leaves for a claim that waits."""
        users: dict[str, tuple[Lease, Fraction]] = {}
        if lease.is_session and lease.grants and not lease.is_resident:
            there = {key for uuid in lease.devices for key in self._device_books(uuid).leases}
            for other in (self.books.leases[key] for key in there):
                amount = Fraction.total(loan.amount for loan in other.loans if loan.lender == lease.id)
                if amount:
                    users[other.id] = (other, amount)
        if _waits(lease):
            for other in self.waited_for.get(lease.id, ()):
                users.setdefault(other.id, (other, other.amount))
        return [
            wire.LentModel(
                other.project, "" if other.is_session else other.name, str(amount), self._on(lease.devices, other.id)
            )
            for _, (other, amount) in sorted(users.items())
        ]

    def _on(self, devices: Collection[str], holder: str) -> int | None:
        """What *holder* has on *devices*."""
        parts = [size for device, size in self._held(holder).items() if device in devices]
        return sum(part or 0 for part in parts) if parts and None not in parts else None

    def _leaves_by(self, lease: Lease) -> float | None:
        """Until when those that a waiting lease waits for must have left; None while nobody leaves for it."""
        if not _waits(lease):
            return None
        deadlines = (other.deadline for other in self.waited_for.get(lease.id, ()))
        return max((deadline for deadline in deadlines if deadline is not None), default=None)

    def device(self, device: GpuDevice) -> wire.DeviceModel:
        """One device and its books."""
        books = self._device_books(device.uuid)
        is_over = books.held > device.capacity
        host = self.books.hosts.get(device.host)
        is_drained = host is not None and host.condition == "draining" and device.condition == "ready"
        return wire.DeviceModel(
            uuid=device.uuid,
            host=device.host,
            kind=device.kind,
            pool=device.pool,
            usable=device.usable.bytes,
            held=str(books.held),
            promised=str(books.promised),
            parked=str(books.parked),
            lent=str(books.lent),
            foreign=str(device.foreign),
            condition="draining" if is_drained else device.condition,
            over_committed=is_over,
            trespassed=device.trespassed,
        )

    def host(self, host: Host) -> wire.HostModel:
        """One host, and what moves there now."""
        there = [lease for lease in self._unsettled() if self._host_of(lease) == host.name]
        budget = host.parking_budget
        return wire.HostModel(
            name=host.name,
            parking_budget=None if budget.is_unlimited else budget.bytes,
            parked=self.books.host_books.get(host.name, HostBooks()).booked.bytes,
            copies=host.copies,
            copies_now=sum(1 for lease in there if lease.status in _MOVING),
            saves=host.saves,
            saves_now=sum(1 for lease in there if lease.status is Status.YIELDING and not lease.is_session),
            condition=host.condition,
        )

    def devices(self) -> wire.DevicesAnswer:
        """Every host and device."""
        hosts = [self.host(self.books.hosts[name]) for name in sorted(self.books.hosts)]
        ordered = sorted(self.books.devices.values(), key=lambda device: (device.host, device.uuid))
        return wire.DevicesAnswer(hosts, [self.device(device) for device in ordered])

    def project(self, project: Project, fair_share: Fraction, usage: wire.UsageModel, source: str) -> wire.ProjectModel:
        """One project, and what it has. Who is in it is told apart: see `with_people`."""
        books = self.books.project_books.get(project.name, ProjectBooks())
        return wire.ProjectModel(
            name=project.name,
            quota=str(project.quota),
            weight=str(project.over_quota_weight),
            limit=str(project.limit),
            person_limit=str(project.person_limit),
            fair_share=str(fair_share),
            allocated=str(books.counted),
            sessions=str(books.sessions),
            lent=str(books.lent),
            queued=books.waiting,
            usage=usage,
            source=source,  # type: ignore[arg-type]  # made by the configuration, out of these
        )

    def _grants(self, grants: Iterable[Grant], loans: Iterable[Loan]) -> list[wire.GrantModel]:
        lent: dict[str, Fraction] = {}
        for loan in loans:
            lent[loan.device] = lent.get(loan.device, Fraction.ZERO) + loan.amount
        return [self._grant(grant, lent.get(grant.device, Fraction.ZERO)) for grant in grants]

    def _grant(self, grant: Grant, lent: Fraction) -> wire.GrantModel:
        device = self.books.devices.get(grant.device)
        memory = Memory.ZERO if device is None else grant.amount.of(device.usable)
        host = "" if device is None else device.host
        return wire.GrantModel(grant.device, host, str(grant.amount), memory.bytes, str(lent))

    def _device_books(self, uuid: str) -> DeviceBooks:
        return self.books.device_books.get(uuid, DeviceBooks())

    def _unsettled(self) -> list[Lease]:
        return [self.books.leases[key] for key in self.books.unsettled]

    def _host_of(self, lease: Lease) -> str:
        device = self.books.devices.get(lease.devices[0]) if lease.grants else None
        return "" if device is None else device.host


def _waits(lease: Lease) -> bool:
    """A claim in line, and a parked session that is wanted back."""
    return lease.is_waiting or (lease.status is Status.PARKED and lease.target is Target.RUNNING)


def with_people(model: wire.ProjectModel, project: Project) -> wire.ProjectModel:
    """*model*, for somebody who may see who owns *project* and who is in it."""
    return msgspec.structs.replace(model, owners=sorted(project.owners), members=sorted(project.members))


def audit_model(recorded: Recorded) -> AuditEntryModel:
    """One line of the audit."""
    entry = recorded.entry
    return AuditEntryModel(
        number=recorded.number,
        at=entry.at,
        verb=entry.verb.value,
        lease=entry.lease,
        project=entry.project,
        person=entry.person,
        devices=list(entry.devices),
        amount="" if entry.amount is None else str(entry.amount),
        lent="" if entry.lent is None else str(entry.lent),
        reason="" if entry.reason is None else entry.reason.value,
        because_of=entry.because_of,
        by=entry.by,
        details=dict(entry.details),
        why=entry.details.get("why", ""),
    )


def usage_model(hours: UsageHours | None) -> wire.UsageModel:
    """Some GPU-hours; none when nothing was used."""
    if hours is None:
        return wire.UsageModel(0.0, 0.0, 0.0, 0.0)
    return wire.UsageModel(hours.held, hours.handed_back, hours.lent, hours.computed)
