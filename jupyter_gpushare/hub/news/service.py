"""News of a broker to whoever the admin's file names: what it decides is told, and never waits for that."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from jupyter_gpushare.broker.ledger import LedgerError
from jupyter_gpushare.hub.news.courier import Courier, Pauses
from jupyter_gpushare.hub.news.figures import NewsFigures
from jupyter_gpushare.hub.news.idleness import IdleWatch
from jupyter_gpushare.hub.news.outbox import Outbox
from jupyter_gpushare.hub.news.wording import VERBS_OF, news_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from msgspec import UnsetType

    from jupyter_gpushare.broker.news_configuration import NewsHook
    from jupyter_gpushare.broker.reconciler import Published
    from jupyter_gpushare.broker.service import Broker
    from jupyter_gpushare.hub.news.wording import News
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.pool import Pool

__all__ = ["NewsService"]

_LOG: Final = logging.getLogger(__name__)
_LOOK_EVERY_S: Final = 5.0
#: So many lines of each kind are read at once.
_LINES: Final = 100


@dataclass(slots=True)
class _Line:
    """One hook: who delivers, and how far its part of the audit was read."""

    courier: Courier
    task: asyncio.Task[None]
    read: int
    is_behind: bool = True

    @property
    def hook(self) -> NewsHook:
        """What the file says."""
        return self.courier.hook

    @property
    def verbs(self) -> frozenset[str]:
        """What its news are found under in the audit."""
        return frozenset(verb.value for event in self.hook.events for verb in VERBS_OF[event])


class NewsService:
    """Follows one broker, and its configuration. For one event loop; `start` when the broker has started, then `stop`.

    Args:
        broker: whose news they are.
        is_kept: whether an owner has said that the share of a lease is to be kept, so that it will not be parked.
        parks_at: when a lease's own session will have it parked; None where it will not, unset where it does not say.
        pauses: how long to wait after an attempt that failed.
        look_every_s: how often to look for what no commit tells.
    """

    def __init__(
        self,
        broker: Broker,
        *,
        is_kept: Callable[[Lease], bool] = lambda _lease: False,
        parks_at: Callable[[Lease], float | UnsetType | None] = lambda _lease: UNSET,
        pauses: Pauses | None = None,
        look_every_s: float = _LOOK_EVERY_S,
    ) -> None:
        self._broker = broker
        self._pauses = pauses or Pauses()
        self._look_every_s = look_every_s
        self._figures = NewsFigures(broker.metrics.registry)
        self._idle = IdleWatch(is_kept, self._park_after_s, parks_at)
        self._outbox = Outbox(broker.settings.state / "news.json", broker.ask_ledger)
        self._lines: dict[str, _Line] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] = lambda: None
        self._is_failing = False

    def start(self) -> None:
        """Begin."""
        self._idle.see(self._broker.books.leases.values())
        self._unsubscribe = self._broker.reconciler.subscribe(self._published)
        self._task = asyncio.get_running_loop().create_task(self._go_on())

    async def stop(self) -> None:
        """End. What is not told yet is told after the next start."""
        self._unsubscribe()
        self._unsubscribe = lambda: None
        tasks = [line.task for line in self._lines.values()] + ([] if self._task is None else [self._task])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._lines.clear()
        if self._task is not None:
            self._task = None
            self._figures.withdraw()

    def _park_after_s(self, pool: Pool, lease: Lease) -> float | None:
        return self._broker.configured.now.culling.limits(pool.name, str(lease.share)).park_after_s

    def _published(self, published: Published) -> None:
        self._idle.see(published.change.leases.values())
        verbs = {entry.verb.value for entry in published.change.audit}
        for line in self._lines.values():
            if not verbs.isdisjoint(line.verbs):
                line.is_behind = True
                self._wake.set()

    async def _go_on(self) -> None:
        await self._outbox.remember()
        while True:
            self._wake.clear()
            try:
                await self._look()
            except LedgerError as error:
                if not self._is_failing:
                    _LOG.warning("News are told when the ledger can be read again: %s", error)
                self._is_failing = True
            except Exception:  # noqa: BLE001  # news that stopped would go unnoticed for long
                _LOG.exception("Looking for news failed; it is tried again")
            else:
                self._is_failing = False
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._look_every_s):
                    await self._wake.wait()

    async def _look(self) -> None:
        await self._follow_configuration()
        for news in self._idle.due(self._broker.books, self._broker.clock.now()):
            for line in self._lines.values():
                if news.event in line.hook.events:
                    line.courier.take(news)
        for line in self._lines.values():
            if line.is_behind:
                await self._read(line)

    async def _follow_configuration(self) -> None:
        wished = {hook.name: hook for hook in self._broker.configured.now.news}
        for name, line in list(self._lines.items()):
            if wished.get(name) != line.hook:
                del self._lines[name]
                line.task.cancel()
                await asyncio.gather(line.task, return_exceptions=True)
                self._figures.forget(name)
        await self._outbox.keep_only(wished)
        for name, hook in wished.items():
            if name not in self._lines:
                await self._add(hook)

    async def _add(self, hook: NewsHook) -> None:
        await self._outbox.begin(hook.name)

        async def delivered(news: News) -> None:
            await self._delivered(hook.name, news)

        courier = Courier(hook, self._broker.clock, self._figures, delivered=delivered, pauses=self._pauses)
        task = asyncio.get_running_loop().create_task(courier.go_on())
        self._lines[hook.name] = _Line(courier, task, self._outbox.heard(hook.name))

    async def _read(self, line: _Line) -> None:
        """Have what is new delivered, as far as there is room; the rest when there is."""
        verbs = line.verbs
        limit = min(_LINES, line.courier.room // max(1, len(verbs)))
        if limit < 1:
            return
        line.is_behind = False
        try:
            found, upto = await self._outbox.read(line.read, verbs, limit)
        except LedgerError:
            line.is_behind = True
            raise
        line.is_behind |= len(found) >= limit
        line.read = upto
        leases = self._broker.books.leases
        told = [news for each in found if (news := news_of(each, leases.get(each.entry.lease))) is not None]
        told = [news for news in told if news.event in line.hook.events]
        for news in told:
            line.courier.take(news)
        if line.is_behind:
            self._wake.set()
        if not told and line.courier.is_idle:
            await self._outbox.tell(line.hook.name, upto)

    async def _delivered(self, hook: str, news: News) -> None:
        line = self._lines.get(hook)
        if line is None:
            return
        # Nothing of what was read is on its way any more: then all of it is told, also what was no news.
        await self._outbox.tell(hook, line.read if line.courier.is_idle else news.number)
        if line.is_behind:
            self._wake.set()
