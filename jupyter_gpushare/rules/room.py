"""How much of a device nobody is promised and nobody holds, in millionths of a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.lease import Status, Target
from jupyter_gpushare.rules.snapshot import DeviceBooks

if TYPE_CHECKING:
    from jupyter_gpushare.rules.capacity import GpuDevice
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["burst_room", "free_room", "is_best_effort", "takes_more", "unpromised_room"]


def takes_more(snapshot: Snapshot, device: GpuDevice) -> bool:
    """Whether anything new may begin on *device*: it and its host are ready, and no stranger computes there."""
    host = snapshot.hosts.get(device.host)
    return device.condition == "ready" and not device.trespassed and (host is None or host.condition == "ready")


def is_best_effort(snapshot: Snapshot, device: GpuDevice) -> bool:
    """Whether its pool promises more than there is."""
    pool = snapshot.pools.get(device.pool)
    return pool is not None and pool.resume == "best-effort"


def free_room(snapshot: Snapshot, uuid: str) -> int:
    """What nobody holds; below zero where more is held than there is."""
    return snapshot.devices[uuid].capacity.millionths - _books(snapshot, uuid).held.millionths


def unpromised_room(snapshot: Snapshot, uuid: str) -> int:
    """What is neither promised to a session nor held by a job that has not borrowed it.

    Under ``best-effort`` promises may exceed the device, up to what its pool allows; what is held must still fit.
    """
    device, books = snapshot.devices[uuid], _books(snapshot, uuid)
    capacity = device.capacity.millionths
    if is_best_effort(snapshot, device):
        most = capacity * snapshot.pools[device.pool].oversubscribe.millionths // Fraction.PER_GPU
        return min(most - books.promised.millionths, free_room(snapshot, uuid))
    # held = running sessions + jobs, promised = running sessions + parked ones: together each counts once.
    return capacity - books.held.millionths - books.parked.millionths + books.lent.millionths


def burst_room(snapshot: Snapshot, uuid: str) -> int:
    """What bursts may use: unpromised room; under ``best-effort`` also promises of those that stay parked."""
    if not is_best_effort(snapshot, snapshot.devices[uuid]):
        return min(unpromised_room(snapshot, uuid), free_room(snapshot, uuid))
    room = free_room(snapshot, uuid)
    for key in _books(snapshot, uuid).leases:
        lease = snapshot.leases[key]
        if lease.is_session and lease.status is Status.PARKED and lease.target is Target.RUNNING:
            room -= sum(grant.amount.millionths for grant in lease.grants if grant.device == uuid)
    return room


def _books(snapshot: Snapshot, uuid: str) -> DeviceBooks:
    return snapshot.device_books.get(uuid, DeviceBooks())
