"""What this host's servers are parking, step by step, so that a server's death leaves nothing unexplained.

One SQLite file for all servers of a user. Each step is written before it begins. The file is never synced to disk:
only the death of processes matters, since no process that it speaks of outlives the system.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from jupyter_gpushare.devices.identity import Identity, is_alive, myself
from jupyter_gpushare.parking.sequence import Step, Target

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

__all__ = ["Entry", "Journal"]

_BUSY_S: Final = 30.0
_OLD_S: Final = 30 * 24 * 3600.0

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS entry (
    place TEXT NOT NULL, server_pid INTEGER NOT NULL, server_start INTEGER NOT NULL, kernel_id TEXT NOT NULL,
    step TEXT NOT NULL, changed REAL NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (place, server_pid, server_start, kernel_id)
) STRICT
"""


class _Body(msgspec.Struct, frozen=True):
    processes: tuple[Identity, ...]
    memory: dict[str, int]
    parts: tuple[tuple[Identity, dict[str, int]], ...] = ()
    frozen: tuple[Identity, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """A kernel that *server* was parking or resuming, or held parked.

    Attributes:
        server: whose kernel it is.
        target: what goes together.
        step: what was begun last.
        frozen: processes that may be stopped.
    """

    server: Identity
    target: Target
    step: Step
    frozen: tuple[Identity, ...] = ()


class Journal:
    """Access to the journal in *directory*. Blocking; any thread may call.

    Args:
        directory: one per user and host, such as Jupyter's runtime directory; made if need be.
        server: who writes; without it the calling process.
    """

    def __init__(self, directory: str | os.PathLike[str], server: Identity | None = None) -> None:
        self.directory = Path(directory)
        self.server = server or myself()
        self._place = _place()
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._writing() as connection:
            connection.execute(_SCHEMA)
            connection.execute(
                "DELETE FROM entry WHERE place != ? AND changed < ?", (self._place, time.time() - _OLD_S)
            )

    def begin(self, target: Target, step: Step, frozen: tuple[Identity, ...] = ()) -> None:
        """Write down that *step* begins now."""
        parts = tuple((process, dict(memory)) for process, memory in target.parts.items())
        body = msgspec.json.encode(_Body(target.processes, dict(target.memory), parts, frozen))
        row = (self._place, *self.server, target.kernel_id, step.value, time.time(), body)
        with self._writing() as connection:
            connection.execute("REPLACE INTO entry VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def forget(self, kernel_id: str) -> None:
        """This server's kernel holds its GPU again, or has ended."""
        with self._writing() as connection:
            connection.execute(_DELETE, (self._place, *self.server, kernel_id))

    def entries(self) -> list[Entry]:
        """What is written down for this server."""
        with self._writing() as connection:
            rows = connection.execute(_SELECT, (self._place,)).fetchall()
        ours = [row for row in rows if Identity(row[0], row[1]) == self.server]
        return [entry for row in ours if (entry := _entry(row)) is not None]

    def inherit(self) -> list[Entry]:
        """Take over what dead servers of this host left. Each entry goes to one server only, and is then its own."""
        inherited = []
        with self._writing() as connection:
            rows = connection.execute(_SELECT, (self._place,)).fetchall()
            for row in rows:
                server = Identity(row[0], row[1])
                if server == self.server or is_alive(server):
                    continue
                entry = _entry(row)
                self._move(connection, server, row[2], keep=entry is not None)
                inherited += [entry] if entry is not None else []
        return inherited

    def _move(self, connection: sqlite3.Connection, server: Identity, kernel_id: str, *, keep: bool) -> None:
        old = (self._place, *server, kernel_id)
        if keep:
            connection.execute(_MOVE, (*self.server, *old))
        else:
            connection.execute(_DELETE, old)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        # A connection per use: threads need not share one, and none is open when the server forks.
        path = self.directory / "parking.sqlite"
        with closing(sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")


_SELECT: Final = "SELECT server_pid, server_start, kernel_id, step, body FROM entry WHERE place = ?"
_DELETE: Final = "DELETE FROM entry WHERE place = ? AND server_pid = ? AND server_start = ? AND kernel_id = ?"
_MOVE: Final = (
    "UPDATE OR REPLACE entry SET server_pid = ?, server_start = ?"
    " WHERE place = ? AND server_pid = ? AND server_start = ? AND kernel_id = ?"
)
_bodies: Final = msgspec.json.Decoder(_Body)


def _entry(row: tuple[int, int, str, str, bytes]) -> Entry | None:
    """None for a row that another version of this program wrote, or somebody broke."""
    try:
        body, step = _bodies.decode(row[4]), Step(row[3])
    except (msgspec.DecodeError, ValueError):
        return None
    target = Target(row[2], body.processes, body.memory, dict(body.parts))
    return Entry(Identity(row[0], row[1]), target, step, body.frozen)


def _place() -> str:
    """Where process ids mean what they mean here: this start of the system, this namespace of process ids.

    A home directory may be shared by hosts and containers, and a row of one must not be judged by another.
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
