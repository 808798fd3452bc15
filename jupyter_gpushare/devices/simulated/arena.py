"""The contents of one device's memory: a sparse file, of which only what was written takes disk space.

Freed ranges keep their bytes, as real device memory does, so that whoever reads memory that it did not
write sees somebody's old data. So that disk use stays small all the same, free ranges are given back
once the file takes more than `STALE_LIMIT` on disk.
"""

from __future__ import annotations

import ctypes
import errno
import os
from typing import TYPE_CHECKING, NamedTuple, Self

from jupyter_gpushare.devices.simulated.extents import Extent, locate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

__all__ = ["STALE_LIMIT", "Arena", "Piece"]

STALE_LIMIT = 64 << 20

_libc = ctypes.CDLL(None, use_errno=True)
_PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01  # fallocate(2): FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
_ZEROS = memoryview(bytes(1 << 20))
_BLOCK = 512  # stat(2) counts disk space in blocks of 512 bytes, whatever the file system.


class Piece(NamedTuple):
    """Bytes, and where they lie behind the begin of what they were saved from."""

    offset: int
    data: bytes


class Arena:
    """An open arena. The open file is the evidence that its process uses the device, as ``/dev/nvidia0`` would be."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1
        self.reopen()

    def reopen(self) -> None:
        """Open the file, if it was closed."""
        if self._fd < 0:
            self._fd = os.open(self._path, os.O_RDWR)

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

    def save(self, extents: Iterable[Extent]) -> list[Piece]:
        """The contents of *extents*, without what was never written, which is zero."""
        pieces: list[Piece] = []
        before = 0
        for extent in extents:
            pieces += (
                Piece(before + part.start - extent.start, self._read_all(part)) for part in self._written(extent)
            )
            before += extent.length
        return pieces

    def bring_back(self, extents: Sequence[Extent], pieces: Iterable[Piece]) -> None:
        """Make the contents of *extents* what `save` gave, whatever a neighbour left there."""
        for extent in extents:
            self._clear(extent)
        for piece in pieces:
            self.write(extents, piece.offset, memoryview(piece.data))

    def _written(self, extent: Extent) -> Iterator[Extent]:
        """The ranges of *extent* that take disk space."""
        position = extent.start
        while position < extent.end:
            try:
                begin = os.lseek(self._fd, position, os.SEEK_DATA)
            except OSError as trouble:
                if trouble.errno != errno.ENXIO:  # That is: nothing from here to the end of the file.
                    raise
                return
            if begin >= extent.end:
                return
            position = min(os.lseek(self._fd, begin, os.SEEK_HOLE), extent.end)
            yield Extent(begin, position - begin)

    def _clear(self, extent: Extent) -> None:
        if _punch(self._fd, extent):
            return
        for part in list(self._written(extent)):
            for start in range(part.start, part.end, len(_ZEROS)):
                self._write_all(start, _ZEROS[: part.end - start])

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


def _punch(fd: int, extent: Extent) -> bool:
    """Make *extent* a hole, which reads as zeros; False where the file system has none."""
    offset, length = ctypes.c_int64(extent.start), ctypes.c_int64(extent.length)
    if _libc.fallocate64(fd, _PUNCH_HOLE_KEEP_SIZE, offset, length) != 0:
        code = ctypes.get_errno()
        if code not in (errno.EOPNOTSUPP, errno.ENOSYS):
            raise OSError(code, os.strerror(code))
        return False
    return True
