"""The statements that change the books. Each runs inside its caller's transaction."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import Table, bindparam, delete, insert, update
from sqlalchemy.dialects import postgresql, sqlite

from jupyter_gpushare.broker.ledger import ConflictError
from jupyter_gpushare.broker.sql import rows, schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from sqlalchemy import Connection

    from jupyter_gpushare.broker.ledger import UsageHours
    from jupyter_gpushare.broker.sql.rows import Row
    from jupyter_gpushare.rules.change import Change, Entry
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.pace import Pace
    from jupyter_gpushare.rules.project import Project

__all__ = ["add_usage", "write_change", "write_leader", "write_paces"]

_Record = TypeVar("_Record")
_USES = ("held", "handed_back", "lent", "computed")


def write_leader(connection: Connection, incarnation: str) -> None:
    """Make *incarnation* the one writer."""
    statement = _insert(connection.dialect.name, schema.writer).values(
        only_one=1, incarnation=incarnation, last_commit="", is_parking_stopped=False, audit_from=0.0
    )
    connection.execute(statement.on_conflict_do_update(index_elements=["only_one"], set_={"incarnation": incarnation}))


def write_change(connection: Connection, change: Change, entries: Sequence[Entry], token: str) -> None:
    """Write all of *change*, with *entries* in place of its audit, and *token* as the name of this commit."""
    kept: Row = {"last_commit": token}
    if change.is_parking_stopped is not None:
        kept["is_parking_stopped"] = change.is_parking_stopped
    connection.execute(update(schema.writer).values(kept))
    _write_projects(connection, change.projects)
    _write_named(connection, schema.pools, change.pools, rows.pool_row)
    _write_named(connection, schema.hosts, change.hosts, rows.host_row)
    _write_named(connection, schema.devices, change.devices, rows.device_row)
    _write_leases(connection, list(change.leases.values()))
    _add(connection, schema.audit, [rows.entry_row(entry) for entry in entries])


def add_usage(connection: Connection, usage: Iterable[UsageHours]) -> None:
    """Add to the sums; the database does the adding."""
    table = schema.usage
    statement = _insert(connection.dialect.name, table)
    sums = {name: table.c[name] + statement.excluded[name] for name in _USES}
    found = [{name: getattr(each, name) for name in ("hour", "project", "person", *_USES)} for each in usage]
    connection.execute(statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=sums), found)


def write_paces(connection: Connection, paces: Mapping[str, Pace]) -> None:
    """Write these over what is known of their hosts."""
    _put(connection, schema.paces, [rows.pace_row(host, pace) for host, pace in paces.items()])


def _write_projects(connection: Connection, projects: Mapping[str, Project | None]) -> None:
    _write_named(connection, schema.projects, projects, rows.project_row)
    _remove(connection, schema.members, "project", projects)
    live = [project for project in projects.values() if project is not None]
    found = [{"project": each.name, "person": person} for each in live for person in sorted(each.members)]
    _add(connection, schema.members, found)
    _remove(connection, schema.people, "project", projects)
    _add(connection, schema.people, [row for each in live for row in rows.people_rows(each)])


def _write_named(
    connection: Connection,
    table: Table,
    records: Mapping[str, _Record | None],
    row_of: Callable[[_Record], Row],
) -> None:
    key = next(iter(table.primary_key)).name
    _remove(connection, table, key, [name for name, record in records.items() if record is None])
    _put(connection, table, [row_of(record) for record in records.values() if record is not None])


def _write_leases(connection: Connection, leases: list[Lease]) -> None:
    # What is over goes first: its key and its devices may be somebody else's in this very change.
    _remove(connection, schema.grants, "lease", [lease.id for lease in leases])
    _remove(connection, schema.loans, "lease", [lease.id for lease in leases])
    _remove(connection, schema.leases, "id", [lease.id for lease in leases if lease.is_over])
    live = [lease for lease in leases if not lease.is_over]
    written = _put(connection, schema.leases, [rows.lease_row(lease) for lease in live], grows="epoch")
    if written != len(live):
        names = ", ".join(lease.id for lease in live)
        raise ConflictError(f"An epoch goes back in a change of {names}: an older copy of the books speaks here.")
    _add(connection, schema.grants, [row for lease in live for row in rows.grant_rows(lease)])
    _add(connection, schema.loans, [row for lease in live for row in rows.loan_rows(lease)])


def _insert(dialect: str, table: Table) -> Any:
    """An INSERT that knows ON CONFLICT: both databases have it, in dialects of their own."""
    return sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)


def _put(connection: Connection, table: Table, found: list[Row], grows: str = "") -> int:
    """Write rows over those with the same key, those left out whose *grows* would shrink; how many were written."""
    if not found:
        return 0
    upsert = _upsert(connection.dialect.name, table, grows)
    return connection.execute(upsert, found, execution_options={"preserve_rowcount": True}).rowcount


def _add(connection: Connection, table: Table, found: list[Row]) -> None:
    if found:
        connection.execute(insert(table), found)


def _remove(connection: Connection, table: Table, column: str, names: Iterable[str]) -> None:
    found = [{"wanted": name} for name in names]
    if found:
        connection.execute(_removal(table, column), found)


# Statements are made once: making one takes longer than running it, and somebody waits for each commit.
@cache
def _upsert(dialect: str, table: Table, grows: str) -> Any:
    statement = _insert(dialect, table)
    keys = list(table.primary_key)
    changed = {column.name: statement.excluded[column.name] for column in table.columns if column not in keys}
    where = table.c[grows] <= statement.excluded[grows] if grows else None
    return statement.on_conflict_do_update(index_elements=keys, set_=changed, where=where)


@cache
def _removal(table: Table, column: str) -> Any:
    return delete(table).where(table.c[column] == bindparam("wanted"))
