"""Which devices take something new, host by host, and which of them could hold which share."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.demand import share_cost
from jupyter_gpushare.rules.room import takes_more

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_gpushare.rules.capacity import GpuDevice
    from jupyter_gpushare.rules.snapshot import Snapshot
    from jupyter_gpushare.share import Share

__all__ = ["Fitting", "Layout", "Shape", "Site", "lay_out", "shape_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """The devices of one pool on one host: a claim for several gets them all on one site."""

    host: str
    pool: str
    is_spread: bool
    devices: tuple[GpuDevice, ...]


@dataclass(frozen=True, slots=True)
class Fitting:
    """Where a share could be held, were everything empty.

    Attributes:
        needs: what one part costs on each device, in millionths.
        sites: the devices by site; only sites with enough of them.
        dearest: what one part costs where it costs most; 0 if nothing could hold it.
    """

    needs: Mapping[str, int]
    sites: Mapping[Site, tuple[str, ...]]
    dearest: int


@dataclass(frozen=True, slots=True)
class Layout:
    """All sites. Follows from devices, hosts and pools alone, and not from who has what."""

    sites: tuple[Site, ...]
    site_of: Mapping[str, Site]
    _fitting: dict[Shape, Fitting] = field(default_factory=dict, repr=False)

    def fitting(self, share: Share, pool: str) -> Fitting:
        """Where *share* could be held in *pool* (any when empty)."""
        shape = shape_of(share, pool)
        if shape not in self._fitting:
            self._fitting[shape] = _fit(self.sites, share, pool)
        return self._fitting[shape]


#: What decides where a share could be held: the request in millionths or, negative, in bytes; count, kind, pool.
Shape = tuple[int, int, str, str]


def shape_of(share: Share, pool: str) -> Shape:
    """The shape of *share* in *pool*."""
    request = share.request.millionths if isinstance(share.request, Fraction) else -share.request.bytes
    return request, share.count, share.kind, pool


def lay_out(snapshot: Snapshot) -> Layout:
    """The layout of *snapshot*."""
    there: defaultdict[tuple[str, str], list[GpuDevice]] = defaultdict(list)
    for device in snapshot.devices.values():
        if device.pool in snapshot.pools and takes_more(snapshot, device):
            there[device.host, device.pool].append(device)
    sites = tuple(
        Site(host, pool, snapshot.pools[pool].placement == "spread", tuple(sorted(devices, key=_name)))
        for (host, pool), devices in sorted(there.items())
    )
    return Layout(sites, {device.uuid: site for site in sites for device in site.devices})


def _name(device: GpuDevice) -> str:
    return device.uuid


def _fit(sites: tuple[Site, ...], share: Share, pool: str) -> Fitting:
    costs = {site: _costs(site, share) for site in sites if pool in ("", site.pool)}
    enough = {site: there for site, there in costs.items() if len(there) >= share.count}
    needs = {uuid: cost for there in enough.values() for uuid, cost in there.items()}
    return Fitting(needs, {site: tuple(there) for site, there in enough.items()}, max(needs.values(), default=0))


def _costs(site: Site, share: Share) -> dict[str, int]:
    costs = {
        device.uuid: share_cost(share, device.usable).millionths
        for device in site.devices
        if share.kind in ("", device.kind)
    }
    return {uuid: cost for uuid, cost in costs.items() if cost <= Fraction.PER_GPU}
