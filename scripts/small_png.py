"""Writes the picture of a screen as a small PNG: with 256 colours, of which text and bars need no more."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["small_png"]

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_MOST: Final = 256
_WITH_PALETTE: Final = 3


def small_png(width: int, height: int, rgba: bytes) -> bytes:
    """A PNG of these pixels in 256 colours of theirs; any other becomes the nearest of them.

    Args:
        width: in pixels.
        height: in pixels.
        rgba: four bytes a pixel, row by row; the fourth is not looked at, as a screen shows nothing transparent.
    """
    pixels = np.frombuffer(rgba, np.uint8).reshape(height * width, 4).astype(np.int64)
    codes = pixels[:, 0] << 16 | pixels[:, 1] << 8 | pixels[:, 2]
    colours, which, counts = np.unique(codes, return_inverse=True, return_counts=True)
    kept, nearest = _palette(_channels(colours), counts)
    indices = nearest[which].reshape(height, width)
    # Each row says first that it is not written as what differs from its neighbours.
    rows = np.concatenate([np.zeros((height, 1), np.uint8), indices], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, _WITH_PALETTE, 0, 0, 0)
    palette = kept.astype(np.uint8).tobytes()
    parts = (b"IHDR", header), (b"PLTE", palette), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b"")
    return _SIGNATURE + b"".join(_chunk(kind, body) for kind, body in parts)


def _channels(codes: NDArray[Any]) -> NDArray[Any]:
    return np.stack([codes >> 16, codes >> 8 & 255, codes & 255], axis=-1)


def _palette(colours: NDArray[Any], counts: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The colours that are kept, and for each of *colours* the place of the nearest of them.

    What is added is always what would be changed most: by how far it is, on how many pixels. So a few pixels of orange
    stay orange beside thousands of nearly the same grey.
    """
    chosen = [int(counts.argmax())]
    distances = _distances(colours, colours[chosen[0]])
    nearest = np.zeros(len(colours), np.uint8)
    while len(chosen) < _MOST and distances.any():
        worst = int((distances * counts).argmax())
        to_worst = _distances(colours, colours[worst])
        nearest[to_worst < distances] = len(chosen)
        distances = np.minimum(distances, to_worst)
        chosen.append(worst)
    return colours[chosen], nearest


def _distances(colours: NDArray[Any], one: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(((colours - one) ** 2).sum(axis=1))


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
