"""One job on a simulated machine, with a broker that does as the test says."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.devices.simulated.machine import DeviceSpec, Machine
from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.training.child import Command
from jupyter_gpushare.training.gpu_state import GpuState
from jupyter_gpushare.training.safe_points import SafePoints
from jupyter_gpushare.training.supervisor import Supervisor
from tests.training.fake_broker import FakeBroker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from jupyter_gpushare.rules.loss import Loss
    from jupyter_gpushare.training.gpu_state import ParkingChoice

ROOT = Path(__file__).parents[2]
MIB = 1 << 20


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """One device of 1 GiB whose copies take no time; this process's own environment names it."""
    specs = [DeviceSpec(total=Memory(1088 * MIB), reserve=Memory(64 * MIB), uuid="GPU-0")]
    machine = Machine.create(tmp_path / "machine", specs, context_bytes=16 * MIB, copy_bytes_per_s=0)
    monkeypatch.setenv("GPUSHARE_SIMULATED_MACHINE", str(machine.path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    yield machine
    machine.close()


class Stage:
    """One supervisor with its job.

    Attributes:
        told: what people were told.
        losses: what was announced.
        code: how it ended.
    """

    def __init__(self, directory: Path, argv: Sequence[str], options: dict[str, Any]) -> None:
        self.told: list[str] = []
        self.losses: list[Loss] = []
        self.broker = FakeBroker(options.pop("device", "GPU-0"), memory=512 * MIB)
        choice: ParkingChoice = options.pop("choice", "always")
        locks = directory / "locks"
        locks.mkdir(exist_ok=True)
        self.gpu = GpuState(
            "job",
            choice=choice,
            state=directory / "state",
            shared=str(locks),
            data_dir=str(directory),
            log=logging.getLogger("test"),
            budget=options.pop("budget", 1 << 40),
        )
        environ = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = Command(list(argv), environ, **options)
        self.supervisor = Supervisor(command, self.gpu, tell=self.told.append, announce=self.losses.append)
        self.broker.wake = self.supervisor.wake
        self.code: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    @property
    def pid(self) -> int:
        """The command's process."""
        assert self.supervisor.child is not None
        return self.supervisor.child.process.pid

    async def until(self, holds: Any, what: str) -> None:
        """Wait until *holds*."""
        await self.broker.until(lambda: holds() or self.code.done(), what)
        assert holds(), f"it ended with {self.code} before {what}; told {self.told}"


@asynccontextmanager
async def running(directory: Path, argv: Sequence[str], **options: Any) -> AsyncIterator[Stage]:
    """A supervisor of *argv* whose lease waits; ended after the test."""
    stage = Stage(directory, argv, options)
    points = await SafePoints.open(stage.supervisor.wake)
    stage.code = asyncio.ensure_future(stage.supervisor.run(stage.broker, points))
    try:
        yield stage
    finally:
        if not stage.code.done():
            stage.supervisor.end(signal.SIGTERM)
            await asyncio.wait_for(stage.code, 60)
        await points.close()
        await stage.gpu.close()


def python(code: str) -> list[str]:
    """A job of a few lines."""
    return [sys.executable, "-c", code]
