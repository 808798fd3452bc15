"""The ledger in a database."""

from __future__ import annotations

import uuid
from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Self, cast

from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError

from jupyter_gpushare.broker.ledger import EVER, LedgerError, NotLeaderError, Recorded, UsageHours
from jupyter_gpushare.broker.ledger_guards import check_change, check_columns, check_paces, check_usage
from jupyter_gpushare.broker.sql import rows, schema
from jupyter_gpushare.broker.sql.beside import BesideBooks
from jupyter_gpushare.broker.sql.failures import explain_failure
from jupyter_gpushare.broker.sql.opening import WRITING, open_engine, place_of
from jupyter_gpushare.broker.sql.upgrade import upgrade
from jupyter_gpushare.broker.sql.writing import add_usage, write_change, write_leader, write_paces
from jupyter_gpushare.rules.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from sqlalchemy import Connection, CursorResult, Engine, Table

    from jupyter_gpushare.broker.ledger import Span
    from jupyter_gpushare.broker.sql.opening import LedgerFile
    from jupyter_gpushare.rules.change import Change, Entry
    from jupyter_gpushare.rules.pace import Pace

__all__ = ["SqlLedger"]

_PATIENCE_S: Final = 5.0


class SqlLedger(BesideBooks):
    """A `Ledger` in SQLite or PostgreSQL. Make one with `open`.

    Every commit checks in its own transaction that this is still the one writer.
    """

    def __init__(self, engine: Engine, file: LedgerFile | None = None) -> None:
        self.engine = engine
        self._file = file
        self._incarnation = ""
        # Commits whose end was never heard of, by their token, each with its lines of the audit.
        self._unsure: dict[str, tuple[Entry, ...]] = {}

    @classmethod
    def open(cls, address: str, *, patience_s: float = _PATIENCE_S) -> Self:
        """The ledger at *address*, such as ``sqlite:////var/lib/gpushare/broker.sqlite``, upgraded to what we know.

        Args:
            address: an SQLAlchemy URL of SQLite or PostgreSQL; a file that is missing is made.
            patience_s: how long to wait for another program's lock.

        Raises:
            LedgerError: it cannot be used, or a newer version has written it.
        """
        engine, file = open_engine(address, patience_s)
        ledger = cls(engine, file)
        try:
            with ledger._explained():
                upgrade(engine)
        except LedgerError:
            ledger.close()
            raise
        return ledger

    @property
    def place(self) -> str:
        """Where it is, for people, without a password."""
        return place_of(self.engine)

    def take_over(self, incarnation: str) -> None:
        """Be the one writer from now on."""
        with self._transaction(is_writing=True) as connection:
            write_leader(connection, incarnation)
        self._incarnation = incarnation

    def load(self) -> Snapshot:
        """The books as they were committed last."""
        with self._transaction(is_repeatable=True) as connection:
            return _read(connection)

    def commit(self, change: Change) -> None:
        """Keep the whole of *change*, durably, or nothing of it."""
        check_change(change)
        token = uuid.uuid4().hex
        with self._transaction(is_writing=True) as connection:
            known = self._unsure.get(self._check_leader(connection), ())
            entries = change.audit[len(known) :] if change.audit[: len(known)] == known else change.audit
            write_change(connection, change, entries, token)
            self._unsure[token] = change.audit
        self._unsure.clear()

    def audit(
        self,
        *,
        after: int = 0,
        limit: int = 1000,
        where: Mapping[str, str] | None = None,
        span: Span = EVER,
        projects: Collection[str] | None = None,
    ) -> Sequence[Recorded]:
        """Lines with a number above *after*, in the order of *span*."""
        wanted = dict(where or {})
        check_columns(wanted)
        columns = schema.audit.c
        order = columns.number.desc() if span.newest_first else columns.number
        query = select(schema.audit).where(columns.number > after).order_by(order).limit(max(0, limit))
        for name, value in wanted.items():
            query = query.where(columns[name] == value)
        if projects is not None:
            query = query.where(columns.project.in_(sorted(projects)))
        if span.before is not None:
            query = query.where(columns.number < span.before)
        if span.since is not None:
            query = query.where(columns.at >= span.since)
        if span.until is not None:
            query = query.where(columns.at < span.until)
        with self._transaction() as connection:
            lines = _mappings(connection.execute(query))
            return [Recorded(line["number"], rows.entry_of(line)) for line in lines]

    def add_usage(self, usage: Sequence[UsageHours]) -> None:
        """Add to what each hour, project and person has already."""
        check_usage(usage)
        if not usage:
            return
        with self._transaction(is_writing=True) as connection:
            self._check_leader(connection)
            add_usage(connection, usage)

    def usage(self, *, since: float, until: float) -> Sequence[UsageHours]:
        """What was used in the hours that begin in that time."""
        columns = schema.usage.c
        query = select(schema.usage).where(columns.hour >= since, columns.hour < until)
        with self._transaction() as connection:
            found = connection.execute(query.order_by(columns.hour, columns.project, columns.person)).mappings()
            return [UsageHours(**each) for each in found]

    def usage_of_projects(self, *, since: float, until: float) -> Sequence[UsageHours]:
        """The same, summed up: one for each project, with its first hour and no person."""
        columns = schema.usage.c
        sums = [func.sum(columns[name]).label(name) for name in ("held", "handed_back", "lent", "computed")]
        query = select(func.min(columns.hour).label("hour"), columns.project, *sums)
        query = query.where(columns.hour >= since, columns.hour < until).group_by(columns.project)
        with self._transaction() as connection:
            found = connection.execute(query.order_by(columns.project)).mappings()
            return [UsageHours(**each, person="") for each in found]

    def keep_paces(self, paces: Mapping[str, Pace]) -> None:
        """Keep how fast these hosts are, by name."""
        check_paces(paces)
        if not paces:
            return
        with self._transaction(is_writing=True) as connection:
            self._check_leader(connection)
            write_paces(connection, paces)

    def paces(self) -> Mapping[str, Pace]:
        """How fast hosts were, by name."""
        with self._transaction() as connection:
            return dict(map(rows.pace_of, _all(connection, schema.paces)))

    def close(self) -> None:
        """Let go of it."""
        self.engine.dispose()

    def _check_leader(self, connection: Connection) -> str:
        """The token of the last commit; holds the right to write until the transaction ends."""
        query = select(schema.writer.c.incarnation, schema.writer.c.last_commit).with_for_update()
        found = connection.execute(query).one_or_none()
        if found is None or not self._incarnation or found.incarnation != self._incarnation:
            raise NotLeaderError(f"Another broker has taken over the ledger {self.place}; this one stops.")
        return str(found.last_commit)

    @contextmanager
    def _transaction(self, *, is_writing: bool = False, is_repeatable: bool = False) -> Iterator[Connection]:
        options: dict[str, Any] = {WRITING: is_writing}
        if is_repeatable and self.engine.dialect.name == "postgresql":
            options["isolation_level"] = "REPEATABLE READ"
        with self._explained(is_reading=not is_writing):
            if self._file is not None:
                self._file.check()
            with self.engine.connect().execution_options(**options) as connection, connection.begin():
                yield connection

    @contextmanager
    def _explained(self, *, is_reading: bool = False) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            raise explain_failure(error, self.place) from error
        except (ValueError, KeyError, TypeError) as error:
            if not is_reading:
                raise
            # Rows that say nonsense: nobody but a damaged disk or a stranger's hand writes such.
            raise LedgerError(
                f"The ledger {self.place} is damaged ({error}). "
                "Put its last backup in its place and start the broker again; holders bring their leases."
            ) from error


