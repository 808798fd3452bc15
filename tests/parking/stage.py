"""A server's parking with a real checkpoint process, over kernels that are real processes and a driver that is a file."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import psutil

from jupyter_gpushare.devices.identity import Identity, identify
from jupyter_gpushare.parking.device_token import DeviceTokens
from jupyter_gpushare.parking.host_memory import HostMemory
from jupyter_gpushare.parking.journal import Journal
from jupyter_gpushare.parking.parker import Parker
from jupyter_gpushare.parking.remote_checkpoint import Deadlines, RemoteCheckpoint, checkpoint_command
from jupyter_gpushare.parking.sequence import NoRoom, Parked, Resumed, Step, Target
from tests.parking.fake_checkpoint import VARIABLE, FakeMachine

if TYPE_CHECKING:
    from collections.abc import Callable

GB = 10**9
MARGIN = GB // 10
ROOT = Path(__file__).parents[2]
# For what is not meant to hang, however busy the machine is.
GENEROUS = Deadlines(lock_wait_s=0.1)
# For tests that hang on purpose. A call that is merely slow is then cut off too, and recovered from as well.
BRISK = Deadlines(start_s=60, ask_s=0.7, small_s=0.7, lock_wait_s=0.1, copy_s=0.7, copy_bytes_per_s=1e15, close_s=10)
PATIENT_S = 60.0
_PROGRAM = "import sys; sys.stdin.read()"


class Kernels:
    """Programs that only wait. They end with the test."""

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self) -> Identity:
        """One more."""
        program = subprocess.Popen([sys.executable, "-I", "-S", "-c", _PROGRAM], stdin=subprocess.PIPE)
        self._running.append(program)
        identity = identify(program.pid)
        assert identity is not None
        return identity

    def end(self, process: Identity) -> None:
        """End one, and wait until it has."""
        for program in self._running:
            if program.pid == process.pid:
                program.kill()
                program.wait()

    def close(self) -> None:
        """End all."""
        for program in self._running:
            program.kill()
            program.communicate()


class Stage:
    """One server on one machine; several stages may share a machine's directory.

    Attributes:
        machine: the driver's state.
        checkpoint, journal, host_memory, parker: the parts of the server.
        steps: what `began` was told.
    """

    def __init__(
        self,
        directory: Path,
        machine: FakeMachine,
        *,
        budget: int = 100 * GB,
        deadlines: Deadlines = GENEROUS,
        **options: Any,
    ) -> None:
        self.directory = directory
        self.machine = machine
        self.locks = directory / "locks"
        self.locks.mkdir(exist_ok=True)
        self.checkpoint = remote(directory, deadlines)
        self.journal = Journal(directory / "journal")
        self.host_memory = host_memory(self.locks, budget)
        self.parker = Parker(self.checkpoint, self.journal, self.host_memory, machine.room, margin=MARGIN, **options)
        self.kernels = Kernels()
        self.steps: list[Step] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.kernels.close()
        await self.checkpoint.aclose()
        self.host_memory.close()

    def kernel(self, *parts: int, name: str = "kernel", device: str = "GPU0") -> Target:
        """A kernel of one process for each of *parts*, which hold so many bytes of *device*."""
        processes = tuple(self.kernels.start() for _ in parts)
        for process, size in zip(processes, parts, strict=True):
            self.machine.hold(process, **{device: size})
        by_process = {process: {device: size} for process, size in zip(processes, parts, strict=True)}
        return Target(name, processes, {device: sum(parts)}, by_process)

    async def park(self, target: Target) -> Parked:
        """Park, and note the steps."""
        return await self.parker.park(target, self.steps.append)

    async def resume(self, parked: Parked) -> Resumed:
        """Resume once, and note the steps."""
        return await self.parker.resume(parked, self.steps.append)

    async def resume_at_last(self, parked: Parked) -> Resumed:
        """Resume, as often as it takes."""
        deadline = time.monotonic() + PATIENT_S
        while True:
            try:
                return await self.resume(parked)
            except NoRoom:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.02)

    def states(self, target: Target) -> set[str]:
        """What the target's processes are."""
        return {self.machine.state(process).value for process in target.processes}

    def assert_nothing_is_left(self) -> None:
        """No row, no booking, no token, no process that was restored without room."""
        assert self.journal.entries() == []
        assert self.host_memory.booked() == 0
        assert free_tokens(self.locks, "GPU0")
        assert self.machine.poisoned == 0


def remote(directory: Path, deadlines: Deadlines = GENEROUS) -> RemoteCheckpoint:
    """A checkpoint process over the fake driver in *directory*."""
    command = checkpoint_command(locks=directory / "locks", imported="tests.parking.fake_checkpoint:make")
    environ = {**os.environ, VARIABLE: str(directory), "PYTHONPATH": str(ROOT)}
    return RemoteCheckpoint(command, deadlines=deadlines, environ=environ)


def host_memory(locks: Path, budget: int) -> HostMemory:
    """A ledger that believes nothing but its budget."""
    return HostMemory(locks, budget, margin=0, available=lambda: None, headroom=lambda _: None)


def free_tokens(locks: Path, *devices: str) -> bool:
    """Whether nobody holds the tokens of *devices*."""
    tokens = DeviceTokens(locks)
    taken = [tokens.take(device, "test") for device in devices]
    tokens.drop("test")
    return all(taken)


def checkpoint_processes() -> list[int]:
    """The checkpoint processes below this one, zombies too."""
    below = psutil.Process().children(recursive=True)
    return [child.pid for child in below if _is_checkpoint_process(child)]


def _is_checkpoint_process(child: psutil.Process) -> bool:
    try:
        return any("checkpoint_process" in word for word in child.cmdline()) or child.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def state_letter(process: Identity) -> str:
    """What the system says of *process*: ``S`` sleeps, ``T`` is stopped."""
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def wait_until(true: Callable[[], bool], within_s: float = PATIENT_S) -> None:
    """Poll with a generous deadline."""
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.01)
