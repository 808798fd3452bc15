"""Random histories with their books in real databases: every step is committed, every crash reads them again.

A block plays a few histories on SQLite and the same ones on PostgreSQL. What a new broker finds must be what the one
before had committed, to the last field, and the audit must have each line once.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.ledger import EVER
from jupyter_gpushare.broker.memory_ledger import MemoryLedger
from jupyter_gpushare.broker.sql.ledger import SqlLedger
from jupyter_gpushare.rules.change import Change
from tests.broker.ledger.postgresql_server import PostgresqlServer
from tests.rules.histories import play

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Collection, Mapping, Sequence

    from jupyter_gpushare.broker.ledger import Recorded, Span
    from jupyter_gpushare.rules.snapshot import Snapshot
    from scripts.soak.record import Block

__all__ = ["GOAL", "NAME", "done", "run"]

NAME: Final = "ledgers"
#: Histories on each database.
GOAL: Final = 300
_HISTORIES: Final = 10
_ALL_LINES: Final = 1_000_000
_DATABASES: Final = ("sqlite", "postgresql")
#: The address of a new, empty database.
NewDatabase = Callable[[], str]


class Witnessed(MemoryLedger):
    """A ledger in a database beside this one in memory, made anew for every broker that takes it over."""

    def __init__(self, address: str, witness: Witness) -> None:
        super().__init__()
        self._address, self._witness = address, witness
        self._database: SqlLedger | None = None

    @property
    def database(self) -> SqlLedger:
        """The one that is open."""
        assert self._database is not None  # noqa: S101  # nobody uses it before taking over
        return self._database

    def take_over(self, incarnation: str) -> None:
        """A new broker: nothing of the one before is left but the database."""
        self.close()
        self._database = SqlLedger.open(self._address)
        self._database.take_over(incarnation)
        super().take_over(incarnation)
        self._witness.brokers += 1

    def load(self) -> Snapshot:
        """What the database says, compared with what was committed."""
        found = self.database.load()
        if found != _as_kept(super().load()):
            self._witness.violations.append("the ledger gives back other books than were committed")
        return found

    def commit(self, change: Change) -> None:
        """Keep it in both."""
        self.database.commit(change)
        super().commit(change)

    def audit(
        self,
        *,
        after: int = 0,
        limit: int = 1000,
        where: Mapping[str, str] | None = None,
        span: Span = EVER,
        projects: Collection[str] | None = None,
    ) -> Sequence[Recorded]:
        """What the database says, compared with what was committed."""
        found = self.database.audit(after=after, limit=limit, where=where, span=span, projects=projects)
        kept = super().audit(after=after, limit=limit, where=where, span=span, projects=projects)
        if list(found) != list(kept):
            self._witness.violations.append("the audit is not what was committed")
        return found

    def close(self) -> None:
        """Let go of the database."""
        if self._database is not None:
            self._database.close()


@dataclass
class Witness:
    """What all ledgers of one history went through."""

    new_database: NewDatabase
    ledgers: list[Witnessed] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    brokers: int = 0

    def make_ledger(self) -> Witnessed:
        """One more: at the beginning, and for each backup."""
        self.ledgers.append(Witnessed(self.new_database(), self))
        return self.ledgers[-1]

    def close(self) -> None:
        """Look once more at all of them."""
        for ledger in self.ledgers:
            ledger.load()
            ledger.audit(limit=_ALL_LINES)
            ledger.close()


async def run(block: Block, histories: int = _HISTORIES, databases: Sequence[str] = _DATABASES) -> None:
    """Some histories on each database."""
    await asyncio.to_thread(_run, block, histories, databases)


def done(counts: Counter[str]) -> int:
    """How much of the goal is reached."""
    return min(counts[f"histories on {name}"] for name in _DATABASES)


def _run(block: Block, histories: int, databases: Sequence[str]) -> None:
    with ExitStack() as stack:
        new = {name: _databases(name, stack) for name in databases}
        for number in range(histories):
            for name in databases:
                _play(block, block.seed * histories + number, name, new[name])


def _as_kept(books: Snapshot) -> Snapshot:
    """What a database must give back of *books*: what devices show is no matter of the books, and seen anew."""
    seen = [lease for lease in books.leases.values() if lease.uses is not None]
    return books.with_change(Change(leases={each.id: each.evolve(uses=None) for each in seen}))


def _databases(name: str, stack: ExitStack) -> NewDatabase:
    """What makes new ones, until *stack* is closed."""
    if name == "postgresql":
        return stack.enter_context(PostgresqlServer.running()).create_database
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    numbers = itertools.count(1)
    return lambda: f"sqlite:///{folder}/{next(numbers)}.sqlite"


def _play(block: Block, seed: int, name: str, new_database: NewDatabase) -> None:
    """One history, with its books in a database."""
    witness = Witness(new_database)
    world = play(seed, make_ledger=witness.make_ledger)
    witness.close()
    for violation in world.violations + witness.violations:
        block.violated(f"history {seed} on {name}: {violation}")
    block.counts[f"histories on {name}"] += 1
    block.counts["steps"] += world.steps
    block.counts["brokers that read their books"] += witness.brokers
    block.counts["backups restored"] += len(witness.ledgers) - 1
