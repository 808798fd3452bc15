"""Those who look at a session: every frame is shown to all, and many changes in a row become one frame."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jupyter_gpushare.session.stream import Frame

__all__ = ["Watcher", "Watchers"]


class Watcher(Protocol):
    """Somebody who looks: shown every frame until it leaves."""

    def show(self, frame: Frame) -> None:
        """Show one frame; must not raise."""


class Watchers:
    """A set of them; lives on the event loop.

    Args:
        frame: makes the frame of this moment.
        settle_s: how long changes are gathered before they are shown.
    """

    def __init__(self, frame: Callable[[], Frame], settle_s: float) -> None:
        self._frame = frame
        self._settle_s = settle_s
        self._all: set[Watcher] = set()
        self._pending: asyncio.TimerHandle | None = None

    def __iter__(self) -> Iterator[Watcher]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def add(self, watcher: Watcher) -> None:
        """One more, who is shown what is known now."""
        self._all.add(watcher)
        watcher.show(self._frame())

    def remove(self, watcher: Watcher) -> bool:
        """One less; False for one who was not there."""
        if watcher not in self._all:
            return False
        self._all.remove(watcher)
        return True

    def show_soon(self) -> None:
        """Show a frame once for many changes: a run of fast cells must not cost a frame each."""
        if self._all and self._pending is None:
            self._pending = asyncio.get_running_loop().call_later(self._settle_s, self.show_now)

    def show_now(self) -> None:
        """Show a frame of this moment."""
        self.stop()
        if self._all:
            frame = self._frame()
            for watcher in list(self._all):
                watcher.show(frame)

    def stop(self) -> None:
        """Show nothing that is still to come."""
        if self._pending is not None:
            self._pending.cancel()
            self._pending = None
