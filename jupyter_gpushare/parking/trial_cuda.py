"""Memory on a real device for the doctor's trial program, through CUDA's driver alone: no framework is needed."""

from __future__ import annotations

import ctypes
import hashlib
import os
from typing import Any, Final

__all__ = ["CudaMemory"]

# So much is random; the rest repeats it, turned by its place, so that a piece in a wrong place shows too.
_PIECE: Final = 1 << 20


class CudaMemory:
    """*size* bytes on the first visible device, in its primary context.

    *driver* is CUDA's binding unless another one is given.

    Raises:
        RuntimeError: CUDA refused; the message has its name for why.
    """

    def __init__(self, size: int, driver: Any = None) -> None:
        self._driver = _binding() if driver is None else driver
        self._size = size
        self._call("cuInit", 0)
        device = self._call("cuDeviceGet", 0)
        self._context = self._call("cuDevicePrimaryCtxRetain", device)
        self._call("cuCtxSetCurrent", self._context)
        self._address = int(self._call("cuMemAlloc", size))
        self._fill()

    def checksum(self) -> str:
        """A hash of the contents, read back from the device."""
        self._call("cuCtxSetCurrent", self._context)
        digest = hashlib.blake2b(digest_size=16)
        piece = (ctypes.c_char * _PIECE)()
        for offset in range(0, self._size, _PIECE):
            length = min(_PIECE, self._size - offset)
            self._call("cuMemcpyDtoH", ctypes.addressof(piece), self._address + offset, length)
            digest.update(memoryview(piece)[:length])
        return digest.hexdigest()

    def synchronise(self) -> None:
        """Wait for the device."""
        self._call("cuCtxSetCurrent", self._context)  # a thread's context is its own
        self._call("cuCtxSynchronize")

    def _fill(self) -> None:
        noise = os.urandom(_PIECE)
        for number, offset in enumerate(range(0, self._size, _PIECE)):
            turned = noise[number % _PIECE :] + noise[: number % _PIECE]
            piece = (ctypes.c_char * _PIECE).from_buffer_copy(turned)
            self._call(
                "cuMemcpyHtoD", self._address + offset, ctypes.addressof(piece), min(_PIECE, self._size - offset)
            )

    def _call(self, name: str, *arguments: Any) -> Any:
        """Call the driver; what it gives besides its result code."""
        code, *values = getattr(self._driver, name)(*arguments)
        if code != self._driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"{name}: {code.name}")
        return values[0] if values else None


def _binding() -> Any:
    from cuda.bindings import driver

    return driver
