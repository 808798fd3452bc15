"""The product's reconciler with books in memory, driven by the replay's clock: decide, keep, publish."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any, Final, Self

from jupyter_gpushare.broker.clock import VirtualClock
from jupyter_gpushare.broker.memory_ledger import MemoryLedger
from jupyter_gpushare.broker.reconciler import Published, Reconciler
from jupyter_gpushare.rules.change import Change
from jupyter_gpushare.rules.looking import look_again
from jupyter_gpushare.rules.snapshot import Snapshot
from jupyter_gpushare.rules.step import Step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from jupyter_gpushare.rules.event import Event

__all__ = ["Reconciled"]

_PARTS: Final = ("projects", "pools", "hosts", "devices", "leases")


class Reconciled:
    """Stands where `rules.step.step` stands, and gives what was published. For one thread without a running loop."""

    def __init__(self, books: Snapshot) -> None:
        self._loop = asyncio.new_event_loop()
        self._clock = _SilentClock(0.0)
        self._published: list[Change] = []
        self._rows = _Rows(books)
        self._reconciler = Reconciler(self._rows, _InPlace(), books, self._clock)
        self._reconciler.subscribe(self._hear)

    def __enter__(self) -> Self:
        self._loop.run_until_complete(self._start())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.run_until_complete(self._reconciler.stop())
        self._loop.close()
        if kind is None and self._rows.load() != self._reconciler.committed:
            raise RuntimeError("what was kept step by step is not what the rules ended with: a mistake in the rules")

    def __call__(self, _: Snapshot, events: Iterable[Event], now: float) -> Step:
        """Have *events* decided on and kept at *now*."""
        self._clock.advance(max(0.0, now - self._clock.now()))
        self._loop.run_until_complete(self._reconciler.submit(list(events)))
        changes, self._published = self._published, []
        change = Change()
        for each in changes:
            change = change.then(each)
        return Step(self._reconciler.committed, change, self._look_again(now))

    def _look_again(self, now: float) -> float | None:
        made = self._reconciler
        return made.look_again if made.committed is made.snapshot else look_again(made.committed, now)

    async def _start(self) -> None:
        self._reconciler.start()

    def _hear(self, published: Published) -> None:
        self._published.append(published.change)


class _Rows(MemoryLedger):
    """The books as rows, as databases have them: a commit costs what the change is large, and lines are not kept."""

    def __init__(self, books: Snapshot) -> None:
        super().__init__()
        self._parts: dict[str, dict[str, Any]] = {name: dict(getattr(books, name)) for name in _PARTS}

    def load(self) -> Snapshot:
        """The books as they were committed last."""
        parts: dict[str, Any] = {name: rows.values() for name, rows in self._parts.items()}
        return Snapshot.of(**parts)

    def commit(self, change: Change) -> None:
        """Keep the whole of *change*."""
        for name, rows in self._parts.items():
            for key, row in getattr(change, name).items():
                if row is None or (name == "leases" and row.is_over):
                    rows.pop(key, None)
                else:
                    rows[key] = row


class _SilentClock(VirtualClock):
    """Rings for nobody: the replay looks again itself, and a second look at the same moment finds nothing."""

    async def until(self, at: float) -> None:  # noqa: ARG002  # of the clock's shape
        await asyncio.get_running_loop().create_future()


class _InPlace(Executor):
    """Runs everything at once: there is no time in a replay that a thread could save."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  # whoever waits for it gets it
            done.set_exception(error)
        return done
