"""The broker as people start it, on one core of its own, over a simulated machine that is large enough."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

import psutil

from benchmarks.broker.asking import get
from benchmarks.broker.books import PROJECTS
from jupyter_gpushare.devices.simulated.machine import DeviceSpec, Machine
from jupyter_gpushare.quantity import Memory

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Self

__all__ = ["Service"]

_PER_HOST: Final = 8
_STARTS_WITHIN_S: Final = 60.0
_POOL: Final = """
[pools.default]
parking = "park"
"""
_PROJECT: Final = """
[projects.{name}]
quota = {quota}
members = ["*"]
"""


class Service:
    """One broker, started, killed and started again in *folder*; it ends with the ``with`` block.

    Args:
        folder: for its socket, ledger, file and simulated machine.
        devices: how many.
        core: the one that it may use.
    """

    def __init__(self, folder: Path, devices: int, core: int) -> None:
        self.socket: Final = folder / "broker.sock"
        self._folder, self._core, self._devices = folder, core, devices
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        specs = [DeviceSpec(host=f"host-{number // _PER_HOST:04}") for number in range(self._devices)]
        Machine.create(self._folder / "machine", specs, copy_bytes_per_s=0)
        (self._folder / "state").mkdir(mode=0o700)
        projects = "".join(_PROJECT.format(name=name, quota=self._devices) for name in PROJECTS)
        (self._folder / "gpushare.toml").write_text(projects + _POOL)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)

    def start(self) -> None:
        """Start it; it does not answer yet."""
        command = ["taskset", "--cpu-list", str(self._core), sys.executable, "-m", "jupyter_gpushare.app", "broker"]
        command += ["--socket", str(self.socket), "--config", str(self._folder / "gpushare.toml")]
        command += ["--state", str(self._folder / "state")]
        environ = {**os.environ, "GPUSHARE_SIMULATED_MACHINE": str(self._folder / "machine")}
        with (self._folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(command, env=environ, stdout=log, stderr=log)

    async def answers(self) -> float:
        """Wait until it answers; how long that took, in seconds.

        Raises:
            RuntimeError: it ended, or does not answer within a minute.
        """
        began = time.monotonic()
        while time.monotonic() - began < _STARTS_WITHIN_S:
            if self._process is None or self._process.poll() is not None:
                break
            try:
                if (await get(self.socket, "/"))[0] == 200:
                    return time.monotonic() - began
            except (OSError, ValueError, IndexError):
                await asyncio.sleep(0.02)
        raise RuntimeError(f"the broker did not start: {self.log()}")

    def kill(self) -> None:
        """As a crash does."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(30)

    @property
    def memory(self) -> Memory:
        """What it has resident now."""
        assert self._process is not None
        return Memory(int(psutil.Process(self._process.pid).memory_info().rss))

    @property
    def cpu_s(self) -> float:
        """The processor time that it has used, in seconds."""
        assert self._process is not None
        used = psutil.Process(self._process.pid).cpu_times()
        return float(used.user + used.system)

    def log(self) -> str:
        """The end of what it said."""
        return (self._folder / "broker.log").read_text()[-2000:]
