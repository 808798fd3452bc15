"""From a look at the devices to what the rules should know: which there are, what is foreign, who trespasses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from jupyter_gpushare.parking.headroom import memory_total
from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules.capacity import GpuDevice, Host
from jupyter_gpushare.rules.event import HostSeen, Inventory
from jupyter_gpushare.rules.lease import Status, Target

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from jupyter_gpushare.broker.configuration import Configuration
    from jupyter_gpushare.broker.sighting import Sighting
    from jupyter_gpushare.devices.device import Device
    from jupyter_gpushare.devices.identity import Identity
    from jupyter_gpushare.rules.event import Event
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["Inventories"]

_Device = TypeVar("_Device", "Device", GpuDevice)

# Less than a percent is no program's memory: a display server, the driver's own. The proof of room before a restore
# covers it. In such steps, so that a program that allocates a little all the time is not a commit a second.
_STEP: Final = Fraction.PER_GPU // 100


class Inventories:
    """What has changed with the hardware since the books were written.

    Attributes:
        configuration: which pool a device is in, and what a host may do. It may be replaced at any time.
    """

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self._strangers: dict[str, frozenset[Identity]] = {}

    def events(self, seen: Sighting, books: Snapshot) -> Iterator[Event]:
        """One for each host with something new. This broker sees all hosts that it knows."""
        there, known = _by_host(seen.devices), _by_host(books.devices.values())
        half, held_on = Memory((memory_total() or 0) // 2), _held_on(seen)
        for name in sorted(there.keys() | known.keys()):
            if name in there and (host := self._host(name, half, books)) != books.hosts.get(name):
                yield HostSeen(host)
            found = (self._device(each, held_on.get(each.uuid, ()), seen, books) for each in there.get(name, ()))
            devices = self.configuration.placed(found)
            before = {each.uuid: each for each in known.get(name, ()) if each.condition != "gone"}
            if {each.uuid: each for each in devices} != before:
                yield Inventory(name, devices)

    def _host(self, name: str, half: Memory, books: Snapshot) -> Host:
        """Half of a host's memory may hold parked state, unless the admin says otherwise."""
        wished = self.configuration.host(Host(name, half))
        known = books.hosts.get(name)
        return wished if known is None else replace(wished, condition=known.condition)

    def _device(self, device: Device, held: Sequence[str], seen: Sighting, books: Snapshot) -> GpuDevice:
        """One device, of which the leases *held* show on its list."""
        known = books.devices.get(device.uuid)
        foreign = _foreign(device, held, seen, books)
        if known is not None and known.foreign - Fraction(_STEP) <= foreign <= known.foreign and foreign:
            foreign = known.foreign
        return GpuDevice(
            uuid=device.uuid,
            host=device.host,
            kind=device.kind,
            pool="",
            usable=device.usable,
            foreign=foreign,
            trespassed=self._is_trespassed(device.uuid, held, seen, books),
            condition="draining" if known is not None and known.condition == "draining" else "ready",
        )

    def _is_trespassed(self, uuid: str, held: Sequence[str], seen: Sighting, books: Snapshot) -> bool:
        """Whether a process that takes part in no share has come to the device while it was lent."""
        there = _strangers(uuid, held, seen, books)
        on_device = books.device_books.get(uuid)
        if on_device is None or not on_device.lent:
            self._strangers[uuid] = there
            return False
        return bool(there - self._strangers.get(uuid, frozenset()))


def _by_host(devices: Iterable[_Device]) -> dict[str, list[_Device]]:
    found: dict[str, list[_Device]] = {}
    for device in devices:
        found.setdefault(device.host, []).append(device)
    return found


def _held_on(seen: Sighting) -> dict[str, list[str]]:
    """The leases that show on each device."""
    found: dict[str, list[str]] = {}
    for key, held in seen.held.items():
        for uuid in held:
            found.setdefault(uuid, []).append(key)
    return found


def _foreign(device: Device, held: Sequence[str], seen: Sighting, books: Snapshot) -> Fraction:
    """What programs of no lease hold, and what leases hold where they have nothing; in whole percents.

    So does a session that came back by itself while there was no broker: until its holder says so, what it has is not
    lent. What a claim that still waits holds already is not foreign, nor is what a parked session holds that is wanted
    back: each would wait for itself.
    """
    if device.uuid not in seen.readable:
        known = books.devices.get(device.uuid)
        return Fraction.ZERO if known is None else known.foreign
    found = seen.foreign.get(device.uuid, 0)
    for key in held:
        lease = books.leases.get(key)
        if lease is None or (lease.grants and device.uuid not in lease.devices) or _is_to_stay_parked(lease):
            found += seen.held[key][device.uuid] or 0
    part = Memory(found).fraction_of(device.usable).millionths // _STEP * _STEP
    return min(Fraction(part), Fraction.ONE)


def _is_to_stay_parked(lease: Lease) -> bool:
    return lease.status is Status.PARKED and lease.target is Target.PARKED


def _strangers(uuid: str, held: Sequence[str], seen: Sighting, books: Snapshot) -> frozenset[Identity]:
    """Processes that have no business on a device: nobody's, a parked session's, those of a lease that is over."""
    there = set(seen.strangers.get(uuid, frozenset()))
    for key in held:
        lease = books.leases.get(key)
        if lease is None or lease.status is Status.PARKED:
            there |= seen.processes.get(key, frozenset())
    return frozenset(there)
