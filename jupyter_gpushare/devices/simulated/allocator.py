"""A caching allocator in the manner of the frameworks': a freed buffer's memory stays reserved for the next one.

Memory is taken from the device in segments and handed out in blocks. Small blocks get segments of their
own, so that one small buffer that lives on does not keep a large segment from being given back. Sizes are in bytes.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from jupyter_gpushare.devices.simulated.extents import Extent, round_up
from jupyter_gpushare.devices.simulated.occupancy import NoRoom

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from jupyter_gpushare.devices.simulated.occupancy import Allocation

__all__ = ["Block", "CachingAllocator", "Segments"]

_BLOCK_BYTES = 512
_SMALL_BYTES = 1 << 20


class Segments(Protocol):
    """Where an allocator's memory comes from."""

    def take(self, size: int) -> Allocation:
        """At least *size* bytes; raises NoRoom."""

    def keep(self, segments: Collection[Allocation]) -> None:
        """Give back all but *segments*."""


@dataclass(slots=True, eq=False)
class Block:
    """A part of a segment: in use, or cached for the next buffer that it fits."""

    segment: Segment
    offset: int
    size: int
    is_free: bool = False


@dataclass(slots=True, eq=False)
class Segment:
    """Memory of the device, divided into blocks, in order."""

    allocation: Allocation
    is_small: bool
    blocks: list[Block] = field(default_factory=list)

    @property
    def is_cached(self) -> bool:
        """Whether no block is in use."""
        return all(block.is_free for block in self.blocks)


class CachingAllocator:
    """The memory of one process on one device."""

    def __init__(self, segments: Segments) -> None:
        self._source = segments
        self._segments: list[Segment] = []
        self._lock = threading.RLock()
        # A buffer may be collected in the middle of a call of this very thread: it is put here, and freed later.
        self._dropped: deque[Block] = deque()

    @property
    def reserved(self) -> int:
        """What is taken from the device."""
        with self._lock:
            return sum(segment.allocation.size for segment in self._segments)

    @property
    def allocated(self) -> int:
        """What buffers use."""
        with self._lock:
            self._free_dropped()
            return sum(block.size for block in self._blocks() if not block.is_free)

    def allocate(self, size: int) -> Block:
        """A block of at least *size* bytes, from the cache where one fits, with whatever content.

        Raises:
            NoRoom: the device has no room, even after the cache was given back.
        """
        size = round_up(size, _BLOCK_BYTES)
        with self._lock:
            self._free_dropped()
            block = self._cached(size) or self._fresh(size)
            block.is_free = False
            return block

    def _cached(self, size: int) -> Block | None:
        is_small = size <= _SMALL_BYTES
        fitting = [b for b in self._blocks() if b.is_free and b.size >= size and b.segment.is_small == is_small]
        best = min(fitting, key=lambda block: block.size, default=None)
        if best is not None:
            _split(best, size)
        return best

    def _fresh(self, size: int) -> Block:
        try:
            allocation = self._source.take(size)
        except NoRoom:
            if not self.release_cached():
                raise
            allocation = self._source.take(size)
        segment = Segment(allocation, is_small=size <= _SMALL_BYTES)
        segment.blocks.append(Block(segment, 0, allocation.size))
        self._segments.append(segment)
        _split(segment.blocks[0], size)
        return segment.blocks[0]

    def free(self, block: Block) -> None:
        """Put *block* into the cache."""
        with self._lock:
            block.is_free = True
            _merge(block.segment)

    def drop(self, block: Block) -> None:
        """Put *block* into the cache soon. Safe at any moment, in a finalizer too."""
        self._dropped.append(block)

    def release_cached(self) -> int:
        """Give back every segment without a block in use; what that freed."""
        with self._lock:
            self._free_dropped()
            before = self.reserved
            self._segments = [segment for segment in self._segments if not segment.is_cached]
            self._source.keep([segment.allocation for segment in self._segments])
            return before - self.reserved

    def relocate(self, found: Mapping[int, tuple[Extent, ...]]) -> None:
        """Learn where the segments lie now, by allocation."""
        with self._lock:
            for segment in self._segments:
                segment.allocation.extents = found[segment.allocation.id]

    def _free_dropped(self) -> None:
        while self._dropped:
            self.free(self._dropped.popleft())

    def _blocks(self) -> Iterator[Block]:
        for segment in self._segments:
            yield from segment.blocks


def _split(block: Block, size: int) -> None:
    """Cut what *block* has beyond *size* off, as a free block."""
    if block.size > size:
        rest = Block(block.segment, block.offset + size, block.size - size, is_free=True)
        block.size = size
        blocks = block.segment.blocks
        blocks.insert(blocks.index(block) + 1, rest)


def _merge(segment: Segment) -> None:
    """Join neighbouring free blocks."""
    merged: list[Block] = []
    for block in segment.blocks:
        if merged and merged[-1].is_free and block.is_free:
            merged[-1].size += block.size
        else:
            merged.append(block)
    segment.blocks = merged
