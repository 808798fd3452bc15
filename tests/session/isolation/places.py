"""Where the parts are that an isolation mode needs: a stand-in for NVIDIA's MPS, a library for HAMi-core's place."""

from __future__ import annotations

import ctypes.util
import os
import shutil
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_gpushare.session.isolation.mode import Slice, slices_of
from jupyter_gpushare.session.own_share import choose_share
from tests.session.fake_source import device

if TYPE_CHECKING:
    import pytest

    from jupyter_gpushare.devices.device import Device

__all__ = ["put_hami_into", "put_mps_on_path", "slices"]

STAND_IN = Path(__file__).with_name("nvidia-cuda-mps-control")


def put_mps_on_path(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Have the stand-in found as NVIDIA's program."""
    folder.mkdir(exist_ok=True)
    program = folder / STAND_IN.name
    shutil.copy(STAND_IN, program)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def put_hami_into(folder: Path) -> Path:
    """A library that can be preloaded and does nothing, under HAMi-core's name."""
    name = ctypes.util.find_library("dl")
    assert name is not None
    folders = [Path("/lib"), Path("/usr/lib"), Path("/lib64"), Path(sysconfig.get_config_var("LIBDIR"))]
    found = next(path for place in folders for path in place.rglob(name))
    return Path(shutil.copy(found, folder / "libvgpu.so"))


def slices(share: str = "0.5", *devices: Device) -> list[Slice]:
    """Where *share* lies on 40 GiB devices with 39 GiB usable."""
    return slices_of(choose_share(share, {}), devices or (device(),))
