"""Who uses what of which device: contexts, allocations, and running computations, each owned by a process.

An allocation (what a program holds) and its extents (where the bytes lie now) are kept apart, so that its bytes
can leave the device while the allocation lives on.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_gpushare.devices.identity import Identity, is_alive
from jupyter_gpushare.devices.simulated.extents import Extent, choose, gaps, round_up
from jupyter_gpushare.devices.simulated.faults import Faults, decode
from jupyter_gpushare.devices.simulated.store import MachineError
from jupyter_gpushare.devices.simulated.utilisation import Load, share_of_time

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Mapping

    from jupyter_gpushare.devices.simulated.arena import Arena
    from jupyter_gpushare.devices.simulated.store import Store

__all__ = ["SCHEMA", "Allocation", "Held", "NoRoom", "Occupancy", "State"]

# The window over which utilisation is taken, and how long an ended computation is remembered at most.
WINDOW_S = 1.0
_FORGET_LOADS_AFTER_S = 5.0

SCHEMA = """
CREATE TABLE context (
    id INTEGER PRIMARY KEY AUTOINCREMENT, device TEXT NOT NULL REFERENCES device (uuid),
    pid INTEGER NOT NULL, start INTEGER NOT NULL, state TEXT NOT NULL DEFAULT 'running',
    UNIQUE (device, pid, start)
) STRICT;
CREATE TABLE allocation (
    id INTEGER PRIMARY KEY AUTOINCREMENT, context INTEGER NOT NULL REFERENCES context (id) ON DELETE CASCADE,
    size INTEGER NOT NULL, purpose TEXT NOT NULL
) STRICT;
CREATE INDEX allocation_by_context ON allocation (context);
CREATE TABLE extent (
    device TEXT NOT NULL, start INTEGER NOT NULL, length INTEGER NOT NULL,
    allocation INTEGER NOT NULL REFERENCES allocation (id) ON DELETE CASCADE,
    PRIMARY KEY (device, start)
) STRICT, WITHOUT ROWID;
CREATE INDEX extent_by_allocation ON extent (allocation);
CREATE TABLE load (
    id INTEGER PRIMARY KEY AUTOINCREMENT, context INTEGER NOT NULL REFERENCES context (id) ON DELETE CASCADE,
    per_cent REAL NOT NULL, began REAL NOT NULL, ended REAL
) STRICT;
CREATE INDEX load_by_context ON load (context);
"""


class NoRoom(Exception):  # noqa: N818 - what happened, in the driver's words
    """The device has less free memory than was asked for. Both in bytes."""

    def __init__(self, asked: int, free: int) -> None:
        super().__init__(f"{asked} bytes asked, {free} free")
        self.asked = asked
        self.free = free


@dataclass(frozen=True, slots=True)
class Allocation:
    """Memory that a context holds, and the ranges of the device where its bytes lie."""

    id: int
    size: int
    extents: tuple[Extent, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """One process's context on one device: its memory in bytes, and its part of the device's time in per cent."""

    device: str
    process: Identity
    memory: int
    utilisation: float


@dataclass(frozen=True, slots=True)
class State:
    """The machine at one moment: the contexts of living processes, and the faults set."""

    held: tuple[Held, ...]
    faults: Faults


class Occupancy:
    """The books of a machine. Times are seconds of the monotonic clock, which all processes share."""

    def __init__(self, store: Store, usable: Mapping[str, int]) -> None:
        self._store = store
        self._usable = usable

    def open_context(self, device: str, owner: Identity, size: int) -> int:
        """The id of *owner*'s context on *device*: the one it has, or a new one that costs *size* bytes.

        Raises:
            NoRoom: the device has no room for it.
        """
        with self._store.writing() as connection:
            known = connection.execute(
                "SELECT id FROM context WHERE device = ? AND pid = ? AND start = ?", (device, *owner)
            ).fetchone()
            if known:
                return int(known[0])
            context = _insert(connection, "context (device, pid, start) VALUES (?, ?, ?)", (device, *owner))
            self._take(connection, device, context, size, "context")
            return context

    def close_context(self, context: int) -> None:
        """End *context* with all that it holds."""
        with self._store.writing() as connection:
            connection.execute("DELETE FROM context WHERE id = ?", (context,))

    def forget(self, owner: Identity) -> None:
        """End all contexts of *owner*: a program that replaced itself by exec(2) starts without the old one's."""
        with self._store.writing() as connection:
            connection.execute("DELETE FROM context WHERE pid = ? AND start = ?", owner)

    def condition(self, context: int) -> tuple[bool, Faults]:
        """Whether *context* is there and its driver never went away under it, and the faults set now."""
        with self._store.reading() as connection:
            row = connection.execute("SELECT state FROM context WHERE id = ?", (context,)).fetchone()
            return row == ("running",), _faults(connection)

    def allocate(self, context: int, size: int) -> Allocation:
        """Take at least *size* bytes for *context*. Their content is whatever was there.

        Raises:
            NoRoom: the device has less free.
        """
        with self._store.writing() as connection:
            (device,) = connection.execute("SELECT device FROM context WHERE id = ?", (context,)).fetchone()
            return self._take(connection, device, context, size, "buffer")

    def _take(self, connection: sqlite3.Connection, device: str, context: int, size: int, purpose: str) -> Allocation:
        size = round_up(size)
        free = self._free(connection, device)
        if sum(gap.length for gap in free) < size and _sweep(connection):
            free = self._free(connection, device)
        room = sum(gap.length for gap in free)
        if room < size or _faults(connection).is_full(device):
            raise NoRoom(size, room)
        extents = choose(free, size)
        row = (context, size, purpose)
        allocation = _insert(connection, "allocation (context, size, purpose) VALUES (?, ?, ?)", row)
        rows = [(device, *extent, allocation) for extent in extents]
        connection.executemany("INSERT INTO extent VALUES (?, ?, ?, ?)", rows)
        return Allocation(allocation, size, tuple(extents))

    def _free(self, connection: sqlite3.Connection, device: str) -> list[Extent]:
        rows = connection.execute("SELECT start, length FROM extent WHERE device = ? ORDER BY start", (device,))
        return list(gaps(map(Extent._make, rows), self._usable[device]))

    def keep(self, context: int, allocations: Collection[int], arena: Arena) -> None:
        """Free what *context* holds besides *allocations* and itself.

        Named is what stays, not what goes, so that an allocation whose program was interrupted before it
        learned of it is freed too.
        """
        with self._store.writing() as connection:
            connection.execute(
                "DELETE FROM allocation WHERE context = ? AND purpose = 'buffer'"
                " AND id NOT IN (SELECT value FROM json_each(?))",
                (context, json.dumps(list(allocations))),
            )
            # Inside the transaction: nobody may take a range while its bytes are given back.
            (device,) = connection.execute("SELECT device FROM context WHERE id = ?", (context,)).fetchone()
            arena.trim(self._free(connection, device))

    def room(self, device: str) -> int:
        """The free bytes of *device*."""
        with self._store.reading() as connection:
            return sum(gap.length for gap in self._free(connection, device))

    def begin_load(self, context: int, per_cent: float) -> int:
        """Start a computation that takes *per_cent* of the device's time; the id to end it with."""
        now = time.monotonic()
        with self._store.writing() as connection:
            connection.execute("DELETE FROM load WHERE ended < ?", (now - _FORGET_LOADS_AFTER_S,))
            return _insert(connection, "load (context, per_cent, began) VALUES (?, ?, ?)", (context, per_cent, now))

    def end_load(self, load: int) -> None:
        """End a computation."""
        with self._store.writing() as connection:
            connection.execute("UPDATE load SET ended = ? WHERE id = ?", (time.monotonic(), load))

    def faults(self) -> Faults:
        """The faults set now."""
        with self._store.reading() as connection:
            return _faults(connection)

    def state(self) -> State:
        """Who uses what now. What ended processes held is left out, and freed unless somebody else writes now."""
        now = time.monotonic()
        with self._store.reading() as connection:
            contexts = connection.execute("SELECT id, device, pid, start FROM context ORDER BY id").fetchall()
            memory = dict(connection.execute(_MEMORY_BY_CONTEXT).fetchall())
            busy = _busy(connection, now)
            faults = _faults(connection)
        alive = {process: is_alive(process) for process in {Identity(pid, start) for _, _, pid, start in contexts}}
        if not all(alive.values()):
            self._try_sweep()
        held = [
            Held(device, Identity(pid, start), memory.get(context, 0), busy.get(context, 0.0))
            for context, device, pid, start in contexts
            if alive[Identity(pid, start)]
        ]
        return State(tuple(held), faults)

    def _try_sweep(self) -> None:
        """Free what ended processes held, but never wait: a reader must not hang on a writer that was stopped."""
        with suppress(MachineError), self._store.writing(wait=False) as connection:
            _sweep(connection)


