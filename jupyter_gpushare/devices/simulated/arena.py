"""The contents of one device's memory: a sparse file, of which only what was written takes disk space.

Freed ranges keep their bytes, as real device memory does, so that whoever reads memory that it did not
write sees somebody's old data. So that disk use stays small all the same, free ranges are given back
once the file takes more than `STALE_LIMIT` on disk.
"""

from __future__ import annotations

import ctypes
import errno
import os
from typing import TYPE_CHECKING, Self

from jupyter_gpushare.devices.simulated.extents import Extent, locate

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["STALE_LIMIT", "Arena"]

STALE_LIMIT = 64 << 20

_PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01  # fallocate(2): FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
_BLOCK = 512  # stat(2) counts disk space in blocks of 512 bytes, whatever the file system.


class Arena:
    """An open arena. The open file is the evidence that its process uses the device, as ``/dev/nvidia0`` would be."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR)

    @staticmethod
    def create(path: Path, size: int) -> None:
        """Make an empty arena of *size* bytes."""
        with path.open("xb") as file:
            file.truncate(size)

    def write(self, extents: Iterable[Extent], offset: int, data: memoryview) -> None:
        """Put *data*, bytes, at *offset* of an allocation that lies in *extents*."""
        for part in locate(extents, offset, len(data)):
            self._write_all(part.start, data[: part.length])
            data = data[part.length :]

    def _write_all(self, position: int, data: memoryview) -> None:
        while data:
            written = os.pwrite(self._fd, data, position)
            position, data = position + written, data[written:]

    def read(self, extents: Iterable[Extent], offset: int, size: int) -> bytes:
        """The *size* bytes at *offset* of an allocation that lies in *extents*."""
        return b"".join(self._read_all(part) for part in locate(extents, offset, size))

    def _read_all(self, part: Extent) -> bytes:
        pieces = []
        position = part.start
        # One read call gives at most 2 GiB.
        while position < part.end and (piece := os.pread(self._fd, part.end - position, position)):
            pieces.append(piece)
            position += len(piece)
        return b"".join(pieces)

    def trim(self, free: Iterable[Extent]) -> None:
        """Give the disk space of the *free* ranges back if the arena takes too much. Their bytes become zero.

        The caller keeps others from taking these ranges meanwhile. A file system that cannot do it keeps the space.
        """
        if os.fstat(self._fd).st_blocks * _BLOCK > STALE_LIMIT:
            for extent in free:
                _punch(self._fd, extent)

    def close(self) -> None:
        """Close the file; doing so twice is harmless."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _punch(fd: int, extent: Extent) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    offset, length = ctypes.c_int64(extent.start), ctypes.c_int64(extent.length)
    if libc.fallocate64(fd, _PUNCH_HOLE_KEEP_SIZE, offset, length) != 0:
        code = ctypes.get_errno()
        if code not in (errno.EOPNOTSUPP, errno.ENOSYS):
            raise OSError(code, os.strerror(code))
