"""What a light holder wants in turn, as people and programs do."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.client import BrokerAway, BrokerError

if TYPE_CHECKING:
    from scripts.soak.broker_holders import Holder
    from scripts.soak.record import Block

__all__ = ["Turns"]

_ENDS: Final = 0.15
_CHANGES_SHARE: Final = 0.2
_IS_CLUMSY: Final = 0.1
_ANSWER_S: Final = 60.0


class Turns:
    """One holder's wishes, one after the other until *quiet* is set."""

    def __init__(self, block: Block, holder: Holder, quiet: asyncio.Event) -> None:
        self._block, self._holder, self._quiet = block, holder, quiet
        self._choose = random.Random(f"{block.seed} {holder.name}")  # noqa: S311  # a seed repeats the block

    async def take(self) -> None:
        """Go on until all is to be quiet."""
        while not self._quiet.is_set():
            try:
                await self._turn()
            except TimeoutError as trouble:
                self._block.violated(f"stuck: {trouble or self._holder.told()}")

    async def _turn(self) -> None:
        holder = self._holder
        holder.renew()
        await self._until("running")
        await asyncio.sleep(self._choose.uniform(0, 0.4))
        if holder.status != "running" or holder.is_gone:
            return
        if self._choose.random() < _ENDS:
            holder.end()
            await self._until("ended")
        elif holder.kind == "interactive":
            await self._park_and_resume()

    async def _park_and_resume(self) -> None:
        holder = self._holder
        if self._choose.random() < _CHANGES_SHARE and holder.lease is not None:
            await self._change_share("0.5" if holder.lease.share == "0.25" else "0.25")
        holder.is_clumsy = self._choose.random() < _IS_CLUMSY
        holder.want("parked")
        await asyncio.sleep(self._choose.uniform(0, 0.8))
        if not holder.holding.is_over:
            holder.want("running")
            await self._until("running")

    async def _change_share(self, share: str) -> None:
        try:
            await asyncio.wait_for(self._holder.holding.want_share(share), _ANSWER_S)
        except (BrokerError, BrokerAway) as refusal:
            self._block.counts[f"share refused: {getattr(refusal, 'code', 'away')}"] += 1

    async def _until(self, status: str) -> None:
        """Wait for *status*; a job may wait for ever, and a holder may be gone."""
        while not self._quiet.is_set() and not self._holder.is_gone:
            try:
                await self._holder.until(status, deadline_s=1.0)
            except TimeoutError:
                continue
            return
