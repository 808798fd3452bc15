"""Counts the rooms of a snapshot, again only where something changed since the snapshot before."""

from __future__ import annotations

import threading
from itertools import compress
from operator import is_not
from typing import TYPE_CHECKING

from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.fair_share import capacity
from jupyter_gpushare.rules.layout import Layout, lay_out
from jupyter_gpushare.rules.lease import Status, Target
from jupyter_gpushare.rules.lending import lendable
from jupyter_gpushare.rules.rooms import Rooms
from jupyter_gpushare.rules.snapshot import DeviceBooks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_gpushare.rules.capacity import GpuDevice
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["capacity_of", "rooms_of"]


class _Known(threading.local):
    """What this thread counted for the snapshot before: only where something changed is counted again.

    The result follows from the snapshot alone; this saves time, and keeps one snapshot alive.
    """

    def __init__(self) -> None:
        self.snapshot: Snapshot | None = None
        self.rooms = Rooms(Layout((), {}))
        self.capacity = 0


_KNOWN = _Known()


def rooms_of(snapshot: Snapshot) -> Rooms:
    """The rooms of *snapshot* as it is; nobody has left yet."""
    _follow(snapshot)
    return _KNOWN.rooms.copy()


def capacity_of(snapshot: Snapshot) -> int:
    """As `fair_share.capacity`."""
    _follow(snapshot)
    return _KNOWN.capacity


def _follow(snapshot: Snapshot) -> None:
    old = _KNOWN.snapshot
    if old is snapshot:
        return
    _KNOWN.snapshot = None  # should this fail half-way, the next begins anew
    if old is None or not _is_laid_out_alike(old, snapshot):
        _KNOWN.rooms = Rooms(lay_out(snapshot))
        stale = set(_KNOWN.rooms.layout.site_of)
    else:
        stale = _touched(old, snapshot) & _KNOWN.rooms.own.keys()
    for uuid in stale:
        _count(_KNOWN.rooms, snapshot, uuid)
    if old is None or old.devices is not snapshot.devices or old.hosts is not snapshot.hosts:
        _KNOWN.capacity = capacity(snapshot)
    _KNOWN.snapshot = snapshot


def _is_laid_out_alike(old: Snapshot, new: Snapshot) -> bool:
    if old.pools is not new.pools or old.hosts is not new.hosts or old.is_parking_stopped != new.is_parking_stopped:
        return False
    if old.devices is new.devices:
        return True
    if old.devices.keys() != new.devices.keys():
        return False
    return all(_is_alike(device, new.devices[uuid]) for uuid, device in old.devices.items())


def _is_alike(old: GpuDevice, new: GpuDevice) -> bool:
    """Whether nothing but what is foreign on it changed."""
    if old is new:
        return True
    shapes = [(each.host, each.kind, each.pool, each.usable, each.trespassed, each.condition) for each in (old, new)]
    return shapes[0] == shapes[1]


def _touched(old: Snapshot, new: Snapshot) -> set[str]:
    return _differing(old.devices, new.devices) | _differing(old.device_books, new.device_books)


def _differing(old: Mapping[str, object], new: Mapping[str, object]) -> set[str]:
    """The names under which there is something else now. Looked for in every decision among very many."""
    if old is new:
        return set()
    there = set(compress(new, map(is_not, map(old.get, new), new.values())))
    added = sum(name not in old for name in there)
    return there if len(old) + added == len(new) else there | (old.keys() - new.keys())


def _count(rooms: Rooms, snapshot: Snapshot, uuid: str) -> None:
    device = snapshot.devices[uuid]
    books = snapshot.device_books.get(uuid, DeviceBooks())
    whole, held, parked = device.capacity.millionths, books.held.millionths, books.parked.millionths
    own = whole - held - parked + books.lent.millionths
    site = rooms.layout.site_of[uuid]
    rooms.left[site] = rooms.left.get(site, 0) + own - rooms.own.get(uuid, 0)
    rooms.own[uuid] = own
    (rooms.open.add if own > 0 else rooms.open.discard)(uuid)
    rooms.free[uuid] = whole - held
    rooms.foreign.pop(uuid, None)
    if device.foreign:
        rooms.foreign[uuid] = device.foreign.millionths
    rooms.offers.pop(uuid, None)
    rooms.lent.pop(uuid, None)
    if parked and (offers := lendable(snapshot, uuid)):
        rooms.offers[uuid] = offers
        rooms.lent[uuid] = sum(offer.amount.millionths for offer in offers)
    pool = snapshot.pools[device.pool]
    if pool.resume == "best-effort":
        most = pool.oversubscribe.millionths * whole // Fraction.PER_GPU
        rooms.promises[uuid] = most - books.promised.millionths
        rooms.free[uuid] -= _coming_back(snapshot, uuid, books)


def _coming_back(snapshot: Snapshot, uuid: str, books: DeviceBooks) -> int:
    """What parked sessions are to have again there: new claims do not overtake them."""
    leases = (snapshot.leases[key] for key in books.leases)
    return sum(
        grant.amount.millionths
        for lease in leases
        if lease.is_session and lease.status is Status.PARKED and lease.target is Target.RUNNING
        for grant in lease.grants
        if grant.device == uuid
    )
