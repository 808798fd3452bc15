"""Parked kernels and those who end what is idle: Jupyter Server's own culling, and a hub's.

A parked kernel looks idle, and is not abandoned: its owner was promised that nothing is lost.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from jupyter_core.utils import ensure_async

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

__all__ = ["Culling"]

_SOURCE = "jupyter_gpushare_parked"


class Culling:
    """Keeps parked kernels from being ended for looking idle.

    Args:
        manager: the server's kernel manager.
        settings: the web application's settings, where a server's last activity is gathered.
        is_parked: whether a kernel's GPU state is off its device.
        hold_s: for how many seconds since it was parked a kernel keeps the whole server from looking idle.
        log: hears what was held.
    """

    def __init__(
        self,
        manager: Any,
        settings: dict[str, Any],
        *,
        is_parked: Callable[[str], bool],
        hold_s: float,
        log: logging.Logger,
    ) -> None:
        self._manager = manager
        self._settings = settings
        self._is_parked = is_parked
        self._hold_s = hold_s
        self._log = log
        self._held: set[str] = set()
        self._expired: set[float] = set()

    def install(self) -> None:
        """Stand before the server's culling."""
        cull = getattr(self._manager, "cull_kernel_if_idle", None)
        if cull is None:
            return
        if getattr(self._manager, "cull_idle_timeout", 0) > 0:
            self._log.warning(
                "Idle kernels are culled after %s s; parked ones are held: they hold no GPU and lose nothing",
                self._manager.cull_idle_timeout,
            )

        async def cull_kernel_if_idle(kernel_id: str) -> None:
            if not self._is_parked(kernel_id):
                self._held.discard(kernel_id)
                await ensure_async(cull(kernel_id))
            elif kernel_id not in self._held:
                self._held.add(kernel_id)
                self._log.info("Kernel %s is parked and therefore not culled", kernel_id)

        self._manager.cull_kernel_if_idle = cull_kernel_if_idle

    def look(self, parked_since: list[float]) -> None:
        """Take note of the kernels that are parked, by when they were; called now and then while any is."""
        now = time.time()
        held = [since for since in parked_since if now - since < self._hold_s]
        for since in set(parked_since) - set(held) - self._expired:
            self._expired.add(since)
            self._log.info("A kernel has been parked for %.0f s: it keeps this server no longer", now - since)
        self._expired &= set(parked_since)
        if held:
            self._settings.setdefault("last_activity_times", {})[_SOURCE] = datetime.now(tz=UTC)
