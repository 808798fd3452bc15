"""The books of memory that leaves a device and comes back while the program that holds it lives on.

No transaction outlasts a call: the copying, which takes time, is done between them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from jupyter_gpushare.devices.simulated.extents import Extent, locate
from jupyter_gpushare.devices.simulated.space import NoRoom, Space, put_extents

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Mapping, Sequence

    from jupyter_gpushare.devices.identity import Identity
    from jupyter_gpushare.devices.simulated.arena import Arena
    from jupyter_gpushare.devices.simulated.store import Store

__all__ = ["Holding", "Moves", "Part", "Place", "batches"]

Place = Literal["running", "checkpointed", "restoring", "failed", "poisoned"]


@dataclass(frozen=True, slots=True)
class Holding:
    """An allocation of a process on *device*, and the ranges where its bytes lie: none while it is parked."""

    allocation: int
    device: str
    size: int
    extents: tuple[Extent, ...]


class Part(NamedTuple):
    """The bytes from *offset* to *offset + length* of a holding."""

    holding: Holding
    offset: int
    length: int

    @property
    def extents(self) -> list[Extent]:
        """Where they lie."""
        return list(locate(self.holding.extents, self.offset, self.length))


def batches(holdings: Sequence[Holding], size: int) -> Iterator[list[Part]]:
    """All bytes of *holdings* in order, in batches of *size* bytes, the last one of fewer."""
    batch: list[Part] = []
    room = size
    for holding in holdings:
        offset = 0
        while offset < holding.size:
            part = Part(holding, offset, min(holding.size - offset, room))
            batch.append(part)
            offset, room = offset + part.length, room - part.length
            if not room:
                yield batch
                batch, room = [], size
    if batch:
        yield batch


class Moves:
    """Moves of *owner*'s memory, in the machine's books."""

    def __init__(self, store: Store, space: Space, owner: Identity) -> None:
        self._store = store
        self._space = space
        self._owner = owner

    def places(self) -> frozenset[Place]:
        """Where the owner's contexts are; empty when it has none."""
        with self._store.reading() as connection:
            rows = connection.execute("SELECT state FROM context WHERE pid = ? AND start = ?", self._owner)
            return frozenset(state for (state,) in rows)

    def holdings(self) -> tuple[Holding, ...]:
        """All that the owner holds, contexts included, in the order in which it was taken."""
        with self._store.reading() as connection:
            rows = connection.execute(
                "SELECT a.id, c.device, a.size FROM allocation a JOIN context c ON c.id = a.context"
                " WHERE c.pid = ? AND c.start = ? ORDER BY a.id",
                self._owner,
            ).fetchall()
            return tuple(Holding(one, device, size, _extents(connection, one)) for one, device, size in rows)

    def mark(self, place: Place) -> None:
        """Record where the owner's contexts are."""
        with self._store.writing() as connection:
            self._mark(connection, place)

    def _mark(self, connection: sqlite3.Connection, place: Place) -> None:
        row = (place, *self._owner)
        connection.execute("UPDATE context SET state = ? WHERE pid = ? AND start = ? AND state != 'poisoned'", row)

    def leave(self, parts: Sequence[Part], arenas: Mapping[str, Arena], place: Place) -> None:
        """Free the ranges of *parts*, whose bytes are saved, each the first that is left of its holding."""
        with self._store.writing() as connection:
            for part in parts:
                end = part.offset + part.length
                connection.execute("DELETE FROM extent WHERE allocation = ?", (part.holding.allocation,))
                rest = locate(part.holding.extents, end, part.holding.size - end)
                put_extents(connection, part.holding.device, part.holding.allocation, rest, end)
            self._mark(connection, place)
            # Inside the transaction: nobody may take a range while its bytes are given back.
            for device in {part.holding.device for part in parts}:
                arenas[device].trim(self._space.free(connection, device))

    def arrive(self, parts: Sequence[Part], place: Place) -> list[list[Extent]]:
        """Take new ranges for *parts*, in their order. Their content is whatever was there.

        Raises:
            NoRoom: there are not enough. Those that were taken before stay taken, and the contexts are failed for good.
        """
        taken: list[list[Extent]] = []
        shortage: NoRoom | None = None
        with self._store.writing() as connection:
            try:
                for part in parts:
                    taken.append(self._space.find(connection, part.holding.device, part.length))
                    put_extents(connection, part.holding.device, part.holding.allocation, taken[-1], part.offset)
            except NoRoom as trouble:
                shortage = trouble
            self._mark(connection, "failed" if shortage else place)
        if shortage:
            raise shortage
        return taken


def _extents(connection: sqlite3.Connection, allocation: int) -> tuple[Extent, ...]:
    rows = connection.execute("SELECT start, length FROM extent WHERE allocation = ? ORDER BY position", (allocation,))
    return tuple(map(Extent._make, rows))
