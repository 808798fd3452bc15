"""One device and everything to park on it, real or simulated: the same tests and benchmarks run on both.

On the simulated machine they show that they are right themselves; what they find out is found out on a real device.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import psutil

from jupyter_gpushare.devices.nvml import NvmlSource
from jupyter_gpushare.devices.simulated.machine import DeviceSpec, Machine
from jupyter_gpushare.devices.simulated.source import SimulatedSource
from jupyter_gpushare.parking.cuda import CudaCheckpoint
from jupyter_gpushare.parking.harmful_drivers import checkpoint_before_kill
from jupyter_gpushare.parking.host_memory import HostMemory
from jupyter_gpushare.parking.journal import Journal
from jupyter_gpushare.parking.parker import Parker
from jupyter_gpushare.parking.remote_checkpoint import Deadlines, RemoteCheckpoint, checkpoint_command
from jupyter_gpushare.parking.room import DeviceRoom
from jupyter_gpushare.parking.sequence import NoRoom, Parked, Resumed, Step, Target
from jupyter_gpushare.parking.simulated import SimulatedCheckpoint
from jupyter_gpushare.quantity import Memory
from tests.gpu.bare import Bare
from tests.gpu.driven import DEADLINE_S, Driven, holding, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping

    from jupyter_gpushare.devices.device import Device, Source
    from jupyter_gpushare.devices.identity import Identity
    from jupyter_gpushare.parking.checkpoint import CheckpointDriver

__all__ = ["GIB", "MIB", "Parking", "Rig", "real_rig", "simulated_rig"]

MIB: Final = 1 << 20
GIB: Final = 1 << 30
_CONTEXTS: Final = {"real": 2 * GIB, "simulated": 64 * MIB}


@dataclass(slots=True)
class Rig:
    """A device, and how to reach it.

    Attributes:
        kind: ``real`` or ``simulated``.
        source: readings of the devices.
        device: the one that is used: the first.
        driver: what parks.
        simulated: the simulated machine's directory, empty on a real device.
        folder: for locks and journals.
        own: which program of `tests.gpu.programs` needs no framework here.
        unit: bytes that a program holds where the size does not matter.
        at_first: bytes that were in use before the test.
    """

    kind: str
    source: Source
    device: Device
    driver: CheckpointDriver
    simulated: str
    folder: Path
    own: str
    unit: int
    at_first: int = field(init=False)
    _bare: Bare | None = field(default=None, init=False)
    _machine: Machine | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.at_first = self.used()

    @property
    def bare(self) -> Bare:
        """The driver's own calls."""
        if self._bare is None:
            self._bare = Bare(self.simulated)
        return self._bare

    @property
    def context(self) -> int:
        """More bytes than a program's context and the driver's granularity cost here."""
        return _CONTEXTS[self.kind]

    @property
    def machine(self) -> Machine:
        """The simulated machine."""
        if self._machine is None:
            self._machine = Machine.open(self.simulated)
        return self._machine

    @property
    def features(self) -> Callable[[Identity], frozenset[str]] | None:
        """What a program uses, as the simulated machine knows it; None on a real device, where the system tells."""
        return self.machine.occupancy.features if self.simulated else None

    def used(self) -> int:
        """Bytes of the device that are in use, by whomever."""
        use = next(use for use in self.source.read() if use.uuid == self.device.uuid)
        assert use.memory.value is not None, use.memory.reason
        return use.memory.value

    def environ(self) -> dict[str, str]:
        """What a program needs to see this device as its first."""
        simulated = {"GPUSHARE_SIMULATED_MACHINE": self.simulated} if self.simulated else {}
        return {"CUDA_VISIBLE_DEVICES": self.device.uuid, **simulated}

    @contextmanager
    def program(self, framework: str = "", environ: Mapping[str, str] | None = None) -> Iterator[Driven]:
        """A program that may hold memory here, and is gone afterwards."""
        with holding(framework or self.own, {**self.environ(), **(environ or {})}) as program:
            try:
                yield program
            finally:
                self._before_kill(program)

    @contextmanager
    def filled(self, size: int = 0, seed: int = 1) -> Iterator[tuple[Driven, str]]:
        """A program that holds *size* bytes of known contents, and their digest."""
        with self.program() as program:
            program.do(f"hold {size or self.unit}")
            program.do(f"fill {seed}")
            yield program, program.do("digest")

    @asynccontextmanager
    async def parking(self, **options: Any) -> AsyncIterator[Parking]:
        """What one server has to park with."""
        parking = Parking(self, **options)
        try:
            yield parking
        finally:
            await parking.close()

    def close(self) -> None:
        """Let go of everything."""
        if self._bare is not None:
            self._bare.end()
        if self._machine is not None:
            self._machine.close()
        self.source.close()

    def _before_kill(self, program: Driven) -> None:
        """Where killing a resumed program hangs the host, none is killed that was not checkpointed again."""
        if checkpoint_before_kill(self.driver.version) and program.ended(0) is None:
            for call in ("lock", "checkpoint"):
                self.bare(call, program.pid)


