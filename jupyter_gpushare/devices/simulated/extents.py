"""Which ranges of a device's memory are free, and which of them an allocation gets. Pure arithmetic.

As on a real GPU, an allocation needs no single range: the driver maps pages from anywhere. It fails only
when the sum does not fit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["GRANULARITY", "Extent", "choose", "gaps", "locate", "round_up"]

GRANULARITY = 2 << 20  # The page size of CUDA's own device allocations.


class Extent(NamedTuple):
    """The bytes from *start* up to *start + length* of a device's memory."""

    start: int
    length: int

    @property
    def end(self) -> int:
        """The first byte behind this extent."""
        return self.start + self.length


def round_up(size: int, granularity: int = GRANULARITY) -> int:
    """The smallest multiple of *granularity* that holds *size*."""
    return -(-size // granularity) * granularity


def gaps(taken: Iterable[Extent], capacity: int) -> Iterator[Extent]:
    """The free ranges below *capacity*; *taken* is in order and does not overlap."""
    position = 0
    for extent in taken:
        if extent.start > position:
            yield Extent(position, extent.start - position)
        position = extent.end
    if position < capacity:
        yield Extent(position, capacity - position)


def choose(free: Sequence[Extent], size: int) -> list[Extent]:
    """Ranges of *free* for *size* bytes: the first that holds all, else pieces from the lowest on.

    Lowest first, so that what was just freed is soon overwritten by a neighbour.

    Raises:
        ValueError: *free* sums to less than *size*.
    """
    for gap in free:
        if gap.length >= size:
            return [Extent(gap.start, size)]
    chosen: list[Extent] = []
    for gap in free:
        chosen.append(Extent(gap.start, min(gap.length, size)))
        size -= chosen[-1].length
        if not size:
            return chosen
    raise ValueError(f"{size} bytes do not fit")


def locate(extents: Iterable[Extent], offset: int, size: int) -> Iterator[Extent]:
    """Where the bytes from *offset* to *offset + size* of an allocation made of *extents* lie."""
    for extent in extents:
        if offset < extent.length and size:
            part = min(extent.length - offset, size)
            yield Extent(extent.start + offset, part)
            size -= part
            offset = extent.length
        offset -= extent.length
