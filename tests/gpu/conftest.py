"""A real NVIDIA driver, and a place for what was measured on it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import queue
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pynvml
import pytest

from jupyter_gpushare.devices.nvml import NvmlSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEADLINE_S = 90.0
RESULTS = "GPUSHARE_GPU_RESULTS"
_PACKAGES = ("nvidia-ml-py", "cuda-bindings", "torch")


@pytest.fixture(scope="session")
def driver() -> None:
    """Skips where NVML answers that there is no driver, and only there: every other trouble is a failure."""
    try:
        pynvml.nvmlInit()
    except (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded) as absent:
        pytest.skip(f"no NVIDIA driver on this machine: {absent}")
    pynvml.nvmlShutdown()


@pytest.fixture(scope="session")
def source(driver: None) -> Iterator[NvmlSource]:
    """The real devices."""
    nvml = NvmlSource()
    yield nvml
    nvml.close()


@pytest.fixture(scope="session")
def figures(source: NvmlSource) -> Iterator[dict[str, Any]]:
    """What the tests measure; written as JSON to the file that GPUSHARE_GPU_RESULTS names, with all versions."""
    measured: dict[str, Any] = {}
    yield measured
    if path := os.environ.get(RESULTS):
        about = {
            "driver": source.driver().version,
            "devices": [device.name for device in source.devices()],
            "python": platform.python_version(),
            "kernel": platform.release(),
            "packages": {name: _version(name) for name in _PACKAGES},
        }
        Path(path).write_text(json.dumps({"machine": about, "figures": measured}, indent=2) + "\n")


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


class Holder:
    """A process of its own that holds GPU memory. A hang is a failure: every order has a deadline."""

    def __init__(self, framework: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("holder.py")), framework],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self.process.pid
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def order(self, line: str) -> None:
        """Give an order without waiting."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def wait(self) -> None:
        """Wait until the last order is done."""
        assert self._answers.get(timeout=DEADLINE_S) == "ready\n", "the holder ended"

    def do(self, line: str) -> None:
        """Give an order and wait until it is done."""
        self.order(line)
        self.wait()

    def end(self) -> None:
        """End it, by force if it hangs."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._answers.put(line)
        self._answers.put("")


@contextmanager
def holding(framework: str) -> Iterator[Holder]:
    """A holder that is gone afterwards."""
    holder = Holder(framework)
    try:
        yield holder
    finally:
        holder.end()


def until(condition: Callable[[], bool], what: str) -> float:
    """Wait for *condition*; returns how many seconds it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < DEADLINE_S, f"{what} did not come in {DEADLINE_S:.0f} s"
        time.sleep(0.05)
    return time.monotonic() - began
