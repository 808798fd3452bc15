"""What a new configuration would change, and what it would over-commit: for people, before it is put in force."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules.project import EVERYBODY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jupyter_gpushare.broker.configuration import Configuration
    from jupyter_gpushare.rules.capacity import GpuDevice
    from jupyter_gpushare.rules.pool import Pool
    from jupyter_gpushare.rules.project import Project
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["Plan", "diff"]

#: How the file calls the fields whose names carry a unit.
_UNIT: Final = "_s"
_NOT_OF_THE_FILE: Final = frozenset({"name", "condition", "joined", "added", "limits", "set_quota"})


@dataclass(frozen=True, slots=True)
class Plan:
    """What a file changes, one line each, and what it would over-commit. Nothing is taken from what runs."""

    changes: tuple[str, ...]
    warnings: tuple[str, ...]


def diff(snapshot: Snapshot, configuration: Configuration) -> Plan:
    """Compare the books with what *configuration* wants."""
    changes = [
        *_named("project", snapshot.projects, {each.name: each for each in configuration.projects}),
        *_named("pool", snapshot.pools, {each.name: each for each in configuration.pools}),
        *_named("host", snapshot.hosts, {name: configuration.host(host) for name, host in snapshot.hosts.items()}),
        *_moved_devices(snapshot, configuration),
    ]
    warnings = [
        *(f"broker losses: {loss.value} is on: what it ends is lost" for loss in sorted(configuration.losses)),
        *_lost_projects(snapshot, configuration),
        *(line for project in configuration.projects for line in _short_project(snapshot, project)),
        *_too_many_promises(snapshot, configuration),
        *_short_devices(snapshot, configuration),
        *_short_hosts(snapshot, configuration),
    ]
    return Plan(tuple(changes), tuple(warnings))


def _named(word: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            yield f"{word} {name} is removed"
        elif name not in old:
            yield f"{word} {name} is new: {', '.join(_facts(new[name]))}"
        elif old[name] != new[name]:
            yield f"{word} {name}: {', '.join(_differences(old[name], new[name]))}"


def _facts(record: Any) -> Iterator[str]:
    for name in _field_names(record):
        value = getattr(record, name)
        if value not in ("", None) and not (name == "owners" and not value):
            yield f"{_key(name)} {_shown(value)}"


def _differences(old: Any, new: Any) -> Iterator[str]:
    for name in _field_names(new):
        before, after = getattr(old, name), getattr(new, name)
        if before != after:
            yield f"{_key(name)} {_shown(before)} → {_shown(after)}"


def _field_names(record: Any) -> list[str]:
    return [each.name for each in fields(record) if each.name not in _NOT_OF_THE_FILE]


def _key(name: str) -> str:
    return name.removesuffix(_UNIT)


def _shown(value: object) -> str:
    if isinstance(value, Memory) and not value.is_unlimited:
        return value.human
    if isinstance(value, frozenset):
        return "everybody" if EVERYBODY in value else ", ".join(sorted(value)) or "nobody"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g} s"
    return "as its quota" if value is None else str(value)


def _moved_devices(snapshot: Snapshot, configuration: Configuration) -> Iterator[str]:
    for device in _present(snapshot):
        pool = configuration.pool_of(device)
        if pool is None:
            yield f"device {device.uuid} on {device.host} is in no pool any more"
        elif pool != device.pool:
            yield f"device {device.uuid} on {device.host}: pool {device.pool or 'none'} → {pool}"


def _lost_projects(snapshot: Snapshot, configuration: Configuration) -> Iterator[str]:
    kept = {project.name for project in configuration.projects}
    for name, books in sorted(snapshot.project_books.items()):
        if name not in kept and books.leases:
            yield (
                f"Project {name} is removed with {_counted(len(books.leases), 'lease')}: "
                "what runs goes on, and nothing new of it begins."
            )


def _short_project(snapshot: Snapshot, project: Project) -> Iterator[str]:
    books = snapshot.project_books.get(project.name)
    if books is None:
        return
    if books.sessions > project.quota:
        yield (
            f"Project {project.name}: its notebooks have {books.sessions} GPU and its quota becomes {project.quota}. "
            f"Nothing is taken from them; no further one begins until they have less."
        )
    if books.counted > project.limit:
        yield (
            f"Project {project.name} has {books.counted} GPU and its limit becomes {project.limit}. "
            "Nothing is taken from it for that; it gets nothing more until it has less."
        )
    for person, amount in sorted(books.persons.items()):
        if amount > project.person_limit:
            yield (
                f"Project {project.name}: the notebooks of {person} have {amount} GPU and the limit of a person "
                f"becomes {project.person_limit}. Nothing is taken from them."
            )
    before = snapshot.projects.get(project.name, project)
    known = project.members | before.added | before.joined
    strangers = sorted({snapshot.leases[key].person for key in books.leases} - known)
    if EVERYBODY not in project.members and strangers:
        yield f"Project {project.name}: {', '.join(strangers)} have leases and are no members. What runs goes on."


def _too_many_promises(snapshot: Snapshot, configuration: Configuration) -> Iterator[str]:
    quotas = [project.quota for project in configuration.projects if not project.quota.is_unlimited]
    promised = Fraction.total(quotas)
    there = Fraction(Fraction.PER_GPU * len(_present(snapshot)))
    if there and promised > there:
        yield f"The quotas are {promised} GPU together, and there are {there}: some will wait for what is theirs."


def _short_devices(snapshot: Snapshot, configuration: Configuration) -> Iterator[str]:
    pools = {pool.name: pool for pool in configuration.pools}
    for device in _present(snapshot):
        books = snapshot.device_books.get(device.uuid)
        if books is None or not books.leases:
            continue
        pool = pools.get(configuration.pool_of(device) or "")
        if pool is None:
            count = _counted(len(books.leases), "lease")
            yield f"Device {device.uuid} leaves all pools with {count} on it: it is drained, and they go on until then."
        elif books.promised > _most_promised(pool):
            yield (
                f"Device {device.uuid}: {books.promised} GPU of it is promised to notebooks, and pool {pool.name} "
                f"allows {_most_promised(pool)}. Those notebooks keep their promise; it gets no further one."
            )


def _short_hosts(snapshot: Snapshot, configuration: Configuration) -> Iterator[str]:
    parked = _parked(snapshot)
    for name, host in sorted(snapshot.hosts.items()):
        budget, used = configuration.host(host).parking_budget, parked.get(name, Memory.ZERO)
        if used > budget:
            yield (
                f"Host {name}: parked state takes {used.human} and its budget becomes {_shown(budget)}. "
                "Nothing of it is lost; nothing more is parked there until it takes less."
            )


def _parked(snapshot: Snapshot) -> dict[str, Memory]:
    found: dict[str, list[Memory]] = {}
    for lease in snapshot.leases.values():
        device = snapshot.devices.get(lease.devices[0]) if lease.devices else None
        if device is not None and lease.host_memory:
            found.setdefault(device.host, []).append(lease.host_memory)
    return {host: Memory.total(sizes) for host, sizes in found.items()}


def _most_promised(pool: Pool) -> Fraction:
    return pool.oversubscribe if pool.resume == "best-effort" else Fraction.ONE


def _present(snapshot: Snapshot) -> list[GpuDevice]:
    return [device for _, device in sorted(snapshot.devices.items()) if device.condition != "gone"]


def _counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
