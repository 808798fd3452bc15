"""How fast hosts are outlives the broker that learned it: kept once a minute, and at its end."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, Protocol

from jupyter_gpushare.broker.ledger import LedgerError

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.broker.ledger import Ledger
    from jupyter_gpushare.broker.pacing import Pacing

__all__ = ["PaceKeeping"]

_LOG: Final = logging.getLogger(__name__)
_EVERY_S: Final = 60.0


class _Asks(Protocol):
    async def __call__(self, question: Callable[[Ledger], Any], /) -> Any: ...


class PaceKeeping:
    """Of what one *pacing* learns. For one event loop.

    Args:
        pacing: learns it.
        ask: asks the ledger something, in its thread; may raise LedgerError.
    """

    def __init__(self, pacing: Pacing, ask: _Asks) -> None:
        self._pacing = pacing
        self._ask = ask

    async def remember(self) -> None:
        """Begin with what is kept."""
        self._pacing.know(await self._ask(lambda ledger: ledger.paces()))

    async def go_on(self) -> None:
        """Keep it every minute; for a task."""
        while True:
            await asyncio.sleep(_EVERY_S)
            await self.keep()

    async def keep(self) -> None:
        """Keep what is new; nothing depends on it but estimates, so that what cannot be kept now may be forgotten."""
        if not (news := self._pacing.take_news()):
            return
        try:
            await self._ask(lambda ledger: ledger.keep_paces(news))
        except LedgerError as error:
            _LOG.warning("How fast hosts are is not kept for now: %s", error)
