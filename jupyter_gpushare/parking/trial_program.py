"""A small program that holds GPU memory with known contents, for the doctor to park and resume.

``python -m jupyter_gpushare.parking.trial_program --device UUID --size BYTES [--simulated DIR] [--synchronise]``

It says what its memory's checksum is, as a JSON line, once when it begins and again for each line that it reads; it
ends when its input closes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from typing import TYPE_CHECKING, Protocol

from jupyter_gpushare.devices.simulated.visible import MACHINE_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["DeviceMemory", "main"]

_BETWEEN_SYNCHRONISATIONS_S = 0.02


class DeviceMemory(Protocol):
    """Memory on a device, filled with contents of its own."""

    def checksum(self) -> str:
        """A hash of the contents, read back from the device."""

    def synchronise(self) -> None:
        """Wait for the device, as a program's background thread might at any moment."""


class _Simulated:
    """On the first visible device of the simulated machine."""

    def __init__(self, size: int) -> None:
        from jupyter_gpushare.devices.simulated import cuda

        self._cuda = cuda
        self._buffer = cuda.allocate(size)
        self._buffer.fill(seed=os.getpid())

    def checksum(self) -> str:
        return self._buffer.checksum()

    def synchronise(self) -> None:
        self._cuda.synchronize()


def main(arguments: Sequence[str] | None = None) -> None:
    """Hold memory until the input closes."""
    parser = argparse.ArgumentParser(prog="trial_program", description="Hold GPU memory with known contents.")
    parser.add_argument("--device", required=True, metavar="UUID")
    parser.add_argument("--size", required=True, type=int, metavar="BYTES")
    parser.add_argument("--simulated", metavar="DIR", help="on this simulated machine instead of a real device")
    parser.add_argument("--synchronise", action="store_true", help="wait for the device again and again meanwhile")
    options = parser.parse_args(arguments)
    # Both, CUDA and the simulated machine, number the devices as this lists them.
    os.environ["CUDA_VISIBLE_DEVICES"] = options.device
    try:
        memory = _open(options.size, options.simulated)
    except Exception as trouble:  # noqa: BLE001  # a driver may raise anything; the doctor reports it
        _say({"error": f"{type(trouble).__name__}: {trouble}"})
        sys.exit(1)
    if options.synchronise:
        threading.Thread(target=_synchronise, args=(memory,), daemon=True).start()
    _say({"checksum": memory.checksum()})
    for _ in sys.stdin:
        _say({"checksum": memory.checksum()})


def _open(size: int, simulated: str | None) -> DeviceMemory:
    if simulated is not None:
        os.environ[MACHINE_VARIABLE] = simulated
        return _Simulated(size)
    from jupyter_gpushare.parking.trial_cuda import CudaMemory

    return CudaMemory(size)


def _synchronise(memory: DeviceMemory) -> None:
    pause = threading.Event()
    while not pause.wait(_BETWEEN_SYNCHRONISATIONS_S):
        memory.synchronise()


def _say(content: dict[str, str]) -> None:
    print(json.dumps(content), flush=True)  # noqa: T201  # its output is read by the doctor


if __name__ == "__main__":
    main()
