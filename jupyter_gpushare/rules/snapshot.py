"""The books at one moment: immutable; a change makes new ones that share what did not change."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules.change import Change
from jupyter_gpushare.rules.demand import demand_of
from jupyter_gpushare.rules.overlay import Overlay, changed, flat

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jupyter_gpushare.rules.capacity import GpuDevice, Host
    from jupyter_gpushare.rules.lease import Grant, Lease
    from jupyter_gpushare.rules.pool import Pool
    from jupyter_gpushare.rules.project import Project

__all__ = ["EMPTY", "DeviceBooks", "HostBooks", "ProjectBooks", "Snapshot"]

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
        lent: what is lent to leases of which something may be there.
        waiting: how many of them are claims that want capacity.
        persons: of admitted sessions, for each person.
        leases: the ids of all its leases and claims.
    """

    sessions: Fraction = Fraction.ZERO
    counted: Fraction = Fraction.ZERO
    demand: Fraction = Fraction.ZERO
    lent: Fraction = Fraction.ZERO
    waiting: int = 0
    persons: Mapping[str, Fraction] = field(default_factory=dict)
    leases: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class HostBooks:
    """What parked state takes of one host's memory.

    Attributes:
        booked: by leases that are parked, or asked to be, until they run again (I6).
        foreseen: what sessions there would book, were they parked: those that can be and have booked nothing.
        bursting: the same, bursts included, of those sessions that have a burst: it may be called back by parking them.
    """

    booked: Memory = Memory.ZERO
    foreseen: Memory = Memory.ZERO
    bursting: Memory = Memory.ZERO


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything the rules look at. Leases that are over are not in it.

    The last seven follow from the rest and are kept in step by `with_change`, in time that grows with the change and
    not with the number of leases (but for copying mappings).

    Attributes:
        projects: by name.
        pools: by name.
        hosts: by name.
        devices: by UUID; one that is gone stays while a lease has a part of it.
        leases: by id.
        is_parking_stopped: nobody is parked any more.
        device_books: by UUID, of devices that leases have a part of.
        project_books: by name, of projects with leases.
        host_books: by name, of hosts where leases are.
        waiting: ids of claims that want capacity.
        unsettled: ids of leases that are on their way somewhere.
        holders: the id of the lease for a person and a holder's own name for it.
        gone: the devices that have disappeared and of which somebody has a part still.
    """

    projects: Mapping[str, Project] = field(default_factory=dict)
    pools: Mapping[str, Pool] = field(default_factory=dict)
    hosts: Mapping[str, Host] = field(default_factory=dict)
    devices: Mapping[str, GpuDevice] = field(default_factory=dict)
    leases: Mapping[str, Lease] = field(default_factory=dict)
    is_parking_stopped: bool = False
    device_books: Mapping[str, DeviceBooks] = field(default_factory=dict)
    project_books: Mapping[str, ProjectBooks] = field(default_factory=dict)
    host_books: Mapping[str, HostBooks] = field(default_factory=dict)
    waiting: frozenset[str] = frozenset()
    unsettled: frozenset[str] = frozenset()
    holders: Mapping[tuple[str, str], str] = field(default_factory=dict)
    gone: tuple[str, ...] = ()

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
        devices = changed(self.devices, change.devices)
        live = {key: None if lease.is_over else lease for key, lease in change.leases.items()}
        leases = changed(self.leases, live)
        now = replace(
            self,
            projects=changed(self.projects, change.projects),
            pools=changed(self.pools, change.pools),
            hosts=changed(self.hosts, change.hosts),
            devices=devices,
            leases=leases,
            gone=_gone(devices) if change.devices else self.gone,
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
        return _kept_in_step(self, now, before, after)

    def opened(self) -> Self:
        """The same books, for many changes one after the other: what is very large is not copied for each."""
        return replace(self, leases=Overlay(self.leases), holders=Overlay(self.holders))

    def closed(self) -> Self:
        """The same books, after the last of those changes."""
        return replace(self, leases=flat(self.leases), holders=flat(self.holders))


EMPTY: Final = Snapshot()


def _gone(devices: Mapping[str, GpuDevice]) -> tuple[str, ...]:
    return tuple(uuid for uuid, device in devices.items() if device.condition == "gone")


def _is_reshaped(old: GpuDevice | None, new: GpuDevice | None) -> bool:
    """Whether a share in GiB may now cost something else: rare, as devices seldom come and go."""
    if old is None or new is None:
        return True
    shapes = {(each.host, each.kind, each.pool, each.usable, each.condition == "gone") for each in (old, new)}
    return len(shapes) > 1


def _counted_anew(now: _Books) -> _Books:
    nothing: dict[str, Any] = {"device_books": {}, "project_books": {}, "host_books": {}, "holders": {}}
    empty = replace(now, waiting=frozenset(), unsettled=frozenset(), **nothing)
    return _kept_in_step(empty, now, [], list(now.leases.values()))


def _kept_in_step(old: Snapshot, now: _Books, before: list[Lease], after: list[Lease]) -> _Books:
    weighed = _weighed_anew(before, after)
    return replace(
        now,
        device_books=_device_books(old, now, *weighed),
        project_books=_project_books(old, now, before, after),
        host_books=_host_books(old, now, *weighed),
        waiting=_ids(old.waiting, before, (lease.id for lease in after if lease.is_waiting)),
        unsettled=_ids(old.unsettled, before, (lease.id for lease in after if lease.is_unsettled)),
        holders=_holders(old.holders, before, after),
    )


def _weighed_anew(before: list[Lease], after: list[Lease]) -> tuple[list[Lease], list[Lease]]:
    """Those of which more than a hint has changed: what devices and hosts have does not depend on hints.

    A project's books are new ones all the same: that is how others see that something about its leases is new.
    """
    old = {lease.id: lease for lease in before}
    same = {lease.id for lease in after if lease.id in old and _is_alike(old[lease.id], lease)}
    if not same:
        return before, after
    return [lease for lease in before if lease.id not in same], [lease for lease in after if lease.id not in same]


def _is_alike(old: Lease, new: Lease) -> bool:
    return new.evolve(idle_since=old.idle_since, uses=old.uses) == old


def _ids(old: frozenset[str], before: list[Lease], new: Iterable[str]) -> frozenset[str]:
    """Large and seldom touched sets stay the same object."""
    added = frozenset(new)
    dropped = old.intersection(lease.id for lease in before) - added
    if not dropped and added <= old:
        return old
    return (old - dropped) | added if dropped else old | added


def _holders(
    old: Mapping[tuple[str, str], str], before: list[Lease], after: list[Lease]
) -> Mapping[tuple[str, str], str]:
    was = {(lease.person, lease.key): lease.id for lease in before if lease.key}
    is_now = {(lease.person, lease.key): lease.id for lease in after if lease.key}
    return old if was == is_now else changed(old, {**dict.fromkeys(was), **is_now})


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
    return changed(old.device_books, {device: books if books.leases else None for device, books in counted.items()})


def _count_device(device: str, leases: list[Lease]) -> DeviceBooks:
    held = promised = parked = lent = 0
    lenders = set()
    for lease in leases:
        amount = sum([grant.amount.millionths for grant in lease.grants if grant.device == device])
        is_resident, is_promised = lease.is_resident, lease.is_promised
        held += amount if is_resident else 0
        if is_promised:
            promised += amount
            if not is_resident:
                parked += amount
                lenders.add(lease.id)
    if lenders:
        loans = [loan for lease in leases if lease.loans and lease.is_resident for loan in lease.loans]
        lent = sum([loan.amount.millionths for loan in loans if loan.device == device and loan.lender in lenders])
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
    return changed(old.project_books, {name: _add(old, now, name, signed) for name, signed in changes.items()})


def _add(old: Snapshot, now: Snapshot, name: str, signed: list[tuple[int, Lease]]) -> ProjectBooks | None:
    books = old.project_books.get(name, ProjectBooks())
    sessions, counted, demand = books.sessions.millionths, books.counted.millionths, books.demand.millionths
    lent, waiting = books.lent.millionths, books.waiting
    persons: defaultdict[str, int] = defaultdict(int)
    for sign, lease in signed:
        where = now if sign > 0 else old
        demand += sign * demand_of(lease, where.devices).millionths
        waiting += sign * lease.is_waiting
        if lease.is_resident:
            lent += sign * lease.lent.millionths
        if lease.is_resident or lease.is_promised:
            counted += sign * (lease.amount - lease.lent).millionths
        if lease.is_promised:
            sessions += sign * lease.amount.millionths
            persons[lease.person] += sign * lease.amount.millionths
    ids = _ids(books.leases, [lease for sign, lease in signed if sign < 0], (x.id for sign, x in signed if sign > 0))
    if not ids:
        return None
    kept = _persons(books.persons, {person: amount for person, amount in persons.items() if amount})
    return ProjectBooks(Fraction(sessions), Fraction(counted), Fraction(demand), Fraction(lent), waiting, kept, ids)


def _persons(old: Mapping[str, Fraction], more: Mapping[str, int]) -> Mapping[str, Fraction]:
    """Who has nothing any more is not in it; mostly nobody has more or less than before, and it stays as it is."""
    if not more:
        return old
    sums = {person: old.get(person, Fraction.ZERO).millionths + amount for person, amount in more.items()}
    return MappingProxyType(changed(old, {person: Fraction(n) if n else None for person, n in sums.items()}))


def _host_books(old: Snapshot, now: Snapshot, before: list[Lease], after: list[Lease]) -> Mapping[str, HostBooks]:
    """What these leases took is taken off, what they take now is added."""
    sums: dict[str, list[int]] = {}
    for sign, where, leases in ((-1, old, before), (1, now, after)):
        for lease in leases:
            host = _host_name(where, lease)
            if host is not None:
                books = old.host_books.get(host, HostBooks())
                was = sums.get(host, [books.booked.bytes, books.foreseen.bytes, books.bursting.bytes])
                sums[host] = [count + sign * part for count, part in zip(was, _host_parts(where, lease), strict=True)]
    new = {host: HostBooks(*map(Memory, parts)) for host, parts in sums.items()}
    return changed(old.host_books, {host: books if books != HostBooks() else None for host, books in new.items()})


def _host_name(snapshot: Snapshot, lease: Lease) -> str | None:
    if not lease.grants:
        return None
    device = snapshot.devices.get(lease.grants[0].device)
    return None if device is None else device.host


def _host_parts(snapshot: Snapshot, lease: Lease) -> tuple[int, int, int]:
    """What it has booked; else what a session would book by its grants; and if it bursts, by its grants and bursts."""
    if lease.host_memory or not (lease.is_promised and lease.is_parkable and lease.is_resident):
        return lease.host_memory.bytes, 0, 0
    grants, bursts = (_bytes(snapshot, parts) for parts in (lease.grants, lease.bursts))
    return 0, grants, grants + bursts if bursts else 0


def _bytes(snapshot: Snapshot, parts: Iterable[Grant]) -> int:
    there = [(part.amount, snapshot.devices.get(part.device)) for part in parts]
    return sum(amount.of(device.usable).bytes for amount, device in there if device is not None)
