"""A virtual clock, the product's rules, and holders that do what their lease says."""

from __future__ import annotations

import heapq
import itertools
import time
from typing import TYPE_CHECKING, Protocol

from jupyter_gpushare.rules.event import TimePassed
from jupyter_gpushare.rules.step import step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jupyter_gpushare.rules.event import Event
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot
    from jupyter_gpushare.rules.step import Step

__all__ = ["Holder", "StuckError", "World"]

_MOST_ROUNDS = 10_000


class StuckError(RuntimeError):
    """Rules and holders go round in a circle and time does not pass."""


class Holder(Protocol):
    """One that holds or wants a lease."""

    def changed(self, lease: Lease) -> None:
        """Its lease is *lease* now. It answers through `World.tell`, at once or later."""


class World:
    """Events at their times, then decisions, then what holders make of them. Times are seconds since the epoch."""

    def __init__(self, books: Snapshot, decide: Callable[[Snapshot, Iterable[Event], float], Step] = step) -> None:
        self.books = books
        self.now = 0.0
        self.holders: dict[str, Holder] = {}
        self.watchers: list[Callable[[Step], None]] = []
        self.decision_s: list[float] = []
        self._decide = decide
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._number = itertools.count()
        self._told: list[Event] = []
        self._look_again: float | None = None

    def at(self, when: float, action: Callable[[], None]) -> None:
        """Do *action* at that time, or now if it has passed."""
        heapq.heappush(self._agenda, (max(when, self.now), next(self._number), action))

    def after(self, delay_s: float, action: Callable[[], None]) -> None:
        """Do *action* in *delay_s* seconds."""
        self.at(self.now + delay_s, action)

    def tell(self, event: Event) -> None:
        """Let the rules know, at this very time and after everything else that happens at it."""
        self._told.append(event)

    def run(self, until: float = float("inf")) -> None:
        """Let time pass *until* then, or until nothing is left to happen."""
        while self._agenda and self._agenda[0][0] <= until:
            self.now = self._agenda[0][0]
            while self._agenda and self._agenda[0][0] <= self.now:
                heapq.heappop(self._agenda)[2]()
            self._settle()

    def _settle(self) -> None:
        for _ in range(_MOST_ROUNDS):
            if not self._told:
                return
            told, self._told = self._told, []
            self._take(told)
        raise StuckError(f"{_MOST_ROUNDS} rounds at {self.now} s; the last events: {self._told[:5]}")

    def _take(self, told: list[Event]) -> None:
        began = time.perf_counter()
        result = self._decide(self.books, told, self.now)
        self.decision_s.append(time.perf_counter() - began)
        self.books = result.snapshot
        self._wake_at(result.look_again)
        for watcher in self.watchers:
            watcher(result)
        for key, lease in result.change.leases.items():
            holder = self.holders.get(key)
            if holder is not None:
                holder.changed(lease)

    def _wake_at(self, when: float | None) -> None:
        """Keep the one next look that the rules asked for last; one that is no longer wanted does no harm."""
        if when is not None and when != self._look_again:
            self.at(when, lambda: self._look(when))
        self._look_again = when

    def _look(self, when: float) -> None:
        if self._look_again == when:
            self._look_again = None
            self.tell(TimePassed())
