"""GPU-hours, kept once a minute: added up in memory meanwhile, and asked of the ledger no more often than that."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from jupyter_gpushare.broker.ledger import LedgerError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jupyter_gpushare.broker.accounting import Accountant
    from jupyter_gpushare.broker.clock import Clock
    from jupyter_gpushare.broker.ledger import Ledger, UsageHours
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["Hours"]

_LOG: Final = logging.getLogger(__name__)
_EVERY_S: Final = 60.0
_MONTH_S: Final = 30 * 86400.0
_T = TypeVar("_T")


class _Asks(Protocol):
    async def __call__(self, question: Callable[[Ledger], _T], /) -> _T: ...


class Hours:
    """Keeps what an accountant adds up, and says what came together. For one event loop.

    Args:
        accountant: adds them up.
        books: the newest books that are kept.
        clock: what time it is.
        ask: asks the ledger something, in its thread; may raise LedgerError.
        kept: hears what was kept, each hour of each person once.
    """

    def __init__(
        self,
        accountant: Accountant,
        books: Callable[[], Snapshot],
        clock: Clock,
        ask: _Asks,
        kept: Callable[[Sequence[UsageHours]], None] = lambda _usage: None,
    ) -> None:
        self._accountant = accountant
        self._books = books
        self._clock = clock
        self._ask = ask
        self._kept = kept
        self._known: Mapping[str, UsageHours] | None = None

    async def go_on(self) -> None:
        """Keep them every minute; for a task."""
        while True:
            await asyncio.sleep(_EVERY_S)
            await self.keep()

    async def keep(self) -> None:
        """Keep what came together since the last time; later if that cannot be now."""
        self._accountant.advance(self._books(), self._clock.now())
        usage = self._accountant.take()
        self._known = None
        if not usage:
            return
        try:
            await self._ask(lambda ledger: ledger.add_usage(usage))
        except LedgerError as error:
            self._accountant.put_back(usage)
            _LOG.warning("GPU-hours are kept later: %s", error)
            return
        self._kept(usage)

    async def by_project(self) -> Mapping[str, UsageHours]:
        """Those of the last 30 days, as they were kept last; of no project while the ledger cannot say."""
        if self._known is not None:
            return self._known
        now = self._clock.now()
        try:
            found = await self._ask(lambda ledger: ledger.usage_of_projects(since=now - _MONTH_S, until=now + 1))
        except LedgerError:
            return {}
        self._known = {each.project: each for each in found}
        return self._known
