"""Parking as a level of release: the default one, as it loses nothing. Freed is what the devices attest."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from jupyter_gpushare.parking.verdict import NotParkable
from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.session.errors import refused_to_park
from jupyter_gpushare.session.parking.sentences import CELL_RUNNING, cannot_park
from jupyter_gpushare.session.release_sentences import Verdict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from jupyter_gpushare.session.kernels import Kernel
    from jupyter_gpushare.session.parking.parts import Examined, ParkOutcome

__all__ = ["ParkRelease"]

_PARKED = "{memory} safe in host memory. Run any cell and it returns."
_PARKED_SOME = "{memory} safe in host memory. Not parked: {others}"


class ParkRelease:
    """Parks kernels for a release.

    Args:
        freshen: makes sure that what the kernels' last cells did is known.
        look: whether a kernel can be parked, by what is known without touching it.
        is_running: whether its GPU state is where it was, and nobody wants anything else.
        park: has it parked, now or as soon as no cell runs.
        left: what kernels still hold, by the devices; None where that cannot be told.
    """

    def __init__(
        self,
        *,
        freshen: Callable[[], Awaitable[None]],
        is_running: Callable[[str], bool],
        look: Callable[[str], Awaitable[Examined]],
        park: Callable[[str, bool], asyncio.Future[ParkOutcome]],
        left: Callable[[Sequence[Kernel]], Awaitable[int | None]],
    ) -> None:
        self.freshen = freshen
        self._is_running = is_running
        self._look = look
        self._park = park
        self._left = left

    async def check(self, kernels: Sequence[Kernel], *, when_idle: bool) -> None:
        """Whether there is any use in trying.

        Raises:
            PublicError: 409 with the reason and what would help: none of *kernels* can be parked.
        """
        refusals = [await self._refusal(kernel, when_idle=when_idle) for kernel in kernels]
        if refusals and all(refusals) and refusals[0] is not None:
            raise refused_to_park(refusals[0])

    async def _refusal(self, kernel: Kernel, *, when_idle: bool) -> NotParkable | None:
        if not self._is_running(kernel.id):
            return None
        if kernel.cells:
            # What else may speak against it is looked at when the cell has ended.
            return None if when_idle else CELL_RUNNING
        verdict = (await self._look(kernel.id)).verdict
        if when_idle and kernel.cells:
            return None  # one has begun while we looked
        return verdict if isinstance(verdict, NotParkable) else None

    async def carry_out(self, kernels: Sequence[Kernel], *, when_idle: bool) -> Verdict:
        """Park them all at once; what came of it."""
        outcomes = await asyncio.gather(*(self._park(kernel.id, when_idle) for kernel in kernels))
        refused = [(kernel, out.refusal) for kernel, out in zip(kernels, outcomes, strict=True) if out.refusal]
        parked = [kernel for kernel, out in zip(kernels, outcomes, strict=True) if out.refusal is None]
        if not parked:
            return Verdict("failed", cannot_park(refused[0][1]), 0)
        memory = sum(outcome.memory for outcome in outcomes)
        left = await self._left(parked)
        freed = None if left is None else max(memory - left, 0)
        others = "; ".join(f"{kernel.label}: {refusal.reason.text}" for kernel, refusal in refused)
        values = {"memory": Memory(memory).human, "others": others}
        return Verdict("released", Message("PARKED", _PARKED_SOME if refused else _PARKED, values), freed)