class Parking:
    """One server's parking on a rig.

    Args:
        rig: where.
        freeze: stop parked programs.
        budget: host memory for all that is parked; without it what the host has.
        deadlines: of the driver's calls.
    """

    def __init__(
        self, rig: Rig, *, freeze: bool = False, budget: int | None = None, deadlines: Deadlines | None = None
    ) -> None:
        self._rig = rig
        locks = rig.folder / "locks"
        self.checkpoint = RemoteCheckpoint(checkpoint_command(rig.simulated or None, locks), deadlines=deadlines)
        self.host_memory = HostMemory(locks, budget or psutil.virtual_memory().total, **_believing(rig))
        self.journal = Journal(rig.folder / "journal")
        self.parker = Parker(
            self.checkpoint,
            self.journal,
            self.host_memory,
            DeviceRoom(rig.source),
            freeze=freeze,
            harmful_kill=checkpoint_before_kill(rig.driver.version),
        )

    def target(self, program: Driven, size: int, name: str = "") -> Target:
        """*program*, which allocated *size* bytes, as what goes together."""
        return self.targets({program: size}, name)

    def targets(self, programs: Mapping[Driven, int], name: str = "") -> Target:
        """Several programs that go together."""
        device = self._rig.device.uuid
        parts = {program.identity: {device: size + self._rig.context} for program, size in programs.items()}
        whole = min(sum(part[device] for part in parts.values()), self._rig.device.usable.bytes)
        return Target(name or f"kernel-{next(iter(programs)).pid}", tuple(parts), {device: whole}, parts)

    async def park(self, target: Target, began: Callable[[Step], None] = lambda _: None) -> Parked:
        """Park, with the device free of it."""
        return await self.parker.park(target, began)

    async def resume(self, parked: Parked, began: Callable[[Step], None] = lambda _: None) -> Resumed:
        """Resume once."""
        return await self.parker.resume(parked, began)

    async def resume_at_last(self, parked: Parked, began: Callable[[Step], None] = lambda _: None) -> Resumed:
        """Resume, as often as it takes."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            try:
                return await self.resume(parked, began)
            except NoRoom:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.1)

    async def device_is_free(self) -> None:
        """Wait until the device shows that no program of the test holds memory."""
        rig = self._rig
        await asyncio.to_thread(until, lambda: rig.used() < rig.at_first + rig.unit // 2, "the freed memory")

    def assert_nothing_is_left(self) -> None:
        """No entry in the journal and no booking."""
        assert self.journal.entries() == []
        assert self.host_memory.booked() == 0

    async def close(self) -> None:
        """End the checkpoint process."""
        await self.checkpoint.aclose()
        self.host_memory.close()


def _believing(rig: Rig) -> dict[str, Any]:
    """The simulated machine's memory is mostly holes: what the host has left says nothing about it."""
    return {"available": lambda: None, "headroom": lambda _: None} if rig.simulated else {}


@contextmanager
def simulated_rig(folder: Path, *, copy_bytes_per_s: int = 4_000_000_000, total: int = 16 * GIB) -> Iterator[Rig]:
    """The simulated machine, in *folder*."""
    spec = DeviceSpec(total=Memory(total), reserve=Memory(512 * MIB))
    machine = Machine.create(folder / "machine", [spec], context_bytes=32 * MIB, copy_bytes_per_s=copy_bytes_per_s)
    machine.close()
    source = SimulatedSource(machine.path, environ={})
    rig = Rig(
        "simulated",
        source,
        source.devices()[0],
        SimulatedCheckpoint(machine.path).driver(),
        str(machine.path),
        _with_locks(folder),
        "simulated",
        256 * MIB,
    )
    try:
        yield rig
    finally:
        rig.close()


@contextmanager
def real_rig(folder: Path | None = None) -> Iterator[Rig | str]:
    """The first NVIDIA device that this user may see; why there is none, where there is none."""
    driver = CudaCheckpoint().driver()
    source = NvmlSource(environ=os.environ)
    if driver.missing or not source.devices():
        yield driver.missing or source.driver().reason or "NVML shows no device"
        source.close()
        return
    with tempfile.TemporaryDirectory(prefix="gpushare-rig-") as own:
        rig = Rig("real", source, source.devices()[0], driver, "", _with_locks(folder or Path(own)), "bindings", GIB)
        try:
            yield rig
        finally:
            rig.close()


def _with_locks(folder: Path) -> Path:
    (folder / "locks").mkdir(exist_ok=True)
    return folder
