"""Our source of NVIDIA devices, with another file in the place of ``/dev/nvidia0``.

A process holds a GPU when it has the device's file open. The stand-in has no such file, and making one needs root; so a
process that shall look like a holder opens the file that `DEVICE_FILE` names. All else is the real source.

In a server's configuration: ``c.GpuShare.open_source = benchmarks.stand_in.source.open_source``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.devices.device_files import DeviceFiles
from jupyter_gpushare.devices.nvml import NvmlSource

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DEVICE_FILE", "StandInSource", "open_source"]

DEVICE_FILE: Final = "STAND_IN_DEVICE_FILE"


class StandInSource(NvmlSource):
    """Reads through pynvml as ever; the holders of *environ*'s `DEVICE_FILE` are the holders of a device."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(environ=environ)
        self._files = DeviceFiles(re.compile(re.escape(environ[DEVICE_FILE])))


def open_source(environ: Mapping[str, str]) -> StandInSource:
    """What the server extension calls."""
    return StandInSource(environ)
