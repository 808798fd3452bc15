"""What docs/broker.md tells admins to do by hand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from jupyter_gpushare.rules.change import Change, Entry, Verb

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Engine

    from jupyter_gpushare.broker.sql.ledger import SqlLedger

PAGE = Path(__file__).parents[3] / "docs" / "broker.md"
_NEW_YEAR: Final = 1_767_225_600.0  # of 2026, in UTC; a day before and after it is so everywhere
OLD = Entry(_NEW_YEAR - 86_400, Verb.SUBMITTED, "old")
NEW = Entry(_NEW_YEAR + 86_400, Verb.SUBMITTED, "new")


def documented(dialect: str) -> str:
    """The statements on the page."""
    blocks = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
    found: str = next(block for block in blocks if ("extract(" in block) == (dialect == "postgresql"))
    return found


def do_by_hand(engine: Engine, statements: str) -> None:
    """As an admin does in the database's own shell."""
    raw = engine.raw_connection()
    try:
        if engine.dialect.name == "sqlite":
            raw.cursor().executescript(statements)
        else:
            raw.driver_connection.autocommit = True  # type: ignore[union-attr]  # psycopg's
            raw.cursor().execute(statements)
    finally:
        raw.close()


def test_old_lines_of_the_audit_can_be_dropped_by_hand(open_database: Callable[[], SqlLedger]) -> None:
    """What is on the page drops what is old, keeps what is new and the numbers, and protects the rest as before."""
    ledger = open_database()
    ledger.take_over("first")
    ledger.commit(Change(audit=(OLD, NEW)))
    number = ledger.audit()[-1].number
    do_by_hand(ledger.engine, documented(ledger.engine.dialect.name))
    assert [each.entry for each in ledger.audit()] == [NEW]
    ledger.commit(Change(audit=(NEW,)))
    assert [each.number for each in ledger.audit()] == [number, number + 1]
    with pytest.raises(IntegrityError, match="append-only"), ledger.engine.begin() as connection:
        connection.execute(text("DELETE FROM audit"))
