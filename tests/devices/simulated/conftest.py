"""A simulated machine for each test, and real programs that use it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.devices.identity import identify
from jupyter_gpushare.devices.simulated import cuda
from jupyter_gpushare.devices.simulated.machine import DeviceSpec, Machine
from jupyter_gpushare.devices.simulated.source import SimulatedSource
from jupyter_gpushare.parking.checkpoint import CheckpointError, ProcessState
from jupyter_gpushare.parking.simulated import SimulatedCheckpoint
from jupyter_gpushare.quantity import Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from jupyter_gpushare.devices.identity import Identity

DEADLINE_S = 60.0
LOCK_TIMEOUT_MS = 10_000

# Runs the lines it is sent, one at a time, and answers each with what it printed or raised, on one line.
_PROGRAM = """
import sys
from jupyter_gpushare.devices.simulated import cuda
names = {"cuda": cuda}
for line in sys.stdin:
    try:
        exec(line, names)
        print("done", repr(names.pop("answer", None)), flush=True)
    except BaseException as trouble:
        print("raised", type(trouble).__name__ + ":", str(trouble).replace("\\n", " "), flush=True)
"""


class Program:
    """A process of its own, such as a kernel, that runs statements; `answer = …` in one of them comes back."""

    def __init__(self, machine: Machine, **environ: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "GPUSHARE_SIMULATED_MACHINE": str(machine.path), **environ},
        )
        self.pid = self.process.pid

    def send(self, statement: str) -> None:
        """Start *statement*; `reply` waits for its end."""
        assert self.process.stdin
        self.process.stdin.write(statement + "\n")
        self.process.stdin.flush()

    def reply(self) -> str:
        """What the oldest statement without a reply gave."""
        assert self.process.stdout
        line = self.process.stdout.readline().rstrip("\n")
        assert line, f"the program ended with {self.process.wait()}"
        return line.removeprefix("done ")

    def run(self, statement: str) -> str:
        """The repr of ``answer``, or ``raised Type: message``."""
        self.send(statement)
        return self.reply()

    def kill(self) -> None:
        """End it as `kill -9` does, and reap it."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """End it and let go of its pipes."""
        self.kill()
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdout.close()
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            assert self.process.returncode is not None


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Poll until *condition* holds; fails with *what* after a generous deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited {DEADLINE_S} s for {what}"
        time.sleep(0.01)


def who(program: Program) -> Identity:
    """The program's process."""
    identity = identify(program.pid)
    assert identity
    return identity


def park(driver: SimulatedCheckpoint, process: Identity) -> None:
    """RUNNING to CHECKPOINTED."""
    driver.lock(process, LOCK_TIMEOUT_MS)
    driver.checkpoint(process)
    assert driver.state(process) is ProcessState.CHECKPOINTED


def resume(driver: SimulatedCheckpoint, process: Identity) -> None:
    """CHECKPOINTED to RUNNING."""
    driver.restore(process)
    assert driver.state(process) is ProcessState.LOCKED
    driver.unlock(process)
    assert driver.state(process) is ProcessState.RUNNING


def step(driver: SimulatedCheckpoint, call: str, process: Identity) -> None:
    """Make one *call* by its name in `faults.ParkingCall`."""
    match call:
        case "get_state":
            driver.state(process)
        case "lock":
            driver.lock(process, LOCK_TIMEOUT_MS)
        case "claim":
            driver.claim("GPU-one", 1 << 20)
        case _:
            getattr(driver, call)(process)


def refused(code: str, call: Callable[[], object]) -> str:
    """The text of the error with *code* that *call* ends with."""
    with pytest.raises(CheckpointError) as caught:
        call()
    assert caught.value.code == code
    return caught.value.text


@pytest.fixture
def copy_bytes_per_s() -> int:
    """Parking takes no time, unless a test says otherwise."""
    return 0


@pytest.fixture
def driver(machine: Machine) -> Iterator[SimulatedCheckpoint]:
    """The driver as the checkpoint process has it."""
    driver = SimulatedCheckpoint(machine.path)
    yield driver
    driver.close()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copy_bytes_per_s: int) -> Iterator[Machine]:
    """A machine with one small device, another, and a MIG instance; this process's `cuda` uses it."""
    specs = [
        DeviceSpec(total=Memory(4 << 30), reserve=Memory(1 << 30), uuid="GPU-one"),
        DeviceSpec(total=Memory(4 << 30), reserve=Memory(1 << 30), uuid="GPU-two"),
        DeviceSpec(name="simulated A100 MIG 1g.5gb", total=Memory(2 << 30), mig=True, uuid="MIG-three"),
    ]
    machine = Machine.create(tmp_path / "machine", specs, context_bytes=256 << 20, copy_bytes_per_s=copy_bytes_per_s)
    monkeypatch.setenv("GPUSHARE_SIMULATED_MACHINE", str(machine.path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("GPUSHARE_SIMULATED_HOST", raising=False)
    yield machine
    cuda.device_reset()
    machine.close()


@pytest.fixture
def source(machine: Machine) -> Iterator[SimulatedSource]:
    """The machine as a server reads it."""
    source = SimulatedSource(machine.path)
    yield source
    source.close()


@pytest.fixture
def program(machine: Machine) -> Iterator[Callable[..., Program]]:
    """Starts programs on the machine, and ends them after the test."""
    programs: list[Program] = []

    def start(**environ: str) -> Program:
        programs.append(Program(machine, **environ))
        return programs[-1]

    yield start
    for one in programs:
        one.close()
