"""A small real source of devices whose use a test sets by hand, and hostile variants of it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_gpushare.devices.device import Device, DeviceUse, Driver, DriverState, ProcessUse, Reading
from jupyter_gpushare.quantity import Memory

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

GIB = 1 << 30


def device(index: int = 0, *, is_mig: bool = False) -> Device:
    """One 40 GiB device with 39 GiB usable."""
    uuid = f"{'MIG' if is_mig else 'GPU'}-{index:04d}"
    return Device(uuid, index, "here", "a100", "Test A100", Memory(40 * GIB), Memory(39 * GIB), is_mig)


class FakeSource:
    """Devices whose holders are a dict pid -> bytes per device; counts its readings."""

    def __init__(self, devices: Collection[Device] = ()) -> None:
        self.all = list(devices) or [device()]
        self.held: dict[str, dict[int, int]] = {each.uuid: {} for each in self.all}
        self.state = Driver("nvidia", DriverState.READY, "600.1")
        self.reads = 0
        self.closed = False

    def hold(self, pid: int, memory: int, index: int = 0) -> None:
        """Let a process hold *memory* bytes; 0 makes it leave the device."""
        on_device = self.held[self.all[index].uuid]
        if memory:
            on_device[pid] = memory
        else:
            on_device.pop(pid, None)

    def driver(self) -> Driver:
        return self.state

    def devices(self) -> list[Device]:
        return self.all if self.state.state is DriverState.READY else []

    def read(self) -> list[DeviceUse]:
        self.reads += 1
        return [self._use(each) for each in self.devices()]

    def has_open(self, pids: Collection[int]) -> frozenset[int]:
        return frozenset(pids) & {pid for held in self.held.values() for pid in held}

    def close(self) -> None:
        self.closed = True

    def _use(self, each: Device) -> DeviceUse:
        held = self.held[each.uuid]
        return DeviceUse(
            each.uuid,
            Reading.exact(GIB + sum(held.values())),
            Reading.unavailable("MIG") if each.is_mig else Reading.exact(30),
            tuple(self._process(each, pid, memory) for pid, memory in held.items()),
        )

    def _process(self, each: Device, pid: int, memory: int) -> ProcessUse:
        compute = Reading.unavailable("MIG") if each.is_mig else Reading.exact(10)
        return ProcessUse(pid, Reading.exact(memory), compute)


class HangingSource(FakeSource):
    """A driver whose call does not return until the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.hanging = threading.Event()
        self.let_go = threading.Event()

    def read(self) -> list[DeviceUse]:
        self.hanging.set()
        self.let_go.wait(60)
        return super().read()


class RaisingSource(FakeSource):
    """A driver that breaks the contract and raises."""

    def __init__(self) -> None:
        super().__init__()
        self.broken = threading.Event()

    def read(self) -> list[DeviceUse]:
        if self.broken.is_set():
            raise RuntimeError("driver fell over")
        return super().read()


class DyingHolderSource(FakeSource):
    """Forgets what a process held as soon as that process has ended, as a real device does."""

    def read(self) -> list[DeviceUse]:
        for held in self.held.values():
            for pid in [pid for pid in held if not _is_alive(pid)]:
                del held[pid]
        return super().read()


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def uses(held: Mapping[int, int]) -> FakeSource:
    """A one-device source with these holders."""
    source = FakeSource()
    for pid, memory in held.items():
        source.hold(pid, memory)
    return source
