"""The books at one moment: immutable; a change makes new ones that share what did not change."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.change import Change
from jupyter_gpushare.rules.demand import demand_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jupyter_gpushare.rules.capacity import GpuDevice, Host
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.pool import Pool
    from jupyter_gpushare.rules.project import Project

__all__ = ["EMPTY", "DeviceBooks", "ProjectBooks", "Snapshot"]

_Named = TypeVar("_Named")
_Books = TypeVar("_Books", bound="Snapshot")


@dataclass(frozen=True, slots=True)
class DeviceBooks:
    """What leases have on one device.

    Attributes:
        held: granted to leases of which something may be there (invariant I1).
        promised: granted to sessions, running or parked (I2).
        parked: promised to sessions of which nothing is there: what may be lent.
        lent: on loan to leases of which something may be there, from promises of parked sessions.
        leases: the ids of all leases with a grant here, a parked job's too.
    """

    held: Fraction = Fraction.ZERO
    promised: Fraction = Fraction.ZERO
    parked: Fraction = Fraction.ZERO
    lent: Fraction = Fraction.ZERO
    leases: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ProjectBooks:
    """What one project's leases come to, in GPUs.

    Attributes:
        sessions: of admitted sessions, running or parked (I3).
        counted: of all leases that have something, what is lent to them left out: what fair share is held against.
        demand: of all leases and waiting claims.
        persons: of admitted sessions, for each person.
        leases: the ids of all its leases and claims.
    """

    sessions: Fraction = Fraction.ZERO
    counted: Fraction = Fraction.ZERO
    demand: Fraction = Fraction.ZERO
    persons: Mapping[str, Fraction] = field(default_factory=dict)
    leases: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything the rules look at. Leases that are over are not in it.

    ``device_books``, ``project_books`` and ``waiting`` follow from the rest and are kept in step by `with_change`, in
    time that grows with the change and not with the number of leases (but for copying mappings).
    """

    projects: Mapping[str, Project] = field(default_factory=dict)
    pools: Mapping[str, Pool] = field(default_factory=dict)
    hosts: Mapping[str, Host] = field(default_factory=dict)
    devices: Mapping[str, GpuDevice] = field(default_factory=dict)
    leases: Mapping[str, Lease] = field(default_factory=dict)
    is_parking_stopped: bool = False
    device_books: Mapping[str, DeviceBooks] = field(default_factory=dict)
    project_books: Mapping[str, ProjectBooks] = field(default_factory=dict)
    waiting: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        *,
        projects: Iterable[Project] = (),
        pools: Iterable[Pool] = (),
        hosts: Iterable[Host] = (),
        devices: Iterable[GpuDevice] = (),
        leases: Iterable[Lease] = (),
        is_parking_stopped: bool = False,
    ) -> Self:
        """Books made of their parts, as a ledger gives them."""
        change = Change(
            projects={each.name: each for each in projects},
            pools={each.name: each for each in pools},
            hosts={each.name: each for each in hosts},
            devices={each.uuid: each for each in devices},
            leases={each.id: each for each in leases},
            is_parking_stopped=is_parking_stopped,
        )
        return cls().with_change(change)

    def with_change(self, change: Change) -> Self:
        """These books after *change*."""
        devices = _changed(self.devices, change.devices)
        live = {key: None if lease.is_over else lease for key, lease in change.leases.items()}
        leases = _changed(self.leases, live)
        now = replace(
            self,
            projects=_changed(self.projects, change.projects),
            pools=_changed(self.pools, change.pools),
            hosts=_changed(self.hosts, change.hosts),
            devices=devices,
            leases=leases,
            is_parking_stopped=(
                self.is_parking_stopped if change.is_parking_stopped is None else change.is_parking_stopped
            ),
        )
        if any(_is_reshaped(self.devices.get(key), device) for key, device in change.devices.items()):
            return _counted_anew(now)
        if not live:
            return now
        before = [lease for key in live if (lease := self.leases.get(key)) is not None]
        after = [lease for lease in live.values() if lease is not None]
        return replace(
            now,
            device_books=_device_books(self, now, before, after),
            project_books=_project_books(self, now, before, after),
            waiting=(self.waiting - live.keys()) | {lease.id for lease in after if lease.is_waiting},
        )


