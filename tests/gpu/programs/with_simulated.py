"""On the simulated machine that the environment names."""

from __future__ import annotations

import time
from typing import Final

from jupyter_gpushare.devices.simulated import cuda

__all__ = ["Program"]

_ROUND_S: Final = 0.02
_CHUNK: Final = 64 << 20


class Program:
    """Holds one buffer on the first visible device."""

    def __init__(self) -> None:
        self._buffer: cuda.Buffer | None = None

    def init(self) -> None:
        """Open the driver."""
        cuda.device_count()

    def hold(self, size: int) -> None:
        """Allocate *size* bytes."""
        self._buffer = cuda.allocate(size)

    def free(self) -> None:
        """Give them back."""
        self._held.free()
        cuda.empty_cache()

    def fill(self, seed: int) -> None:
        """Write a sample of pages."""
        self._held.fill(seed)

    def digest(self) -> str:
        """Read them."""
        return self._held.checksum()

    def work(self, seconds: float) -> int:
        """Compute; how many rounds ended in time."""
        done, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            cuda.compute(100, _ROUND_S)
            done += 1
        return done

    def copy(self, direction: str) -> float:
        """Copy as many bytes as are held, ``out`` or ``in``; how many seconds."""
        scratch = cuda.allocate(_CHUNK)
        piece = scratch.read()
        began = time.perf_counter()
        for offset in range(0, self._held.size, _CHUNK):
            if direction == "out":
                self._held.read(offset, min(_CHUNK, self._held.size - offset))
            else:
                scratch.write(piece)
        took = time.perf_counter() - began
        scratch.free()
        cuda.empty_cache()
        return took

    def synchronise(self) -> None:
        """Wait for the device."""
        cuda.synchronize()

    @property
    def _held(self) -> cuda.Buffer:
        if self._buffer is None:
            raise RuntimeError("nothing is held: order `hold BYTES` first")
        return self._buffer
