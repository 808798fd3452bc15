"""The GPU state of a job: what its processes hold now, to host memory, and back."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from jupyter_gpushare.devices.discovery import SIMULATED_MACHINE, open_source
from jupyter_gpushare.devices.identity import identify
from jupyter_gpushare.parking.driver import ParkingDriver, default_budget
from jupyter_gpushare.parking.facts import Background, DeviceFacts, Facts, KernelFacts, Settings
from jupyter_gpushare.parking.gather import gather_host, gather_process
from jupyter_gpushare.parking.preflight import preflight
from jupyter_gpushare.parking.qualification import is_qualified
from jupyter_gpushare.parking.sequence import Parked, ParkFailed, Target
from jupyter_gpushare.parking.verdict import NotParkable
from jupyter_gpushare.rules.message import Message

if TYPE_CHECKING:
    import logging
    from collections.abc import Collection
    from pathlib import Path

    from jupyter_gpushare.broker.wire import LeaseModel
    from jupyter_gpushare.devices.device import Device, DeviceUse, Source
    from jupyter_gpushare.devices.identity import Identity
    from jupyter_gpushare.parking.checkpoint import CheckpointDriver
    from jupyter_gpushare.parking.facts import HostFacts, ProcessFacts
    from jupyter_gpushare.parking.sequence import Step

__all__ = ["GpuState", "ParkingChoice", "Used"]

#: *auto* parks on real devices only where ``jupyter gpushare doctor --qualify`` has passed.
ParkingChoice = Literal["auto", "always", "never"]

_READ_S: Final = 10.0
_HOST_CONDITIONS: Final = frozenset({"NOT_X86", "NO_CHECKPOINT_SUPPORT", "HARMFUL_DRIVER"})
_NO_PARK: Final = Message("PARKING_NOT_WANTED", "It was started with --no-park, so it saves and stops instead.")
_NOT_QUALIFIED: Final = Message(
    "NOT_QUALIFIED",
    "Parking was not tried on this host yet, so it saves and stops instead. Run `jupyter gpushare doctor --qualify`, "
    "or start it with --park.",
)


@dataclass(frozen=True, slots=True)
class Used:
    """What some processes hold now: bytes, and the sum of their utilisation in GPUs. None where it is not known."""

    memory: int | None
    computing: float | None


class GpuState:
    """Looks at the devices in a thread of its own, and moves what the job holds there.

    Args:
        name: what the job's parked state is booked under.
        choice: whether it is parked at all.
        state: the directory of the journal.
        shared: where all servers and jobs of this host meet for tokens and bookings; None for the usual place.
        data_dir: Jupyter's data directory, where the results of the doctor are.
        budget: bytes of host memory for everything parked on this host; None for half of it.
        log: where trouble goes.
    """

    def __init__(
        self,
        name: str,
        *,
        choice: ParkingChoice,
        state: Path,
        shared: str | None,
        data_dir: str,
        log: logging.Logger,
        budget: int | None = None,
    ) -> None:
        self.parked: Parked | None = None
        self._name = name
        self._choice = choice
        self._data_dir = data_dir
        self._log = log
        self._family: frozenset[int] = frozenset()
        self._source: Source | None = None
        self._thread = ThreadPoolExecutor(1, "gpushare-devices")
        self._driver = ParkingDriver(
            open_source=lambda: open_source(os.environ),
            foreign=self._foreign,
            state=state,
            shared=shared,
            budget=default_budget() if budget is None else budget,
            freeze=False,
            log=log,
        )

    async def obstacle(self) -> Message | None:
        """Why nothing of a job can be parked on this host; None when it can."""
        if self._choice == "never":
            return _NO_PARK
        driver = await self._driver.driver()
        facts = _facts(driver, (), await asyncio.to_thread(gather_host), (), 0)
        verdict = preflight(facts)
        if isinstance(verdict, NotParkable) and verdict.reason.code in _HOST_CONDITIONS:
            return verdict.reason
        if self._choice == "auto" and not os.environ.get(SIMULATED_MACHINE):
            qualified = await asyncio.to_thread(is_qualified, driver.version, self._data_dir)
            return None if qualified else _NOT_QUALIFIED
        return None

    async def totals(self, lease: LeaseModel) -> tuple[dict[str, int], float]:
        """The whole memory of each device, and the part of the host's devices that *lease* has.

        Nothing, and all of it, where the driver does not answer.
        """
        try:
            devices, _ = await self._read()
        except TimeoutError:
            return {}, 1.0
        part = sum(float(grant.amount) for grant in lease.grants) / max(1, len(devices))
        return {device.uuid: device.total.bytes for device in devices}, part

    async def used(self, family: Collection[int]) -> Used:
        """What the processes *family* hold now."""
        try:
            _, uses = await self._read()
        except TimeoutError:
            return Used(None, None)
        listed = [held for use in uses for held in use.processes or () if held.pid in family]
        if any(use.processes is None for use in uses) or any(held.memory.value is None for held in listed):
            return Used(None, None)
        rates = [held.utilisation.value for held in listed]
        computing = None if None in rates else sum(rate or 0 for rate in rates) / 100
        return Used(sum(held.memory.value or 0 for held in listed), computing)

    async def park(self, family: Collection[int]) -> int:
        """Move what *family* holds to host memory; the bytes that moved. Its processes stand at a safe point.

        Raises:
            ParkFailed: it runs on as before, or what the error says.
        """
        self._family = frozenset(family)
        devices, uses = await self._readable()
        target = self._target(uses, self._family)
        if not target.processes:
            return 0
        await self._check(target, devices)
        try:
            self.parked = await self._driver.park(target, self._began)
        except ParkFailed as failure:
            self.parked = failure.leftover
            raise
        return target.total

    async def resume(self) -> None:
        """Bring back what `park` moved.

        Raises:
            NoRoom: not now; it stays parked: try again.
            GpuStateLost: for good.
        """
        if self.parked is not None:
            await self._driver.resume(self.parked, self._began)
            self.parked = None

    async def before_kill(self) -> None:
        """On drivers that hang when a restored process is killed, it is checkpointed once more before that."""
        await self._driver.before_kill(self._name)

    async def forget(self) -> None:
        """The job's processes have ended."""
        self.parked = None
        await self._driver.forget(self._name)

    async def close(self) -> None:
        """Give every booking back."""
        await self._driver.stop()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _check(self, target: Target, devices: tuple[Device, ...]) -> None:
        driver = await self._driver.driver()
        processes = await asyncio.to_thread(_gather, target.processes)
        is_simulated = driver.vendor == "simulated"
        host = await asyncio.to_thread(lambda: gather_host(simulated=is_simulated))
        held = tuple(
            DeviceFacts(uuid=device.uuid, name=device.name, is_mig=device.is_mig)
            for device in devices
            if device.uuid in target.memory
        )
        verdict = preflight(_facts(driver, processes, host, held, target.total))
        if isinstance(verdict, NotParkable):
            raise ParkFailed(verdict.reason)

    def _target(self, uses: tuple[DeviceUse, ...], family: frozenset[int]) -> Target:
        parts: dict[Identity, dict[str, int]] = {}
        for use in uses:
            for held in use.processes or ():
                if held.pid in family and (process := identify(held.pid)) is not None:
                    parts.setdefault(process, {})[use.uuid] = held.memory.value or 0
        memory: dict[str, int] = {}
        for part in parts.values():
            for device, size in part.items():
                memory[device] = memory.get(device, 0) + size
        return Target(self._name, tuple(parts), memory, parts)

    async def _readable(self) -> tuple[tuple[Device, ...], tuple[DeviceUse, ...]]:
        try:
            devices, uses = await self._read()
        except TimeoutError:
            raise ParkFailed(_unreadable("the driver does not answer")) from None
        for use in uses:
            if use.processes is None:
                raise ParkFailed(_unreadable(use.processes_reason))
            for held in use.processes:
                if held.pid in self._family and held.memory.value is None:
                    raise ParkFailed(_unreadable(held.memory.reason))
        return devices, uses

    async def _read(self) -> tuple[tuple[Device, ...], tuple[DeviceUse, ...]]:
        reading = asyncio.get_running_loop().run_in_executor(self._thread, self._read_now)
        return await asyncio.wait_for(reading, _READ_S)

    def _read_now(self) -> tuple[tuple[Device, ...], tuple[DeviceUse, ...]]:
        if self._source is None:
            self._source = open_source(os.environ)
        return tuple(self._source.devices()), tuple(self._source.read())

    def _foreign(self, use: DeviceUse) -> int:
        return sum(held.memory.value or 0 for held in use.processes or () if held.pid not in self._family)

    def _began(self, step: Step) -> None:
        self._log.debug("job %s: %s", self._name, step.value)


def _facts(
    driver: CheckpointDriver,
    processes: tuple[ProcessFacts, ...],
    host: HostFacts,
    devices: tuple[DeviceFacts, ...],
    memory: int,
) -> Facts:
    """A job at its safe point, as preflight judges it: its owner has said that nothing of it touches the GPU."""
    settings = Settings(uid=os.geteuid(), allow_background_work=True, allow_foreign=True)
    return Facts(
        driver=driver,
        host=host,
        settings=settings,
        kernel=KernelFacts(),
        memory=memory,
        devices=devices,
        processes=processes,
        background=Background(probe="answered"),
    )


def _gather(processes: tuple[Identity, ...]) -> tuple[ProcessFacts, ...]:
    directory = os.environ.get(SIMULATED_MACHINE)
    if not directory:
        return tuple(map(gather_process, processes))
    from jupyter_gpushare.devices.simulated.machine import Machine

    machine = Machine.open(directory)
    try:
        return tuple(gather_process(process, features=machine.occupancy.features) for process in processes)
    finally:
        machine.close()


def _unreadable(why: str) -> Message:
    template = "It cannot be told what the job holds ({why}). Nothing is lost, it goes on."
    return Message("UNREADABLE", template, {"why": why})
