"""Keeps the kernels' names: the notebooks that show them. Jupyter sends no event for that, hence the looking."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging

    from jupyter_gpushare.session.kernels import Kernels

__all__ = ["NotebookNames"]


class NotebookNames:
    """Lives on the event loop.

    Args:
        kernels: the server's kernels.
        settle_s: how long to wait after a kernel's start: Jupyter writes down which notebook shows it only then.
        log: where trouble goes.
    """

    def __init__(self, kernels: Kernels, settle_s: float, *, log: logging.Logger) -> None:
        self._kernels = kernels
        self._settle_s = settle_s
        self._log = log
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def look_soon(self) -> None:
        """A kernel may have started: learn its name if it has none."""
        if self._timer is None and any(kernel.path is None for kernel in self._kernels.all()):
            self._timer = asyncio.get_running_loop().call_later(self._settle_s, self._look)

    async def refresh(self) -> None:
        """Learn them all. Names are a courtesy: without them the numbers are right all the same."""
        try:
            await self._kernels.refresh_paths()
        except Exception:  # noqa: BLE001  # whatever a session manager raises
            self._log.debug("The notebooks' names could not be read", exc_info=True)

    async def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _look(self) -> None:
        self._timer = None
        task = asyncio.get_running_loop().create_task(self.refresh())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
