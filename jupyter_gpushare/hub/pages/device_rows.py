"""Devices for the overview: a bar for each host, and under it one for each of its devices."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.hub.pages.bars import Bar, bar_of, sum_of
from jupyter_gpushare.hub.pages.wording import memory
from jupyter_gpushare.hub.site import Again
from jupyter_gpushare.rules.snapshot import DeviceBooks, HostBooks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_gpushare.devices.device import Device
    from jupyter_gpushare.rules.capacity import GpuDevice
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["DeviceRow", "HostGroup", "hosts", "is_folded", "matching"]

#: Up to so many devices, all are shown at once.
_FEW: Final = 16
_ROW: Final = "row of "
_CONDITIONS: Final = {"draining": "being emptied", "gone": "gone"}


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """One device.

    Attributes:
        id: of its element.
        uuid: as its driver writes it.
        name: its place on its host.
        kind: what shares ask for.
        title: its full name, for who wants to know.
        bar: what it is used for.
        computing: how busy it is, as a part of one; None where that is not known.
        marks: what is special about it, in words.
    """

    id: str
    uuid: str
    name: str
    kind: str
    title: str
    bar: Bar
    computing: float | None
    marks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HostGroup:
    """One host with its devices.

    Attributes:
        id: of its summary's element.
        bar: all its devices together.
        computing: the mean of what is known.
        parked: how much of its memory parked notebooks have; empty for none.
        memory: the same, of how much, in words.
    """

    id: str
    name: str
    rows: Sequence[DeviceRow]
    bar: Bar
    computing: float | None
    parked: str
    memory: str
    marks: tuple[str, ...]


def is_folded(groups: Sequence[HostGroup]) -> bool:
    """Whether there are so many devices that only hosts are shown until somebody wants more."""
    return sum(len(group.rows) for group in groups) > _FEW


def hosts(
    books: Snapshot, hardware: Mapping[str, Device], busy: Mapping[str, float], again: Again | None = None
) -> list[HostGroup]:
    """Every host by name, with its devices in their order there.

    Args:
        books: the books.
        hardware: the devices as their driver names them.
        busy: how busy each device is, as a part of one, where that is known.
        again: remembers the rows of devices.
    """
    there: defaultdict[str, list[GpuDevice]] = defaultdict(list)
    for device in books.devices.values():
        there[device.host].append(device)
    seen = _Seen(books, hardware, busy, again or Again())
    if again is not None:
        again.keep_only(_ROW, {f"{_ROW}{uuid}" for uuid in books.devices})
    return [seen.host(name, number, there[name]) for number, name in enumerate(sorted(there, key=_natural))]


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """*name* so that host-10 comes after host-9."""
    return tuple((int(part), "") if part.isdigit() else (0, part) for part in re.split(r"([0-9]{1,18})", name))


def matching(groups: Sequence[HostGroup], search: str) -> list[HostGroup]:
    """Those hosts, and those of their devices, of which a name or kind has *search* in it."""
    wanted = search.casefold().strip()
    if not wanted:
        return list(groups)
    found = []
    for group in groups:
        rows = [row for row in group.rows if wanted in f"{group.name} {row.name} {row.title}".casefold()]
        if rows:
            found.append(replace(group, rows=rows))
    return found


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the rows are made of."""

    books: Snapshot
    hardware: Mapping[str, Device]
    busy: Mapping[str, float]
    again: Again

    def host(self, name: str, number: int, devices: Sequence[GpuDevice]) -> HostGroup:
        """The host *name*, which is the one with that *number*."""
        ordered = sorted(devices, key=self._place)
        rows = [self._row(device, f"d{number}-{n}", n) for n, device in enumerate(ordered)]
        host = self.books.hosts.get(name)
        booked = self.books.host_books.get(name, HostBooks()).booked
        whole = f"{memory(booked.bytes)} of its memory hold parked notebooks"
        if host is not None and not host.parking_budget.is_unlimited:
            whole += f", of {memory(host.parking_budget.bytes)} for them"
        condition = "ready" if host is None else host.condition
        known = [row.computing for row in rows if row.computing is not None]
        return HostGroup(
            id=f"h{number}",
            name=name,
            rows=rows,
            bar=sum_of([row.bar for row in rows]),
            computing=sum(known) / len(known) if known else None,
            parked=memory(booked.bytes) if booked else "",
            memory=whole,
            marks=(_CONDITIONS[condition],) if condition in _CONDITIONS else (),
        )

    def _place(self, device: GpuDevice) -> tuple[int, str]:
        known = self.hardware.get(device.uuid)
        return (1 << 30 if known is None else known.index, device.uuid)

    def _row(self, device: GpuDevice, identifier: str, place: int) -> DeviceRow:
        # The books of a device are other ones as soon as anything about a lease there is.
        of = (device, self.books.device_books.get(device.uuid))
        alike = (identifier, place, self.hardware.get(device.uuid), self.busy.get(device.uuid))
        return self.again(f"{_ROW}{device.uuid}", of, lambda: self._make(device, identifier, place), alike)

    def _make(self, device: GpuDevice, identifier: str, place: int) -> DeviceRow:
        known = self.hardware.get(device.uuid)
        return DeviceRow(
            id=identifier,
            uuid=device.uuid,
            name=str(place if known is None else known.index),
            kind=device.kind,
            title=f"{device.kind if known is None else known.name} ({device.uuid})",
            bar=bar_of(self.books, device),
            computing=self.busy.get(device.uuid),
            marks=_marks(device, self.books),
        )


def _marks(device: GpuDevice, books: Snapshot) -> tuple[str, ...]:
    held = books.device_books.get(device.uuid, DeviceBooks()).held
    return (
        *((_CONDITIONS[device.condition],) if device.condition in _CONDITIONS else ()),
        *(("over-committed",) if held > device.capacity else ()),
        *(("used by a program without a share",) if device.trespassed else ()),
    )
