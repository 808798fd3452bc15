"""Reads the metadata of notebooks through the server's contents manager, as rarely as will do."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec
from jupyter_core.utils import ensure_async

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

__all__ = ["NotebookMetadata"]

_LARGEST: Final = 16 << 20
_MOST_REMEMBERED: Final = 256


class _Notebook(msgspec.Struct):
    """The one part of a notebook that we read; the cells are skipped, not built."""

    metadata: dict[str, Any] = {}


class NotebookMetadata:
    """Remembers what it read until the file changes.

    Args:
        contents: the server's contents manager, of whatever kind.
        log: hears, at level debug, what could not be read.
        every_s: the shortest time between two looks at one notebook.
        deadline_s: how long a contents manager may take.
        clock: gives a time that only goes forward.
    """

    def __init__(
        self,
        contents: Any,
        *,
        log: logging.Logger,
        every_s: float = 30.0,
        deadline_s: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._contents = contents
        self._log = log
        self._every_s = every_s
        self._deadline_s = deadline_s
        self._clock = clock
        self._looked: dict[str, float] = {}
        self._read: dict[str, tuple[object, dict[str, Any] | None]] = {}

    async def read(self, path: str | None) -> dict[str, Any] | None:
        """The metadata of the notebook at *path*, as last read; None for none, also where it cannot be read."""
        if path is None or not path.endswith(".ipynb"):
            return None
        now = self._clock()
        if now - self._looked.get(path, -float("inf")) >= self._every_s:
            self._make_room()
            self._looked[path] = now
            await self._look(path)
        return self._read.get(path, (None, None))[1]

    async def _look(self, path: str) -> None:
        try:
            async with asyncio.timeout(self._deadline_s):
                about = await ensure_async(self._contents.get(path, content=False))
                changed = about.get("last_modified")
                if path not in self._read or self._read[path][0] != changed:
                    self._read[path] = (changed, await self._metadata(path, about.get("size")))
        except Exception:  # noqa: BLE001  # whatever a contents manager raises: the last answer stays
            self._log.debug("The metadata of a notebook could not be read: %s", path, exc_info=True)

    async def _metadata(self, path: str, size: object) -> dict[str, Any] | None:
        if isinstance(size, int) and size > _LARGEST:
            self._log.debug("A notebook of %s bytes is too large to look for its metadata: %s", size, path)
            return None
        # As a file of text: as a notebook the manager would check every cell, which takes far longer.
        model = await ensure_async(self._contents.get(path, content=True, type="file", format="text"))
        return msgspec.json.decode(model["content"], type=_Notebook).metadata

    def _make_room(self) -> None:
        if len(self._looked) >= _MOST_REMEMBERED:
            self._looked.clear()
            self._read.clear()
