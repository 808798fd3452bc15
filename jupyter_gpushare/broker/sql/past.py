"""Statements about what a ledger keeps beside the books. Each runs inside its caller's transaction."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite

from jupyter_gpushare.broker.ledger_records import OPEN, Ask, Idle, Membership, Moment
from jupyter_gpushare.broker.sql import schema
from jupyter_gpushare.quantity import Fraction

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection, Table

    from jupyter_gpushare.broker.ledger_records import AskState

__all__ = ["add_ask", "add_past", "decide_ask", "prune_audit", "prune_past", "read_asks", "read_idles"]
__all__ += ["read_memberships", "read_moments", "write_memberships"]

_ASK_PLAIN: Final = tuple(each.name for each in fields(Ask) if each.name not in ("amount", "number"))
_MOMENT: Final = tuple(each.name for each in fields(Moment) if each.name != "foreign")
_SUMS: Final = ("seconds", "running", "parked", "lent", "training", "foreign_part", "free")


def write_memberships(connection: Connection, memberships: Mapping[str, Membership]) -> None:
    """Write these over what is known of their people."""
    found = [
        {"person": person, "groups": json.dumps(sorted(each.groups)), "seen": each.seen}
        for person, each in memberships.items()
    ]
    table = schema.memberships
    statement = _insert(connection, table)
    changed = {name: statement.excluded[name] for name in ("groups", "seen")}
    connection.execute(statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=changed), found)


def read_memberships(connection: Connection) -> dict[str, Membership]:
    """All of them, by name."""
    rows = connection.execute(select(schema.memberships)).mappings()
    return {row["person"]: Membership(frozenset(json.loads(row["groups"])), row["seen"]) for row in rows}


def add_ask(connection: Connection, ask: Ask) -> Ask:
    """Write one more; the table gives it its number."""
    row = {name: getattr(ask, name) for name in _ASK_PLAIN} | {"amount": ask.amount.millionths}
    key = connection.execute(insert(schema.asks), row).inserted_primary_key
    return replace(ask, number=int(key[0]) if key else 0)


def decide_ask(connection: Connection, decided: Ask) -> bool:
    """Write how one that is open was decided; whether there was one."""
    table = schema.asks
    names = ("state", "decided_by", "decided_at", "answer")
    statement = update(table).where(table.c.number == decided.number, table.c.state == OPEN)
    return connection.execute(statement.values({name: getattr(decided, name) for name in names})).rowcount == 1


def read_asks(connection: Connection, number: int | None, state: AskState | None, limit: int) -> list[Ask]:
    """The newest ones first."""
    table = schema.asks
    query = select(table).order_by(table.c.number.desc()).limit(max(0, limit))
    if number is not None:
        query = query.where(table.c.number == number)
    if state is not None:
        query = query.where(table.c.state == state)
    return [_ask_of(dict(row)) for row in connection.execute(query).mappings()]


def add_past(connection: Connection, moments: Sequence[Moment], idles: Sequence[Idle]) -> None:
    """Add to the sums; the database does the adding."""
    _sum_up(connection, schema.moments, [_moment_row(each) for each in moments], _SUMS)
    found = [{each.name: getattr(idle, each.name) for each in fields(idle)} for idle in idles]
    _sum_up(connection, schema.idles, found, ("idle", "parks"))


def read_moments(connection: Connection, since: float) -> list[Moment]:
    """Oldest first."""
    table = schema.moments
    rows = connection.execute(select(table).where(table.c.at >= since).order_by(table.c.at)).mappings()
    return [Moment(**{name: row[name] for name in _MOMENT}, foreign=row["foreign_part"]) for row in rows]


def read_idles(connection: Connection, since: float) -> list[Idle]:
    """Summed up, one for each project and pool."""
    columns = schema.idles.c
    sums = [func.sum(columns[name]).label(name) for name in ("idle", "parks")]
    query = select(func.min(columns.hour).label("hour"), columns.project, columns.pool, *sums)
    query = query.where(columns.hour >= since).group_by(columns.project, columns.pool)
    rows = connection.execute(query.order_by(columns.project, columns.pool)).mappings()
    # A database may sum whole numbers up to a decimal.
    return [Idle(row["hour"], row["project"], row["pool"], float(row["idle"]), int(row["parks"])) for row in rows]


def prune_past(connection: Connection, moments: float, idles: float) -> None:
    """Delete what is older."""
    connection.execute(delete(schema.moments).where(schema.moments.c.at < moments))
    connection.execute(delete(schema.idles).where(schema.idles.c.hour < idles))


def prune_audit(connection: Connection, before: float) -> int:
    """Protect only what is younger from now on, and delete the rest: the triggers let it go."""
    connection.execute(update(schema.writer).where(schema.writer.c.audit_from < before).values(audit_from=before))
    return connection.execute(delete(schema.audit).where(schema.audit.c.at < before)).rowcount


def _ask_of(row: Mapping[str, Any]) -> Ask:
    plain = {name: row[name] for name in _ASK_PLAIN}
    return Ask(**plain, amount=Fraction(row["amount"]), number=row["number"])


def _moment_row(moment: Moment) -> dict[str, Any]:
    return {name: getattr(moment, name) for name in _MOMENT} | {"foreign_part": moment.foreign}


def _sum_up(connection: Connection, table: Table, found: list[dict[str, Any]], names: Sequence[str]) -> None:
    if not found:
        return
    statement = _insert(connection, table)
    sums = {name: table.c[name] + statement.excluded[name] for name in names}
    connection.execute(statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=sums), found)


def _insert(connection: Connection, table: Table) -> Any:
    return sqlite.insert(table) if connection.dialect.name == "sqlite" else postgresql.insert(table)
