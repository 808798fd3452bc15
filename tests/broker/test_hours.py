"""GPU-hours go to the ledger once a minute, and dashboards do not ask it more often than that."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from jupyter_gpushare.broker.accounting import Accountant
from jupyter_gpushare.broker.clock import VirtualClock
from jupyter_gpushare.broker.hours import Hours
from jupyter_gpushare.broker.ledger import LedgerError
from jupyter_gpushare.broker.memory_ledger import MemoryLedger
from tests.rules.builders import books, running, session

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.broker.ledger import Ledger

_T = TypeVar("_T")
BOOKS = books(running(session("s"), "h1-0"))


class Site:
    """A ledger that may fail, and counts how often it is asked."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.ledger = MemoryLedger()
        self.ledger.take_over("me")
        self.asked = 0
        self.is_away = False
        accountant = Accountant()
        accountant.advance(BOOKS, self.clock.now())
        self.hours = Hours(accountant, lambda: BOOKS, self.clock, self.ask)

    async def ask(self, question: Callable[[Ledger], _T]) -> _T:
        self.asked += 1
        if self.is_away:
            raise LedgerError("the disk is full")
        return question(self.ledger)

    async def held(self) -> float:
        """Half a GPU is held all the time."""
        found = await self.hours.by_project()
        return round(found["team-a"].held, 6) if found else 0.0


async def ten_minutes(site: Site) -> None:
    """Pass, and what came together in them is kept."""
    site.clock.advance(600)
    await site.hours.keep()


def test_what_is_kept_is_asked_for_once() -> None:
    """Until there is more of it."""

    async def story() -> None:
        site = Site()
        await ten_minutes(site)
        asked = site.asked
        assert [await site.held() for _ in range(5)] == [round(1 / 12, 6)] * 5
        assert site.asked == asked + 1
        await ten_minutes(site)
        assert await site.held() == round(2 / 12, 6)

    asyncio.run(story())


def test_a_ledger_that_is_away_loses_no_hours() -> None:
    """They are kept with the next, and nothing is said meanwhile rather than something old taken for new."""

    async def story() -> None:
        site = Site()
        site.is_away = True
        await ten_minutes(site)
        assert await site.held() == 0
        site.is_away = False
        await ten_minutes(site)
        assert await site.held() == round(2 / 12, 6)

    asyncio.run(story())
