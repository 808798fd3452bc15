"""Asks one server's kernels to free what their GPU frameworks cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jupyter_gpushare.session.kernel_messages import FreeAnswer, request_free_cache

if TYPE_CHECKING:
    from jupyter_gpushare.session.kernels import Kernel

__all__ = ["CacheFreeing"]


@dataclass(frozen=True, slots=True)
class CacheFreeing:
    """Asks the kernels of *manager*, the server's kernel manager, and waits for each at most *timeout_s* seconds."""

    manager: Any
    timeout_s: float

    async def ask(self, kernel: Kernel, closing: str) -> FreeAnswer:
        """What came of it; *closing* names the gate that is being closed, empty for none."""
        return await request_free_cache(
            self.manager.get_kernel(kernel.id),
            collect=kernel.busy_since is None,
            timeout_s=self.timeout_s,
            closing=closing,
        )

    async def troubles(self, kernel: Kernel) -> list[str]:
        """What went wrong."""
        return (await self.ask(kernel, "")).troubles
