"""A piece of a simulated device's memory, with real contents."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Literal

from jupyter_gpushare.devices.simulated.extents import Extent
from jupyter_gpushare.quantity import Memory

if TYPE_CHECKING:
    from jupyter_gpushare.devices.simulated.allocator import Block
    from jupyter_gpushare.devices.simulated.context import Context

__all__ = ["Buffer"]

_PAGE = 4096
_SAMPLED_PAGES = 64


class Buffer:
    """Memory of *size* bytes on a device, freed by `free` or when nothing refers to it any more.

    Its content is undefined where nothing was written: often somebody's old data.
    """

    __slots__ = ("__weakref__", "_block", "_context", "_written", "size")

    def __init__(self, context: Context, block: Block, size: int) -> None:
        self.size = size
        self._context = context
        self._block: Block | None = block
        self._written: list[Extent] = []

    @property
    def device(self) -> int:
        """The number of its device."""
        return self._context.ordinal

    def write(self, data: bytes | bytearray | memoryview, offset: int = 0) -> None:
        """Copy *data* to the device, to *offset* bytes behind the buffer's begin.

        Raises:
            ValueError: it does not lie within the buffer.
        """
        view = memoryview(data).cast("B")
        with self._context.turn():
            block = self._begin("write", offset, len(view))
            self._context.arena.write(block.segment.allocation.extents, block.offset + offset, view)
        self._written = _with(self._written, Extent(offset, len(view)))

    def read(self, offset: int = 0, size: int | None = None) -> bytes:
        """Copy *size* bytes (by default all that follow) from *offset* on.

        Raises:
            ValueError: they do not lie within the buffer.
        """
        size = self.size - offset if size is None else size
        with self._context.turn():
            block = self._begin("read", offset, size)
            return self._context.arena.read(block.segment.allocation.extents, block.offset + offset, size)

    def fill(self, seed: int = 0) -> None:
        """Write a pattern that names *seed* and its place, on at most 64 pages spread over the buffer.

        A sample stands for the whole, so that gigabytes can be filled in no time and on little disk.
        """
        for offset in _sampled_pages(self.size):
            self.write(_pattern(seed, offset, min(_PAGE, self.size - offset)), offset)

    def checksum(self) -> str:
        """A hash of what was written and where, read back from the device: it changes if anything overwrote it."""
        digest = hashlib.blake2b(digest_size=16)
        for extent in self._written:
            digest.update(b"%d+%d:" % extent)
            digest.update(self.read(*extent))
        return digest.hexdigest()

    def free(self) -> None:
        """Give the memory back to this process's cache; doing so twice is harmless."""
        with self._context.turn():
            if self._block is not None:
                self._context.enter("free")
                block, self._block = self._block, None
                self._context.allocator.free(block)

    def _begin(self, call: Literal["read", "write"], offset: int, size: int) -> Block:
        if self._block is None:
            raise ValueError("this buffer was freed: allocate a new one")
        if offset < 0 or size < 0 or offset + size > self.size:
            raise ValueError(f"offset: {size} bytes from {offset} on do not lie within the buffer's {self.size}")
        self._context.enter(call)
        return self._block

    def __del__(self) -> None:
        if self._block is not None:
            self._context.allocator.drop(self._block)

    def __repr__(self) -> str:
        state = "" if self._block is not None else ", freed"
        return f"<Buffer of {Memory(self.size)} on GPU {self.device} ({self._context.device.name}){state}>"


def _with(written: list[Extent], new: Extent) -> list[Extent]:
    """*written* and *new*, in order, those that touch joined."""
    if not new.length:
        return written
    joined: list[Extent] = []
    for extent in sorted([*written, new]):
        if joined and extent.start <= joined[-1].end:
            last = joined.pop()
            joined.append(Extent(last.start, max(last.end, extent.end) - last.start))
        else:
            joined.append(extent)
    return joined


def _sampled_pages(size: int) -> list[int]:
    pages = -(-size // _PAGE)
    chosen = (
        range(pages)
        if pages <= _SAMPLED_PAGES
        else [sample * (pages - 1) // (_SAMPLED_PAGES - 1) for sample in range(_SAMPLED_PAGES)]
    )
    return [page * _PAGE for page in chosen]


def _pattern(seed: int, offset: int, length: int) -> bytes:
    line = b"gpushare fill seed=%d offset=%d " % (seed, offset)
    return (line * (length // len(line) + 1))[:length]
