"""Where a claim goes: devices with room for all its parts, on one host (DESIGN 5, rule 4).

A whole GPU needs no rule of its own: it fits only where nothing is held, a session's only where nothing is promised.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.rules.rooms import Part, Placement

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from jupyter_gpushare.rules.layout import Fitting, Site
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.rooms import Rooms, View
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["NOBODY", "Neighbours", "choose_place", "neighbours", "with_loans"]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """How many leases of one anti-affinity group are on each device and host already."""

    devices: Mapping[str, int] = field(default_factory=dict)
    hosts: Mapping[str, int] = field(default_factory=dict)


#: Where nobody is.
NOBODY: Final = Neighbours()


def neighbours(snapshot: Snapshot, leases: Iterable[Lease], also: Neighbours = NOBODY) -> Neighbours:
    """Where *leases*, all of one group, are, on top of *also*."""
    devices, hosts = Counter(also.devices), Counter(also.hosts)
    for lease in leases:
        devices.update(lease.devices)
        hosts.update({snapshot.devices[uuid].host for uuid in lease.devices if uuid in snapshot.devices})
    return Neighbours(devices, hosts)


def choose_place(
    rooms: Rooms, lease: Lease, view: View, *, near: Neighbours = NOBODY, sites: Collection[Site] | None = None
) -> Placement | None:
    """The best place for the claim *lease* by *view*, or None; only on *sites* if they are given.

    A parked job fits only the devices that its memory belongs to. Otherwise ``binpack`` takes the fullest devices that
    fit on the fullest host, ``spread`` the emptiest, apart from *near* ones; then names decide.
    """
    if lease.grants:
        return _same_place(rooms, lease, rooms.room(view))
    fitting = rooms.layout.fitting(lease.share, lease.pool)
    best: tuple[_Rank, tuple[str, ...]] | None = None
    for site, fits in _fitting_by_site(rooms, fitting, view, sites).items():
        if len(fits) >= lease.share.count:
            found = _on_site(rooms, site, fits, lease.share.count, near)
            best = found if best is None or found < best else best
    return None if best is None else tuple(Part(uuid, fitting.needs[uuid]) for uuid in best[1])


_Rank = tuple[bool, int, int, int, int, str]


def _same_place(rooms: Rooms, lease: Lease, room: Callable[[str], int]) -> Placement | None:
    for grant in lease.grants:
        if grant.device not in rooms.own or room(grant.device) < grant.amount.millionths:
            return None
    return tuple(Part(grant.device, grant.amount.millionths) for grant in lease.grants)


def _fitting_by_site(
    rooms: Rooms, fitting: Fitting, view: View, sites: Collection[Site] | None
) -> dict[Site, list[tuple[int, str]]]:
    """The devices that fit, with their room."""
    room, needs, site_of = rooms.room(view), fitting.needs, rooms.layout.site_of
    devices = rooms.devices(view) if sites is None else (uuid for site in sites for uuid in fitting.sites.get(site, ()))
    found: dict[Site, list[tuple[int, str]]] = {}
    for uuid in devices:
        need = needs.get(uuid)
        if need is not None and (there := room(uuid)) >= need:
            found.setdefault(site_of[uuid], []).append((there, uuid))
    return found


def _on_site(
    rooms: Rooms, site: Site, fits: list[tuple[int, str]], count: int, near: Neighbours
) -> tuple[_Rank, tuple[str, ...]]:
    """The best devices of a site, with what ranks sites."""
    if not site.is_spread:
        chosen = sorted(fits)[:count] if count > 1 else [min(fits)]
        rank = (False, 0, 0, sum(there for there, _ in chosen), rooms.left[site], site.host)
        return rank, tuple(uuid for _, uuid in chosen)
    apart = sorted((near.devices.get(uuid, 0), -there, uuid) for there, uuid in fits)[:count]
    together, room = sum(each[0] for each in apart), sum(each[1] for each in apart)
    rank = (True, together, near.hosts.get(site.host, 0), room, -rooms.left[site], site.host)
    return rank, tuple(uuid for _, _, uuid in apart)


def with_loans(rooms: Rooms, placement: Placement) -> Placement:
    """*placement*, found with loans allowed, with as little on loan as there can be."""
    return tuple(
        Part(part.device, part.amount, part.amount - min(part.amount, max(0, rooms.own[part.device])))
        for part in placement
    )
