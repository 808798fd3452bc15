"""The product's reconciler with books in memory, driven by the replay's clock: decide, keep, publish."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any, Self

from jupyter_gpushare.broker.clock import VirtualClock
from jupyter_gpushare.broker.memory_ledger import MemoryLedger
from jupyter_gpushare.broker.reconciler import Published, Reconciler
from jupyter_gpushare.rules.change import Change
from jupyter_gpushare.rules.looking import look_again
from jupyter_gpushare.rules.step import Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from jupyter_gpushare.rules.event import Event
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["Reconciled"]


class Reconciled:
    """Stands where `rules.step.step` stands, and gives what was published. For one thread without a running loop."""

    def __init__(self, books: Snapshot) -> None:
        self._loop = asyncio.new_event_loop()
        self._clock = VirtualClock(0.0)
        self._published: list[Change] = []
        self._ledger = MemoryLedger()
        self._ledger.take_over("replay")
        self._ledger.commit(_everything(books))
        self._reconciler = Reconciler(self._ledger, _InPlace(), books, self._clock)
        self._reconciler.subscribe(self._hear)

    def __enter__(self) -> Self:
        self._loop.run_until_complete(self._start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.run_until_complete(self._reconciler.stop())
        self._loop.close()

    def __call__(self, _: Snapshot, events: Iterable[Event], now: float) -> Step:
        """Have *events* decided on and kept at *now*."""
        self._clock.advance(max(0.0, now - self._clock.now()))
        self._loop.run_until_complete(self._reconciler.submit(list(events)))
        changes, self._published = self._published, []
        change = Change()
        for each in changes:
            change = change.then(each)
        books = self._reconciler.committed
        return Step(books, change, look_again(books, now))

    async def _start(self) -> None:
        self._reconciler.start()

    def _hear(self, published: Published) -> None:
        self._published.append(published.change)


class _InPlace(Executor):
    """Runs everything at once: there is no time in a replay that a thread could save."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  # whoever waits for it gets it
            done.set_exception(error)
        return done


def _everything(books: Snapshot) -> Change:
    return Change(
        projects=dict(books.projects),
        pools=dict(books.pools),
        hosts=dict(books.hosts),
        devices=dict(books.devices),
        leases=dict(books.leases),
    )
