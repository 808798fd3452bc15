"""The machine's state: an SQLite file that many processes share and any of them may be killed in.

SQLite, because it settles races between processes, survives the death of any of them at any point, and
lets readers go on while a writer works (write-ahead log). It is never synced to disk: the state has no
meaning after the system has stopped.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["MachineError", "Store"]

_BUSY_TIMEOUT_MS = 60_000

# A fork waits for the store's calls of other threads, or the child would inherit SQLite in the middle of one.
_gate = threading.RLock()
os.register_at_fork(before=_gate.acquire, after_in_parent=_gate.release, after_in_child=_gate.release)

# SQLite forbids a child to use or to close its parent's connections (sqlite.org/howtocorrupt.html, 2.6).
_inherited: list[sqlite3.Connection] = []


class MachineError(RuntimeError):
    """The machine is not there or not usable. The message says what to do."""


class Store:
    """One process's access to a machine's state. Threads may share it; a forked child opens its own connection."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._pid = 0
        self._inode = 0

    @classmethod
    def create(cls, path: Path, schema: str) -> Store:
        """A new, empty state with the tables of *schema*."""
        path.touch(exist_ok=False)
        connection = _connect(path)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(schema)
        finally:
            connection.close()
        return cls(path)

    @contextmanager
    def writing(self, *, wait: bool = True) -> Iterator[sqlite3.Connection]:
        """A transaction that may write. It is undone when the body raises.

        Raises:
            MachineError: the file is gone or broken; or, without *wait*, another process writes now.
        """
        with _gate, self._transaction("BEGIN IMMEDIATE", _BUSY_TIMEOUT_MS if wait else 0) as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A consistent view of one moment, which no writer delays.

        Raises:
            MachineError: the file is gone or broken.
        """
        with _gate, self._transaction("BEGIN", _BUSY_TIMEOUT_MS) as connection:
            yield connection

    @contextmanager
    def _transaction(self, begin: str, busy_timeout_ms: int) -> Iterator[sqlite3.Connection]:
        try:
            connection = self._connected()
            with _undone_on_error(connection):
                connection.execute(f"PRAGMA busy_timeout = {busy_timeout_ms}")
                connection.execute(begin)
                yield connection
                connection.execute("COMMIT")
        except sqlite3.Error as trouble:
            raise MachineError(
                f"the simulated machine in {self.path.parent} cannot be used ({trouble}): "
                "create a new one and start its programs again"
            ) from trouble

    def _connected(self) -> sqlite3.Connection:
        if self._connection is not None and self._pid != os.getpid():
            _inherited.append(self._connection)
            self._connection = None
        if self._connection is None:
            self._connection = _connect(self.path)
            self._pid = os.getpid()
            self._inode = self.path.stat().st_ino
        elif not self._is_in_place():
            self.close()
            raise sqlite3.OperationalError("it was removed")
        return self._connection

    def _is_in_place(self) -> bool:
        # SQLite itself goes on with a file that was unlinked, and would keep a ghost of the machine alive.
        try:
            return self.path.stat().st_ino == self._inode
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Let go of the file. The next transaction opens it again."""
        with _gate:
            connection, self._connection = self._connection, None
            if connection is not None and self._pid == os.getpid():
                connection.close()
            elif connection is not None:
                _inherited.append(connection)


@contextmanager
def _undone_on_error(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:  # A KeyboardInterrupt too must not leave the transaction open.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = OFF")
    except BaseException:
        connection.close()
        raise
    return connection
