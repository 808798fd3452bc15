"""The host memory that parked state may take (invariant I6): booked before anything is parked.

Sessions and parked jobs share a host's budget. A session may book whatever is left. A job may book only what still
leaves room for every session there, were all of them parked at the size of their shares: jobs have another way out,
sessions have none. Sessions that come while a job is parked are not foreseen: room kept for all that might come would
make jobs on small hosts save and start again at every call, whereas a session that finds no room just runs on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.capacity import Host
from jupyter_gpushare.rules.change import Change
from jupyter_gpushare.rules.copies import host_of
from jupyter_gpushare.rules.lease import Status
from jupyter_gpushare.rules.snapshot import HostBooks

if TYPE_CHECKING:
    from jupyter_gpushare.rules.event import Using
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["copy_of", "fits_job", "fits_session", "most", "using", "whole_share"]


def using(snapshot: Snapshot, event: Using, now: float) -> Change:  # noqa: ARG001  # every event is taken in so
    """Remember what it holds, for whoever parks it. What leaves or comes has more or less of it from look to look."""
    lease = snapshot.leases.get(event.lease)
    if lease is None or lease.status is not Status.RUNNING or lease.uses == event.memory:
        return Change()
    return Change(leases={lease.id: lease.evolve(uses=event.memory)})


def copy_of(snapshot: Snapshot, lease: Lease) -> Memory:
    """What a parked copy of *lease* will take, as far as anybody can tell: what it holds, else all that it may use.

    One that grows until it is parked is refused by its host, which books what is really there, and goes on.
    """
    return whole_share(snapshot, lease) if lease.uses is None else min(lease.uses, most(snapshot, lease))


def whole_share(snapshot: Snapshot, lease: Lease) -> Memory:
    """All that *lease* may use of its devices now, bursts included."""
    parts = [(part.amount, snapshot.devices.get(part.device)) for part in (*lease.grants, *lease.bursts)]
    return Memory.total(amount.of(device.usable) for amount, device in parts if device is not None)


def most(snapshot: Snapshot, lease: Lease) -> Memory:
    """More than this cannot be on its devices, whatever its holder says."""
    devices = [snapshot.devices.get(uuid) for uuid in lease.devices]
    return Memory.total(device.usable for device in devices if device is not None)


def fits_session(snapshot: Snapshot, lease: Lease, memory: Memory) -> bool:
    """Whether a session may book *memory*. What it would take to park those that burst is not to be had (I7)."""
    books = _books(snapshot, lease)
    return _fits(snapshot, lease, books.booked.bytes + books.bursting.bytes - _own(snapshot, lease), memory)


def fits_job(snapshot: Snapshot, lease: Lease, memory: Memory) -> bool:
    """Whether a job may book *memory*; none may while all parking is stopped."""
    if snapshot.is_parking_stopped:
        return False
    books = _books(snapshot, lease)
    taken = books.booked.bytes + books.foreseen.bytes + books.bursting.bytes
    return _fits(snapshot, lease, taken - _own(snapshot, lease), memory)


def _books(snapshot: Snapshot, lease: Lease) -> HostBooks:
    return snapshot.host_books.get(host_of(snapshot, lease), HostBooks())


def _own(snapshot: Snapshot, lease: Lease) -> int:
    """What of `booked` and `bursting` is this lease's own."""
    known = snapshot.leases.get(lease.id)
    if known is None:
        return 0
    if known.host_memory or not known.bursts or not known.is_session or not known.is_parkable:
        return known.host_memory.bytes
    return whole_share(snapshot, known).bytes


def _fits(snapshot: Snapshot, lease: Lease, taken: int, memory: Memory) -> bool:
    name = host_of(snapshot, lease)
    budget = snapshot.hosts.get(name, Host(name)).parking_budget
    return budget.is_unlimited or taken + memory.bytes <= budget.bytes
