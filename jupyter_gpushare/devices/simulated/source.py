"""The simulated machine as a source of devices, as a driver would give them."""

from __future__ import annotations

import os
import time
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from jupyter_gpushare.devices.device import Device, DeviceUse, Driver, DriverState, ProcessUse, Reading
from jupyter_gpushare.devices.simulated.machine import Machine, MachineError
from jupyter_gpushare.devices.simulated.visible import visible_devices

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from jupyter_gpushare.devices.simulated.faults import Call, Faults
    from jupyter_gpushare.devices.simulated.occupancy import Held, State

__all__ = ["SimulatedSource"]

_VERSION = "simulated"

MIG_REASON = "the driver gives no utilisation for MIG instances"


class SimulatedSource:
    """The devices of the machine in *path* that *environ* (by default this process's) lets a process see.

    Attributes:
        calls: how often the driver was asked anything since the source was made.
    """

    def __init__(self, path: str | os.PathLike[str], environ: Mapping[str, str] | None = None) -> None:
        self.calls = 0
        self._path = os.fspath(path)
        self._environ = os.environ if environ is None else environ
        self._machine: Machine | None = None
        self._devices: tuple[Device, ...] = ()
        self._was_ready = False
        self._past: deque[tuple[float, tuple[DeviceUse, ...]]] = deque()

    def driver(self) -> Driver:
        """The driver's state."""
        self.calls += 1
        look = self._look()
        version = (look.now.faults.version() if look.now else "") or _VERSION
        return Driver("simulated", look.state, version if look.state is DriverState.READY else "", look.reason)

    def devices(self) -> Sequence[Device]:
        """The devices this process may see; while the driver is lost, those it had."""
        self.calls += 1
        return () if self._look().state is DriverState.ABSENT else self._devices

    def read(self) -> Sequence[DeviceUse]:
        """Each device's use now."""
        self.calls += 1
        look = self._look()
        if look.state is DriverState.ABSENT:
            return ()
        if look.now is None or look.state is DriverState.LOST:
            return tuple(_unavailable(device, look.reason) for device in self._devices)
        _wait(look.now.faults, len(self._devices))
        uses = tuple(_use(device, look.now) for device in self._devices)
        return self._lagging(uses, look.now.faults.lag_s())

    def has_open(self, pids: Collection[int]) -> frozenset[int]:
        """Which of *pids* have a device's arena open."""
        arenas = os.path.join(os.path.realpath(self._path), "arenas", "")  # noqa: PTH118 - compared with link targets
        return frozenset(pid for pid in pids if any(file.startswith(arenas) for file in _open_files(pid)))

    def close(self) -> None:
        """Let go of the machine. The next call opens it again."""
        machine, self._machine = self._machine, None
        if machine is not None:
            machine.close()

    def _look(self) -> _Look:
        """The machine now, opened again if it was closed, removed or broken."""
        try:
            now = self._open().occupancy.state()
        except MachineError as trouble:
            self.close()
            state = DriverState.LOST if self._was_ready else DriverState.ABSENT
            return _Look(state, str(trouble), None)
        state, reason = now.faults.driver()
        self._was_ready = self._was_ready or state is DriverState.READY
        return _Look(state, reason, now)

    def _open(self) -> Machine:
        if self._machine is None:
            self._machine = Machine.open(self._path)
            self._devices = visible_devices(self._machine.devices, self._environ)
        return self._machine

    def _lagging(self, uses: tuple[DeviceUse, ...], lag_s: float) -> tuple[DeviceUse, ...]:
        """What was read *lag_s* ago; the oldest reading known when none is that old yet."""
        now = time.monotonic()
        self._past.append((now, uses))
        while len(self._past) > 1 and self._past[1][0] <= now - lag_s:
            self._past.popleft()
        return self._past[0][1]


class _Look(NamedTuple):
    state: DriverState
    reason: str
    now: State | None


def _unavailable(device: Device, reason: str) -> DeviceUse:
    missing = Reading.unavailable(reason)
    return DeviceUse(device.uuid, missing, missing, None, reason)


def _use(device: Device, now: State) -> DeviceUse:
    held = [one for one in now.held if one.device == device.uuid]
    reason = now.faults.failure("processes")
    return DeviceUse(
        device.uuid,
        memory=_reading(now.faults.failure("memory"), sum(one.memory for one in held)),
        utilisation=_reading(_why_no_utilisation(device, now, "utilisation"), sum(one.utilisation for one in held)),
        processes=None if reason else tuple(_process_use(device, one, now) for one in held),
        processes_reason=reason or "",
    )


def _process_use(device: Device, held: Held, now: State) -> ProcessUse:
    return ProcessUse(
        pid=now.faults.pid(held.process.pid),
        memory=_reading(now.faults.failure("process_memory"), held.memory),
        utilisation=_reading(_why_no_utilisation(device, now, "process_utilisation"), held.utilisation),
    )


def _why_no_utilisation(device: Device, now: State, call: Call) -> str | None:
    return MIG_REASON if device.is_mig else now.faults.failure(call)


def _reading(reason: str | None, value: float) -> Reading:
    return Reading.unavailable(reason) if reason else Reading.exact(round(value))


def _wait(faults: Faults, devices: int) -> None:
    calls: tuple[Call, ...] = ("memory", "utilisation", "processes")
    if delay_s := devices * sum(faults.delay_s(call) for call in calls):
        time.sleep(delay_s)


def _open_files(pid: int) -> Iterator[str]:
    folder = f"/proc/{pid}/fd"
    try:
        descriptors = os.listdir(folder)  # noqa: PTH208 - pathlib takes ten times as long
    except OSError:  # It ended, or is somebody else's.
        return
    for descriptor in descriptors:
        try:
            yield os.readlink(f"{folder}/{descriptor}")  # noqa: PTH115 - as above
        except OSError:  # It was closed meanwhile.
            continue
