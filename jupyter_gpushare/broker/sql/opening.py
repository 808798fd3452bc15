"""Connections to the two databases, as a ledger needs them: durable, one writer at a time, never waiting for ever."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError

from jupyter_gpushare.broker.ledger import LedgerError

if TYPE_CHECKING:
    from sqlalchemy import Connection

__all__ = ["WRITING", "LedgerFile", "open_engine", "place_of"]

#: An execution option: this transaction will write.
WRITING: Final = "gpushare_writing"
_KNOWN: Final = frozenset({"sqlite", "postgresql"})
_EXAMPLES: Final = "sqlite:////var/lib/gpushare/broker.sqlite or postgresql://gpushare@db.example.org/gpushare"


def open_engine(address: str, patience_s: float) -> tuple[Engine, LedgerFile | None]:
    """Connections to *address*, and its file if it has one. A lock of somebody else's is waited for *patience_s*.

    Raises:
        LedgerError: it is no address of a ledger, or what it needs is not installed.
    """
    url = _parse(address)
    if url.get_backend_name() == "postgresql":
        return _postgresql(url.set(drivername="postgresql+psycopg"), patience_s), None
    if not url.database or url.database == ":memory:" or url.query:
        raise LedgerError(f"ledger: {address!r} names no file; write for example {_EXAMPLES}")
    file = LedgerFile(Path(url.database))
    return _sqlite(url, patience_s), file


def place_of(engine: Engine) -> str:
    """Where the ledger is, for people, without a password."""
    return engine.url.database or "" if engine.dialect.name == "sqlite" else engine.url.render_as_string()


class LedgerFile:
    """The file of an SQLite ledger. Written to after it was deleted, it would keep books that nobody finds again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity = self._prepare()

    def check(self) -> None:
        """Raise LedgerError if the file is not there any more, or another one is in its place."""
        if self._look() != self._identity:
            raise LedgerError(
                f"The ledger {self._path} is gone, or another file is in its place. Nothing changes for what runs. "
                "Put it back, or its last backup, and start the broker again; holders bring their leases."
            )

    def _prepare(self) -> tuple[int, int]:
        """Make the file if there is none, readable for nobody else: the audit names people."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            status = self._path.stat()
        except OSError as error:
            raise LedgerError(
                f"The ledger {self._path} cannot be opened ({error.strerror}). "
                "Let the broker's account write that file and its folder, or name another one with --ledger."
            ) from error
        return status.st_dev, status.st_ino

    def _look(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino


def _parse(address: str) -> URL:
    try:
        url = make_url(address)
    except ArgumentError:
        url = None
    if url is None or url.get_backend_name() not in _KNOWN:
        raise LedgerError(f"ledger: {address!r} is no address of a ledger; write for example {_EXAMPLES}")
    return url


def _sqlite(url: URL, patience_s: float) -> Engine:
    engine = create_engine(url, connect_args={"timeout": patience_s})
    event.listen(engine, "connect", _set_up_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _set_up_sqlite(connection: Any, _: Any) -> None:
    # The driver's own transactions begin too late and end too early: https://docs.sqlalchemy.org/en/20/dialects/sqlite.html
    connection.isolation_level = None
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise LedgerError(f"The ledger's disk allows no write-ahead log (journal mode {mode}): put it on a local disk.")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin_sqlite(connection: Connection) -> None:
    # A writer that began as a reader could not wait for its turn: SQLite answers "locked" at once.
    is_writing = connection.get_execution_options().get(WRITING, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if is_writing else "BEGIN")


def _postgresql(url: URL, patience_s: float) -> Engine:
    patience_ms = int(patience_s * 1000)
    try:
        return create_engine(
            url,
            pool_size=4,
            pool_pre_ping=True,
            connect_args={
                "connect_timeout": max(2, int(patience_s)),
                "tcp_user_timeout": patience_ms,
                "keepalives_idle": 10,
                "application_name": "gpushare-broker",
                "options": f"-c lock_timeout={patience_ms}",
            },
        )
    except ModuleNotFoundError as error:
        raise LedgerError(
            "A ledger in PostgreSQL needs one more package: pip install 'jupyter_gpushare[postgres]'"
        ) from error