_MEMORY_BY_CONTEXT = (
    "SELECT a.context, SUM(e.length) FROM extent e JOIN allocation a ON a.id = e.allocation GROUP BY a.context"
)


def _insert(connection: sqlite3.Connection, into: str, values: tuple[object, ...]) -> int:
    return int(connection.execute(f"INSERT INTO {into}", values).lastrowid or 0)


def _faults(connection: sqlite3.Connection) -> Faults:
    return Faults(decode(body) for (body,) in connection.execute("SELECT body FROM fault ORDER BY key"))


def _sweep(connection: sqlite3.Connection) -> bool:
    owners = connection.execute("SELECT DISTINCT pid, start FROM context").fetchall()
    ended = [owner for owner in owners if not is_alive(Identity(*owner))]
    connection.executemany("DELETE FROM context WHERE pid = ? AND start = ?", ended)
    return bool(ended)


def _busy(connection: sqlite3.Connection, now: float) -> dict[int, float]:
    """Per cent of the last window by context."""
    by_device: dict[str, list[Load]] = {}
    rows = connection.execute(
        "SELECT c.device, c.id, l.per_cent, l.began, l.ended FROM load l JOIN context c ON c.id = l.context"
        " WHERE l.ended IS NULL OR l.ended > ?",
        (now - WINDOW_S,),
    )
    for device, *load in rows:
        by_device.setdefault(device, []).append(Load(*load))
    busy: dict[int, float] = {}
    for loads in by_device.values():
        busy |= share_of_time(loads, now - WINDOW_S, now)
    return busy
