"""Every ledger that there is, new and empty. ``GPUSHARE_LEDGERS=postgresql`` (`make test-matrix`) chooses others."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Protocol

import pytest

from jupyter_gpushare.broker.memory_ledger import MemoryBooks, MemoryLedger
from jupyter_gpushare.broker.sql.ledger import SqlLedger
from tests.broker.ledger.postgresql_server import PostgresqlServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jupyter_gpushare.broker.ledger import Ledger

_CHOSEN = os.environ.get("GPUSHARE_LEDGERS", "memory,sqlite").split(",")
collect_ignore = [] if "postgresql" in _CHOSEN else ["test_postgresql.py"]
#: Those of them that are databases.
DATABASES = [each for each in _CHOSEN if each != "memory"]


class Opener(Protocol):
    """Opens the test's one ledger, as often as it is called."""

    def __call__(self) -> Ledger: ...


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    """One server for all tests of this run."""
    with PostgresqlServer.running() as server:
        yield server


@pytest.fixture(params=DATABASES)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database that is not there yet, or empty."""
    if request.param == "postgresql":
        server: PostgresqlServer = request.getfixturevalue("postgresql")
        return server.create_database()
    return f"sqlite:///{tmp_path}/books/broker.sqlite"


@pytest.fixture
def open_database(address: str) -> Iterator[partial[SqlLedger]]:
    """Opens one database again and again; what was opened is closed at the end."""
    opened: list[SqlLedger] = []

    def open_one(**options: float) -> SqlLedger:
        opened.append(SqlLedger.open(address, **options))
        return opened[-1]

    yield partial(open_one)
    for ledger in opened:
        ledger.close()


@pytest.fixture(params=_CHOSEN)
def open_ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Opens one ledger again and again."""
    opened: list[Ledger] = []
    books = MemoryBooks()
    where = f"sqlite:///{tmp_path}/books/broker.sqlite"
    if request.param == "postgresql":
        where = request.getfixturevalue("postgresql").create_database()

    def open_one() -> Ledger:
        opened.append(MemoryLedger(books) if request.param == "memory" else SqlLedger.open(where))
        return opened[-1]

    yield open_one
    for ledger in opened:
        ledger.close()


@pytest.fixture
def ledger(open_ledger: Opener) -> Ledger:
    """A ledger whose one writer it is."""
    opened = open_ledger()
    opened.take_over("first")
    return opened
