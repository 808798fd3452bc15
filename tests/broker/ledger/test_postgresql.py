"""What can happen to a ledger on a server. `make test-matrix` runs these; `make test` has no server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from sqlalchemy import text

from jupyter_gpushare.broker.ledger import LedgerError, NotLeaderError
from jupyter_gpushare.broker.sql.ledger import SqlLedger
from jupyter_gpushare.rules.change import Entry, Verb
from jupyter_gpushare.rules.snapshot import EMPTY
from tests.broker.ledger.books import a_lease, keep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.broker.ledger.postgresql_server import PostgresqlServer

FIRST = keep(a_lease("first"), audit=(Entry(1.0, Verb.SUBMITTED, "first"),))
SECOND = keep(a_lease("second"), audit=(Entry(2.0, Verb.SUBMITTED, "second"),))


@pytest.fixture
def address(postgresql: PostgresqlServer) -> str:
    """The address of a new database."""
    return postgresql.create_database()


@pytest.fixture
def ledger(address: str) -> Iterator[SqlLedger]:
    """A ledger with a first lease in it; it waits for nobody."""
    ledger = SqlLedger.open(address, patience_s=0.3)
    ledger.take_over("first")
    ledger.commit(FIRST)
    yield ledger
    ledger.close()


def test_a_server_that_crashes_is_come_back_to(ledger: SqlLedger, postgresql: PostgresqlServer) -> None:
    """While the server is away that is told; once it is back the same ledger goes on, with all that was kept."""
    postgresql.stop("immediate")
    try:
        with pytest.raises(LedgerError, match=r"does not answer.*Nothing that was kept is lost"):
            ledger.commit(SECOND)
    finally:
        postgresql.start()
    assert ledger.load() == EMPTY.with_change(FIRST)
    ledger.commit(SECOND)
    assert [each.entry.lease for each in ledger.audit()] == ["first", "second"]


def test_connections_that_were_cut_are_made_anew(ledger: SqlLedger, address: str) -> None:
    """A server that drops idle connections, or was restarted in between, is not even noticed."""
    with psycopg.connect(address, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    ledger.commit(SECOND)
    assert set(ledger.load().leases) == {"first", "second"}


def test_a_writer_that_hangs_in_a_commit_is_not_waited_for(ledger: SqlLedger, address: str) -> None:
    """The row that makes one the writer is locked by somebody: that is told after the patience, and passes."""
    with psycopg.connect(address) as hanging:
        hanging.execute("SELECT * FROM writer FOR UPDATE")
        with pytest.raises(LedgerError, match="is locked by another program"):
            ledger.commit(SECOND)
    ledger.commit(SECOND)
    assert set(ledger.load().leases) == {"first", "second"}


def test_a_writer_that_wakes_up_late_is_fenced(ledger: SqlLedger, address: str) -> None:
    """One that began its commit before the other took over ends it only if it still is the writer."""
    successor = SqlLedger.open(address)
    successor.take_over("second")
    with pytest.raises(NotLeaderError):
        ledger.commit(SECOND)
    assert successor.load() == EMPTY.with_change(FIRST)
    successor.close()


def test_a_standby_is_told_to_be_read_only(ledger: SqlLedger, address: str) -> None:
    """A database that allows no writing now is named as that."""
    with ledger.engine.connect() as connection, connection.begin():
        name = connection.execute(text("SELECT current_database()")).scalar()
        connection.execute(text(f"ALTER DATABASE {name} SET default_transaction_read_only = on"))
    ledger.engine.dispose()
    with pytest.raises(LedgerError, match="is read-only"):
        ledger.commit(SECOND)


def test_a_database_that_is_not_there_is_named(address: str) -> None:
    """The admin reads which database to create, and no password."""
    missing = address.replace("gpushare@/", "gpushare:secret@/").replace("/ledger_", "/no_ledger_")
    with pytest.raises(LedgerError, match=r"does not let the broker in.*create the database.*does not exist") as raised:
        SqlLedger.open(missing)
    assert "secret" not in str(raised.value)


def test_tables_that_are_gone_are_damage(ledger: SqlLedger) -> None:
    """A database that somebody emptied is not taken for an empty ledger."""
    with ledger.engine.connect() as connection, connection.begin():
        connection.execute(text("DROP TABLE leases CASCADE"))
    with pytest.raises(LedgerError, match="is damaged"):
        ledger.load()
