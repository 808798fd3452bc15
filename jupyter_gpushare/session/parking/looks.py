"""When it is looked whether kernels can be parked: often enough for every frame, and afresh for whoever asks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable

    from jupyter_gpushare.session.kernels import Kernel, Kernels
    from jupyter_gpushare.session.meter import Sample
    from jupyter_gpushare.session.parking.examination import Examiner
    from jupyter_gpushare.session.parking.parts import Examined
    from jupyter_gpushare.session.parking.previews import Previews

__all__ = ["Looks"]

_FRESH_S = 5.0


class Looks:
    """Keeps the previews fresh.

    Args:
        kernels: the server's kernels.
        ask: waits for a fresh sample.
        is_wanted: whether a kernel holds something that could be parked.
        previews: remember the answers; *examiner* gives them.
        log: where trouble goes.
    """

    def __init__(
        self,
        kernels: Kernels,
        *,
        ask: Callable[[], Awaitable[Sample]],
        is_wanted: Callable[[str], bool],
        previews: Previews,
        examiner: Examiner,
        log: logging.Logger,
    ) -> None:
        self._kernels = kernels
        self._ask = ask
        self._is_wanted = is_wanted
        self._previews = previews
        self._examiner = examiner
        self._log = log
        self._looking: dict[str, asyncio.Task[None]] = {}

    async def stop(self) -> None:
        """End, leaving no task behind."""
        tasks = list(self._looking.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def take(self, sample: Sample) -> None:
        """Look again where an answer is old, at kernels that hold something and are not moved."""
        if not sample.holds:
            return
        for kernel in self._kernels.all():
            if self._is_wanted(kernel.id) and kernel.id not in self._looking and self._previews.is_due(kernel.id):
                self._looking[kernel.id] = asyncio.get_running_loop().create_task(self._look_once(kernel))

    async def freshen(self) -> None:
        """Have a sample that knows what the kernels' last cells did, unless the devices do not answer."""
        # Always: that a cell began and ended may be heard of only after its page has asked for the release.
        try:
            await asyncio.wait_for(self._ask(), _FRESH_S)
        except (TimeoutError, RuntimeError):
            self._log.debug("The GPUs did not answer within %s s", _FRESH_S)

    async def look(self, kernel_id: str) -> Examined:
        """Whether a kernel can be parked, without touching it."""
        kernel = self._kernels.get(kernel_id)
        if kernel is not None:
            await self._refresh(kernel)
        return self._previews.of(kernel_id) or await self._examiner.look(kernel_id, None)

    async def _look_once(self, kernel: Kernel) -> None:
        try:
            await self._refresh(kernel)
        except Exception:  # noqa: BLE001  # a look that failed is tried again; it must not end anything
            self._log.debug("Looking whether kernel %s can be parked failed", kernel.id, exc_info=True)
        finally:
            self._looking.pop(kernel.id, None)

    async def _refresh(self, kernel: Kernel) -> None:
        await self._previews.refresh(kernel.id, idle_since=None if kernel.cells else kernel.idle_since)
