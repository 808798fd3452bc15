"""What a job uses, told to the broker every ten seconds: the memory that it holds, and the GPU time it computed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from jupyter_gpushare.training.child import Child
    from jupyter_gpushare.training.gpu_state import GpuState
    from jupyter_gpushare.training.held import Held

__all__ = ["EVERY_S", "Usage"]

EVERY_S: Final = 10.0


class Usage:
    """Reports of one job. Utilisation over the time since the last report stands for what was computed in it."""

    def __init__(self, gpu: GpuState) -> None:
        self._gpu = gpu
        self._reported_at = time.monotonic()

    async def report(self, held: Held, child: Child) -> None:
        """Look and tell, if it is time to."""
        passed_s = time.monotonic() - self._reported_at
        if passed_s < EVERY_S:
            return
        self._reported_at = time.monotonic()
        used = await self._gpu.used(child.family())
        held.report(used.memory, None if used.computing is None else used.computing * passed_s)
