"""Memory above the request: a loan of room that nobody is promised, called back whenever it is needed (rule 6).

Given only to who can be parked, and only where parking them would find host memory: that is how every burst can be
called back (I7). First come, first served, so that a newcomer takes nothing from who has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.audit import changed
from jupyter_gpushare.rules.change import Change, Verb
from jupyter_gpushare.rules.demand import cost_of
from jupyter_gpushare.rules.host_memory import fits_session, whole_share
from jupyter_gpushare.rules.lease import Grant, Lease, Status, Target
from jupyter_gpushare.rules.room import burst_room, takes_more
from jupyter_gpushare.rules.snapshot import DeviceBooks
from jupyter_gpushare.rules.turns import pool_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_gpushare.rules.capacity import GpuDevice
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["settle_bursts"]


def settle_bursts(snapshot: Snapshot, devices: Iterable[str], now: float) -> Change:
    """Give and call back bursts on *devices*, those that something has changed on."""
    change = Change()
    for uuid in sorted(devices):
        made = _settle(snapshot, uuid, now)
        if made:
            snapshot, change = snapshot.with_change(made), change.then(made)
    return change


def _settle(snapshot: Snapshot, uuid: str, now: float) -> Change:
    device = snapshot.devices.get(uuid)
    ids = snapshot.device_books.get(uuid, DeviceBooks()).leases
    bursting = [lease for key in ids if (lease := snapshot.leases[key]).bursts or lease.share.bursts]
    if device is None or not bursting:
        return Change()
    room, change = max(0, burst_room(snapshot, uuid)), Change()
    for lease in sorted(bursting, key=lambda lease: (lease.turn_began, lease.id)):
        had = _on(lease.bursts, uuid)
        gets = min(_wish(snapshot, lease, device), room)
        if gets < had or takes_more(snapshot, device):
            made = _give(snapshot, lease, uuid, gets, now)
            snapshot, change = snapshot.with_change(made), change.then(made)
        room -= _on(snapshot.leases[lease.id].bursts, uuid)
    return change


def _on(parts: Iterable[Grant], uuid: str) -> int:
    return sum(part.amount.millionths for part in parts if part.device == uuid)


def _wish(snapshot: Snapshot, lease: Lease, device: GpuDevice) -> int:
    """How much above its request it may use at most: nothing unless it can be parked for it."""
    if not lease.is_parkable:
        return 0
    if lease.status is Status.MISSING:
        # It cannot be asked now: what it has is its own until it is back, or seen gone.
        return _on(lease.bursts, device.uuid)
    if lease.status is not Status.RUNNING or lease.target is not Target.RUNNING or lease.is_called:
        return 0
    if snapshot.is_parking_stopped or pool_of(snapshot, lease).parking != "park":
        return 0
    ceiling = min(Fraction.PER_GPU, cost_of(lease.share.limit, device.usable).millionths)
    return max(0, ceiling - _on(lease.grants, device.uuid))


def _give(snapshot: Snapshot, lease: Lease, uuid: str, gets: int, now: float) -> Change:
    had = _on(lease.bursts, uuid)
    if gets > had and not _could_park_with(snapshot, lease, uuid, gets):
        gets = had
    if gets > 0 and not _could_park_with(snapshot, lease, uuid, gets):
        gets = 0
    if gets == had:
        return Change()
    others = tuple(part for part in lease.bursts if part.device != uuid)
    bursts = (*others, Grant(uuid, Fraction(gets))) if gets else others
    verb = Verb.BURST_GRANTED if gets > had else Verb.BURST_CALLED_BACK
    after = lease.evolve(bursts=tuple(sorted(bursts, key=lambda part: part.device)))
    return changed(after, verb, now, devices=(uuid,), amount=Fraction(gets))


def _could_park_with(snapshot: Snapshot, lease: Lease, uuid: str, gets: int) -> bool:
    """Whether a session with such a burst could still be parked; a job has another way out."""
    if not lease.is_session:
        return True
    others = tuple(part for part in lease.bursts if part.device != uuid)
    larger = lease.evolve(bursts=(*others, Grant(uuid, Fraction(gets))))
    return fits_session(snapshot, larger, whole_share(snapshot, larger))
