"""More promised or held than there is: never by our decision, but admins and hardware can bring it about.

What is over-committed is marked in the audit and takes nothing new until it is over. An excess is in millionths of a
GPU, or in bytes; zero where everything fits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.change import Change, Entry, Verb
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.snapshot import DeviceBooks, HostBooks, ProjectBooks

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.rules.capacity import GpuDevice
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["booked_excess", "held_excess", "marked", "promised_excess", "quota_excess"]


def held_excess(snapshot: Snapshot, uuid: str) -> int:
    """By how much the requests on a device exceed it (I1)."""
    books = snapshot.device_books.get(uuid, DeviceBooks())
    return max(0, books.held.millionths - _capacity(snapshot.devices.get(uuid)))


def promised_excess(snapshot: Snapshot, uuid: str) -> int:
    """By how much what sessions are promised on a device exceeds what its pool promises (I2)."""
    books = snapshot.device_books.get(uuid, DeviceBooks())
    device = snapshot.devices.get(uuid)
    pool = None if device is None else snapshot.pools.get(device.pool)
    times = pool.oversubscribe.millionths if pool is not None and pool.resume == "best-effort" else Fraction.PER_GPU
    return max(0, books.promised.millionths - _capacity(device) * times // Fraction.PER_GPU)


def _capacity(device: GpuDevice | None) -> int:
    return 0 if device is None else device.capacity.millionths


def quota_excess(snapshot: Snapshot, name: str) -> int:
    """By how much a project's sessions exceed its quota (I3)."""
    project = snapshot.projects.get(name)
    quota = Fraction.ZERO if project is None else project.quota
    return max(0, snapshot.project_books.get(name, ProjectBooks()).sessions.millionths - quota.millionths)


def booked_excess(snapshot: Snapshot, name: str) -> int:
    """By how many bytes what parked holders booked exceeds their host's budget (I6)."""
    host = snapshot.hosts.get(name)
    booked = snapshot.host_books.get(name, HostBooks()).booked
    return 0 if host is None or booked <= host.parking_budget else booked.bytes - host.parking_budget.bytes


def marked(before: Snapshot, after: Snapshot, change: Change, now: float) -> tuple[Entry, ...]:
    """A line for each device, project and host that *change*, made by no decision of ours, over-commits further."""
    devices = set(after.devices) | set(before.devices) if change.pools else set(change.devices)
    leases = [book.leases.get(key) for key in change.leases for book in (before, after)]
    known = [lease for lease in leases if lease is not None]
    devices.update(uuid for lease in known for uuid in lease.devices)
    hosts = set(change.hosts) | {device.host for uuid in devices if (device := after.devices.get(uuid)) is not None}
    projects = set(change.projects) | {lease.project for lease in known}
    is_worse = _comparison(before, after)
    return (
        *(_line(now, {"device": x}, (x,)) for x in sorted(devices) if is_worse(held_excess, x)),
        *(_line(now, {"promises on": x}, (x,)) for x in sorted(devices) if is_worse(promised_excess, x)),
        *(_line(now, {"quota of": x}, project=x) for x in sorted(projects) if is_worse(quota_excess, x)),
        *(_line(now, {"parking budget of": x}) for x in sorted(hosts) if is_worse(booked_excess, x)),
    )


def _comparison(before: Snapshot, after: Snapshot) -> Callable[[Callable[[Snapshot, str], int], str], bool]:
    return lambda excess, name: excess(after, name) > excess(before, name)


def _line(now: float, details: dict[str, str], devices: tuple[str, ...] = (), project: str = "") -> Entry:
    return Entry(
        now, Verb.OVER_COMMITTED, devices=devices, project=project, reason=Reason.OVER_COMMITTED, details=details
    )