def _read(connection: Connection) -> Snapshot:
    members: defaultdict[str, list[str]] = defaultdict(list)
    for row in _all(connection, schema.members):
        members[row["project"]].append(row["person"])
    people: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in _all(connection, schema.people):
        people[row["project"]].append(row)
    parts = rows.Parts(_all(connection, schema.grants), _all(connection, schema.loans))
    switch = connection.execute(select(schema.writer.c.is_parking_stopped)).scalar()
    return Snapshot.of(
        projects=[
            rows.project_of(row, members[row["name"]], people[row["name"]]) for row in _all(connection, schema.projects)
        ],
        pools=map(rows.pool_of, _all(connection, schema.pools)),
        hosts=map(rows.host_of, _all(connection, schema.hosts)),
        devices=map(rows.device_of, _all(connection, schema.devices)),
        leases=[rows.lease_of(row, parts) for row in _all(connection, schema.leases)],
        is_parking_stopped=bool(switch),
    )


def _all(connection: Connection, table: Table) -> Sequence[Mapping[str, Any]]:
    """All rows of *table*, in the order of its key."""
    return _mappings(connection.execute(select(table).order_by(*table.primary_key.columns)))


def _mappings(result: CursorResult[Any]) -> Sequence[Mapping[str, Any]]:
    return cast("Sequence[Mapping[str, Any]]", result.mappings().all())
