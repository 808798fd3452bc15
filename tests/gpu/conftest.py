"""A real NVIDIA driver, and a place for what was measured on it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pynvml
import pytest

from jupyter_gpushare.devices.nvml import NvmlSource
from tests.gpu.rig import Rig, real_rig, simulated_rig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

RESULTS = "GPUSHARE_GPU_RESULTS"
_PACKAGES = ("nvidia-ml-py", "cuda-bindings", "torch", "jax", "cupy", "tensorflow")


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


class Figures(dict[str, Any]):
    """What was seen, by name. Kept at once: the next test may be the one at which the host hangs."""

    def __init__(self, about: dict[str, Any], path: str) -> None:
        super().__init__()
        self._about, self._path = about, path

    def __setitem__(self, name: str, seen: Any) -> None:
        super().__setitem__(name, seen)
        self.keep()

    def keep(self) -> None:
        """Write all of it, with what it was seen on."""
        if self._path:
            content = {"machine": self._about, "figures": self}
            Path(self._path).write_text(json.dumps(content, indent=2) + "\n")


@pytest.fixture(scope="session")
def figures(source: NvmlSource) -> Iterator[Figures]:
    """What the tests measure; written as JSON to the file that GPUSHARE_GPU_RESULTS names, with all versions."""
    about = {
        "driver": source.driver().version,
        "devices": [device.name for device in source.devices()],
        "python": platform.python_version(),
        "kernel": platform.release(),
        "packages": {name: _version(name) for name in _PACKAGES},
    }
    figures = Figures(about, os.environ.get(RESULTS, ""))
    yield figures
    figures.keep()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


@pytest.fixture(params=[pytest.param("real", marks=pytest.mark.gpu), "simulated"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    """A device to park on. `make test-gpu` takes a real one; all other runs the simulated one, to try the tests."""
    if request.param == "simulated":
        with simulated_rig(tmp_path) as simulated:
            yield simulated
        return
    request.getfixturevalue("driver")
    with real_rig(tmp_path) as real:
        if isinstance(real, str):
            if "install 570 or newer" in real:
                pytest.skip(real)
            pytest.fail(real)
        yield real


@pytest.fixture
def record(rig: Rig, request: pytest.FixtureRequest) -> Callable[[str, Any], None]:
    """Put on record what was seen, under a name: with the figures if it was seen on a real device."""

    def keep(name: str, seen: Any) -> None:
        if rig.kind == "real":
            request.getfixturevalue("figures")[name] = seen
        else:
            request.node.user_properties.append((name, seen))

    return keep
