"""Which memory of a device is free, by the machine's books, and the taking of it. Works inside a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.devices.identity import Identity, is_alive
from jupyter_gpushare.devices.simulated.extents import Extent, choose, gaps
from jupyter_gpushare.devices.simulated.faults import Faults, decode

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterable, Mapping

__all__ = ["NoRoom", "Space", "insert", "put_extents", "set_faults", "sweep"]


class NoRoom(Exception):  # noqa: N818 - what happened, in the driver's words
    """The device has less free memory than was asked for. Both in bytes."""

    def __init__(self, asked: int, free: int) -> None:
        super().__init__(f"{asked} bytes asked, {free} free")
        self.asked = asked
        self.free = free


class Space:
    """The memory of the devices whose *usable* bytes are given by UUID."""

    def __init__(self, usable: Mapping[str, int]) -> None:
        self._usable = usable

    def free(self, connection: sqlite3.Connection, device: str) -> list[Extent]:
        """The free ranges of *device*, in order."""
        rows = connection.execute("SELECT start, length FROM extent WHERE device = ? ORDER BY start", (device,))
        return list(gaps(map(Extent._make, rows), self._usable[device]))

    def find(self, connection: sqlite3.Connection, device: str, size: int) -> list[Extent]:
        """Free ranges of *device* for *size* bytes; what ended processes held is freed first if need be.

        Raises:
            NoRoom: the device has less free, or a fault says so.
        """
        free = self.free(connection, device)
        if sum(gap.length for gap in free) < size and sweep(connection):
            free = self.free(connection, device)
        room = sum(gap.length for gap in free)
        if room < size or set_faults(connection).is_full(device):
            raise NoRoom(size, room)
        return choose(free, size)


def put_extents(
    connection: sqlite3.Connection, device: str, allocation: int, extents: Iterable[Extent], offset: int = 0
) -> None:
    """Record that the bytes of *allocation* from *offset* on lie in *extents* of *device*."""
    for extent in extents:
        connection.execute("INSERT INTO extent VALUES (?, ?, ?, ?, ?)", (device, *extent, allocation, offset))
        offset += extent.length


def insert(connection: sqlite3.Connection, into: str, values: tuple[object, ...]) -> int:
    """The id of a new row."""
    return int(connection.execute(f"INSERT INTO {into}", values).lastrowid or 0)


def set_faults(connection: sqlite3.Connection) -> Faults:
    """The faults set now."""
    return Faults(decode(body) for (body,) in connection.execute("SELECT body FROM fault ORDER BY key"))


def sweep(connection: sqlite3.Connection) -> bool:
    """Free what ended processes held; whether there were any."""
    owners = connection.execute("SELECT pid, start FROM context UNION SELECT pid, start FROM feature").fetchall()
    ended = [owner for owner in owners if not is_alive(Identity(*owner))]
    connection.executemany("DELETE FROM context WHERE pid = ? AND start = ?", ended)
    connection.executemany("DELETE FROM feature WHERE pid = ? AND start = ?", ended)
    return bool(ended)
