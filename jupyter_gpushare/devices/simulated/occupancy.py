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
from jupyter_gpushare.devices.simulated.extents import round_up
from jupyter_gpushare.devices.simulated.space import NoRoom, insert, put_extents, set_faults, sweep
from jupyter_gpushare.devices.simulated.store import MachineError
from jupyter_gpushare.devices.simulated.utilisation import Load, share_of_time

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection

    from jupyter_gpushare.devices.simulated.arena import Arena
    from jupyter_gpushare.devices.simulated.extents import Extent
    from jupyter_gpushare.devices.simulated.faults import Faults
    from jupyter_gpushare.devices.simulated.space import Space
    from jupyter_gpushare.devices.simulated.store import Store

__all__ = ["SCHEMA", "Allocation", "Held", "NoRoom", "Occupancy", "State"]

# The window over which utilisation is taken, and how long an ended computation is remembered at most.
WINDOW_S = 1.0
_FORGET_LOADS_AFTER_S = 5.0
_NO_LIMIT = 1 << 62

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
    position INTEGER NOT NULL,
    PRIMARY KEY (device, start)
) STRICT, WITHOUT ROWID;
CREATE INDEX extent_by_allocation ON extent (allocation);
CREATE TABLE load (
    id INTEGER PRIMARY KEY AUTOINCREMENT, context INTEGER NOT NULL REFERENCES context (id) ON DELETE CASCADE,
    per_cent REAL NOT NULL, began REAL NOT NULL, ended REAL
) STRICT;
CREATE INDEX load_by_context ON load (context);
CREATE TABLE feature (
    pid INTEGER NOT NULL, start INTEGER NOT NULL, name TEXT NOT NULL, PRIMARY KEY (pid, start, name)
) STRICT, WITHOUT ROWID;
"""


@dataclass(slots=True, eq=False)
class Allocation:
    """Memory that a context holds, and the ranges of the device where its bytes lie, until they move."""

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

    def __init__(self, store: Store, space: Space) -> None:
        self._store = store
        self._space = space

    def open_context(self, device: str, owner: Identity, size: int, limit: int = _NO_LIMIT) -> int:
        """The id of *owner*'s context on *device*: the one it has, or a new one that costs *size* of *limit* bytes.

        Raises:
            NoRoom: the device, or the limit, has no room for it.
        """
        with self._store.writing() as connection:
            known = _context(connection, device, owner)
            if known is not None:
                return known
            context = insert(connection, "context (device, pid, start) VALUES (?, ?, ?)", (device, *owner))
            self._take(connection, device, context, size, purpose="context", limit=limit)
            return context

    def claim(self, device: str, owner: Identity, size: int) -> None:
        """Take *size* bytes of *device* for *owner* and free them again; its death in between frees them too.

        Raises:
            NoRoom: the device has less free.
        """
        with self._store.writing() as connection:
            known = _context(connection, device, owner)
            row = (device, *owner)
            context = known or insert(connection, "context (device, pid, start) VALUES (?, ?, ?)", row)
            claimed = self._take(connection, device, context, size, purpose="claim", limit=_NO_LIMIT)
        with self._store.writing() as connection:
            if known is None:
                connection.execute("DELETE FROM context WHERE id = ?", (context,))
            connection.execute("DELETE FROM allocation WHERE id = ?", (claimed.id,))

    def close_context(self, context: int) -> None:
        """End *context* with all that it holds."""
        with self._store.writing() as connection:
            connection.execute("DELETE FROM context WHERE id = ?", (context,))

    def forget(self, owner: Identity) -> None:
        """End all contexts of *owner*: a program that replaced itself by exec(2) starts without the old one's."""
        with self._store.writing() as connection:
            connection.execute("DELETE FROM context WHERE pid = ? AND start = ?", owner)
            connection.execute("DELETE FROM feature WHERE pid = ? AND start = ?", owner)

    def use(self, owner: Identity, feature: str) -> None:
        """Record that *owner* uses *feature* of the driver, until it ends."""
        with self._store.writing() as connection:
            connection.execute("INSERT OR IGNORE INTO feature VALUES (?, ?, ?)", (*owner, feature))

    def features(self, owner: Identity) -> frozenset[str]:
        """What `use` recorded for *owner*; nothing for one that has ended."""
        with self._store.reading() as connection:
            rows = connection.execute("SELECT name FROM feature WHERE pid = ? AND start = ?", owner).fetchall()
        return frozenset(name for (name,) in rows) if is_alive(owner) else frozenset()

    def parked(self) -> dict[Identity, int]:
        """How many bytes of each living process are in its own memory instead of on a device."""
        with self._store.reading() as connection:
            rows = connection.execute(_PARKED).fetchall()
        return {process: size for *row, size in rows if is_alive(process := Identity(*row))}

    def condition(self, context: int) -> tuple[bool, Faults]:
        """Whether *context* is there and its driver never went away under it, and the faults set now."""
        with self._store.reading() as connection:
            row = connection.execute("SELECT state FROM context WHERE id = ?", (context,)).fetchone()
            return row == ("running",), set_faults(connection)

    def allocate(self, context: int, size: int, limit: int = _NO_LIMIT) -> Allocation:
        """Take at least *size* bytes for *context*, which may hold *limit*. Their content is whatever was there.

        Raises:
            NoRoom: the device, or the limit, has less free.
        """
        with self._store.writing() as connection:
            (device,) = connection.execute("SELECT device FROM context WHERE id = ?", (context,)).fetchone()
            return self._take(connection, device, context, size, purpose="buffer", limit=limit)

    def _take(
        self, connection: sqlite3.Connection, device: str, context: int, size: int, *, purpose: str, limit: int
    ) -> Allocation:
        size = round_up(size)
        left = limit - _held(connection, context)
        if size > left:
            raise NoRoom(size, max(left, 0))
        extents = self._space.find(connection, device, size)
        row = (context, size, purpose)
        allocation = insert(connection, "allocation (context, size, purpose) VALUES (?, ?, ?)", row)
        put_extents(connection, device, allocation, extents)
        return Allocation(allocation, size, tuple(extents))

    def held(self, context: int) -> int:
        """The bytes that *context* holds, itself included."""
        with self._store.reading() as connection:
            return _held(connection, context)

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
            arena.trim(self._space.free(connection, device))

    def room(self, device: str) -> int:
        """The free bytes of *device*."""
        with self._store.reading() as connection:
            return sum(gap.length for gap in self._space.free(connection, device))

    def begin_load(self, context: int, per_cent: float) -> int:
        """Start a computation that takes *per_cent* of the device's time; the id to end it with."""
        now = time.monotonic()
        with self._store.writing() as connection:
            connection.execute("DELETE FROM load WHERE ended < ?", (now - _FORGET_LOADS_AFTER_S,))
            return insert(connection, "load (context, per_cent, began) VALUES (?, ?, ?)", (context, per_cent, now))

    def end_load(self, load: int) -> None:
        """End a computation."""
        with self._store.writing() as connection:
            connection.execute("UPDATE load SET ended = ? WHERE id = ?", (time.monotonic(), load))

    def faults(self) -> Faults:
        """The faults set now."""
        with self._store.reading() as connection:
            return set_faults(connection)

    def state(self) -> State:
        """Who uses what now. What ended processes held is left out, and freed unless somebody else writes now."""
        now = time.monotonic()
        with self._store.reading() as connection:
            contexts = connection.execute(_SELECT_LISTED).fetchall()
            memory = dict(connection.execute(_MEMORY_BY_CONTEXT).fetchall())
            busy = _busy(connection, now)
            faults = set_faults(connection)
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
            sweep(connection)


# As a driver lists nobody whose memory is away.
_SELECT_LISTED = "SELECT id, device, pid, start FROM context WHERE state != 'checkpointed' ORDER BY id"
_MEMORY_BY_CONTEXT = (
    "SELECT a.context, SUM(e.length) FROM extent e JOIN allocation a ON a.id = e.allocation GROUP BY a.context"
)


_PARKED = (
    "SELECT c.pid, c.start, SUM(a.size) FROM context c JOIN allocation a ON a.context = c.id"
    " WHERE c.state = 'checkpointed' GROUP BY c.pid, c.start"
)


def _context(connection: sqlite3.Connection, device: str, owner: Identity) -> int | None:
    row = connection.execute(
        "SELECT id FROM context WHERE device = ? AND pid = ? AND start = ?", (device, *owner)
    ).fetchone()
    return int(row[0]) if row else None


def _held(connection: sqlite3.Connection, context: int) -> int:
    row = connection.execute("SELECT SUM(size) FROM allocation WHERE context = ?", (context,)).fetchone()
    return int(row[0] or 0)


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
