"""The part of a ledger in a database that is not the books: see `past` for its statements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.broker.ledger_guards import check_ask, check_memberships, check_past
from jupyter_gpushare.broker.sql import past

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from sqlalchemy import Connection

    from jupyter_gpushare.broker.ledger_records import Ask, AskState, Idle, Membership, Moment

__all__ = ["BesideBooks"]


class BesideBooks:
    """What `SqlLedger` inherits. Its heir gives transactions, and says who may write."""

    def _transaction(
        self, *, is_writing: bool = False, is_repeatable: bool = False
    ) -> AbstractContextManager[Connection]:
        """One transaction."""
        raise NotImplementedError

    def _check_leader(self, connection: Connection) -> str:
        """Raise NotLeaderError if another writer has taken over; else hold the right to write."""
        raise NotImplementedError

    def prune_audit(self, before: float) -> int:
        """Forget the lines that are older than *before*."""
        with self._transaction(is_writing=True) as connection:
            self._check_leader(connection)
            return past.prune_audit(connection, before)

    def keep_memberships(self, memberships: Mapping[str, Membership]) -> None:
        """Keep the groups of these people, by name."""
        check_memberships(memberships)
        if not memberships:
            return
        with self._transaction(is_writing=True) as connection:
            self._check_leader(connection)
            past.write_memberships(connection, memberships)

    def memberships(self) -> Mapping[str, Membership]:
        """The groups of people, by name."""
        with self._transaction() as connection:
            return past.read_memberships(connection)

    def add_ask(self, ask: Ask) -> Ask:
        """Keep an ask, with the number that it gets."""
        check_ask(ask)
        with self._transaction(is_writing=True) as connection:
            self._check_leader(connection)
            return past.add_ask(connection, ask)

    def decide_ask(self, decided: Ask) -> bool:
        """Keep how the ask of that number was decided; whether it was open until now."""
        check_ask(decided)
        with self._transaction(is_writing=True) as connection:
            self._check_leader(connection)
            return past.decide_ask(connection, decided)

    def asks(self, *, number: int | None = None, state: AskState | None = None, limit: int = 1000) -> Sequence[Ask]:
        """The newest asks, newest first."""
        with self._transaction() as connection:
            return past.read_asks(connection, number, state, limit)

    def add_past(self, moments: Sequence[Moment], idles: Sequence[Idle]) -> None:
        """Add to what each moment, and each hour, project and pool, has already."""
        check_past([*moments, *idles])
        if not moments and not idles:
            return
        with self._transaction(is_writing=True) as connection:
            self._check_leader(connection)
            past.add_past(connection, moments, idles)

    def moments(self, *, since: float) -> Sequence[Moment]:
        """What the GPUs did in the moments that begin then or later, oldest first."""
        with self._transaction() as connection:
            return past.read_moments(connection, since)

    def idles(self, *, since: float) -> Sequence[Idle]:
        """What ran idle in the hours that begin then or later: one for each project and pool, with its first hour."""
        with self._transaction() as connection:
            return past.read_idles(connection, since)

    def prune_past(self, *, moments: float, idles: float) -> None:
        """Forget moments, and idle hours, that began before then."""
        with self._transaction(is_writing=True) as connection:
            self._check_leader(connection)
            past.prune_past(connection, moments, idles)