EMPTY: Final = Snapshot()


def _is_reshaped(old: GpuDevice | None, new: GpuDevice | None) -> bool:
    """Whether a share in GiB may now cost something else: rare, as devices seldom come and go."""
    if old is None or new is None:
        return True
    shapes = {(each.kind, each.pool, each.usable, each.condition == "gone") for each in (old, new)}
    return len(shapes) > 1


def _counted_anew(now: _Books) -> _Books:
    leases = list(now.leases.values())
    empty = replace(now, device_books={}, project_books={})
    return replace(
        now,
        device_books=_device_books(empty, now, [], leases),
        project_books=_project_books(empty, now, [], leases),
        waiting=frozenset(lease.id for lease in leases if lease.is_waiting),
    )


def _changed(old: Mapping[str, _Named], new: Mapping[str, _Named | None]) -> Mapping[str, _Named]:
    if not new:
        return old
    merged = dict(old)
    for key, value in new.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return merged


def _device_books(old: Snapshot, now: Snapshot, before: list[Lease], after: list[Lease]) -> Mapping[str, DeviceBooks]:
    """The books of the devices that these leases touch are counted anew from the leases there."""
    ids: dict[str, set[str]] = {}
    for lease in before + after:
        for device in lease.devices:
            ids.setdefault(device, set(old.device_books.get(device, DeviceBooks()).leases))
    for lease in before:
        for device in lease.devices:
            ids[device].discard(lease.id)
    for lease in after:
        for device in lease.devices:
            ids[device].add(lease.id)
    counted = {device: _count_device(device, [now.leases[key] for key in there]) for device, there in ids.items()}
    return _changed(old.device_books, {device: books if books.leases else None for device, books in counted.items()})


def _count_device(device: str, leases: list[Lease]) -> DeviceBooks:
    held = promised = parked = lent = 0
    for lease in leases:
        amount = sum(grant.amount.millionths for grant in lease.grants if grant.device == device)
        if lease.is_resident:
            held += amount
            lent += sum(loan.amount.millionths for loan in lease.loans if loan.device == device)
        if lease.is_promised:
            promised += amount
            parked += 0 if lease.is_resident else amount
    return DeviceBooks(
        Fraction(held), Fraction(promised), Fraction(parked), Fraction(lent), frozenset(lease.id for lease in leases)
    )


def _project_books(old: Snapshot, now: Snapshot, before: list[Lease], after: list[Lease]) -> Mapping[str, ProjectBooks]:
    """The books of the projects of these leases: what was is taken off, what is now is added."""
    changes: defaultdict[str, list[tuple[int, Lease]]] = defaultdict(list)
    for lease in before:
        changes[lease.project].append((-1, lease))
    for lease in after:
        changes[lease.project].append((1, lease))
    return _changed(old.project_books, {name: _add(old, now, name, signed) for name, signed in changes.items()})


def _add(old: Snapshot, now: Snapshot, name: str, signed: list[tuple[int, Lease]]) -> ProjectBooks | None:
    books = old.project_books.get(name, ProjectBooks())
    sessions, counted, demand = books.sessions.millionths, books.counted.millionths, books.demand.millionths
    persons, ids = dict(books.persons), set(books.leases)
    for sign, lease in signed:
        (ids.add if sign > 0 else ids.discard)(lease.id)
        where = now if sign > 0 else old
        demand += sign * demand_of(lease, where.devices).millionths
        if lease.is_resident or lease.is_promised:
            counted += sign * (lease.amount - lease.lent).millionths
        if lease.is_promised:
            sessions += sign * lease.amount.millionths
            persons[lease.person] = persons.get(lease.person, Fraction.ZERO) + Fraction(sign * lease.amount.millionths)
    if not ids:
        return None
    kept = MappingProxyType({person: amount for person, amount in persons.items() if amount})
    return ProjectBooks(Fraction(sessions), Fraction(counted), Fraction(demand), kept, frozenset(ids))
