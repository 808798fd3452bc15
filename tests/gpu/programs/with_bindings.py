"""Through cuda-bindings: the driver API and nothing else."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path
from typing import Any, Final

from cuda.bindings import driver

__all__ = ["Program"]

_WORD: Final = 8
_GRID: Final = 1024
_BLOCK: Final = 256
# So many rounds take a device some milliseconds: long enough to fill it, short enough to be sliced fairly.
_ROUNDS: Final = 20_000
_CHUNK: Final = 64 << 20


class Program:
    """Holds one allocation on the first visible device, in its primary context."""

    def __init__(self) -> None:
        self._device: Any = None
        self._kernels: dict[str, Any] = {}
        self._address = self._scratch = self._size = 0

    def init(self) -> None:
        """Open the driver."""
        call("cuInit", 0)

    def hold(self, size: int) -> None:
        """Allocate *size* bytes."""
        self._open()
        self._address, self._size = int(call("cuMemAlloc", size)), size

    def free(self) -> None:
        """Give them back."""
        call("cuMemFree", self._address)
        self._address = self._size = 0

    def fill(self, seed: int) -> None:
        """Write every word."""
        self._launch("fill", (self._address, ctypes.c_void_p), (self._words, ctypes.c_uint64), (seed, ctypes.c_uint64))
        self.synchronise()

    def digest(self) -> int:
        """Read every word."""
        call("cuMemsetD32", self._scratch, 0, 2)
        count = (self._words, ctypes.c_uint64)
        self._launch("digest", (self._address, ctypes.c_void_p), count, (self._scratch, ctypes.c_void_p))
        found = ctypes.c_uint64()
        call("cuMemcpyDtoH", ctypes.addressof(found), self._scratch, _WORD)
        return found.value

    def work(self, seconds: float) -> int:
        """Compute; how many launches ended in time."""
        self._open()
        done, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            self._launch("spin", (self._scratch, ctypes.c_void_p), (_ROUNDS, ctypes.c_uint64))
            self.synchronise()
            done += 1
        return done

    def copy(self, direction: str) -> float:
        """Copy as many bytes as are held through two page-locked buffers, ``out`` or ``in``; how many seconds.

        This is what the bus gives at best: nothing is kept, and what is held stays as it was.
        """
        buffers = [int(call("cuMemHostAlloc", _CHUNK, 0)) for _ in range(2)]
        streams = [call("cuStreamCreate", 1) for _ in range(2)]
        scratch = int(call("cuMemAlloc", _CHUNK))
        began = time.perf_counter()
        for number, offset in enumerate(range(0, self._size, _CHUNK)):
            buffer, stream = buffers[number % 2], streams[number % 2]
            length = min(_CHUNK, self._size - offset)
            if direction == "out":
                call("cuMemcpyDtoHAsync", buffer, self._address + offset, length, stream)
            else:
                call("cuMemcpyHtoDAsync", scratch, buffer, length, stream)
        self.synchronise()
        took = time.perf_counter() - began
        call("cuMemFree", scratch)
        for buffer, stream in zip(buffers, streams, strict=True):
            call("cuMemFreeHost", buffer)
            call("cuStreamDestroy", stream)
        return took

    def synchronise(self) -> None:
        """Wait for the device."""
        self._use_here()
        call("cuCtxSynchronize")

    @property
    def _words(self) -> int:
        return self._size // _WORD

    def _open(self) -> None:
        if self._kernels:
            return
        self.init()
        self._device = call("cuDeviceGet", 0)
        self._context = call("cuDevicePrimaryCtxRetain", self._device)
        self._use_here()
        module = call("cuModuleLoadData", Path(__file__).with_name("kernels.ptx").read_bytes() + b"\0")
        self._kernels = {
            name: call("cuModuleGetFunction", module, name.encode()) for name in ("fill", "digest", "spin")
        }
        self._scratch = int(call("cuMemAlloc", _WORD))

    def _use_here(self) -> None:
        call("cuCtxSetCurrent", self._context)  # a thread's context is its own

    def _launch(self, name: str, *arguments: tuple[int, Any]) -> None:
        values, types = zip(*arguments, strict=True)
        call("cuLaunchKernel", self._kernels[name], _GRID, 1, 1, _BLOCK, 1, 1, 0, 0, (values, types), 0)


def call(name: str, *arguments: Any) -> Any:
    """Call the driver; what it gives besides its result code.

    Raises:
        RuntimeError: CUDA refused, with its own word for why.
    """
    result, *values = getattr(driver, name)(*arguments)
    if result != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"{name}: {result.name}")
    return values[0] if values else None
