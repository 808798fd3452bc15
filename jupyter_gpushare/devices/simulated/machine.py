"""The simulated machine: a directory that holds its devices, their contents, and who uses them now."""

from __future__ import annotations

import uuid as uuids
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from jupyter_gpushare.devices.device import Device
from jupyter_gpushare.devices.simulated import faults as fault_types
from jupyter_gpushare.devices.simulated.arena import Arena
from jupyter_gpushare.devices.simulated.extents import GRANULARITY
from jupyter_gpushare.devices.simulated.moves import Moves
from jupyter_gpushare.devices.simulated.occupancy import SCHEMA, Occupancy
from jupyter_gpushare.devices.simulated.space import Space
from jupyter_gpushare.devices.simulated.store import MachineError, Store
from jupyter_gpushare.quantity import Memory

if TYPE_CHECKING:
    import os
    import sqlite3
    from collections.abc import Sequence

    from jupyter_gpushare.devices.identity import Identity
    from jupyter_gpushare.devices.simulated.faults import AnyFault, Faults

__all__ = ["CONTEXT_BYTES", "COPY_BYTES_PER_S", "DEFAULT_DEVICES", "DeviceSpec", "Machine", "MachineError"]

CONTEXT_BYTES = 400 << 20
COPY_BYTES_PER_S = 8_000_000_000

# What the state file is made of: raised with every change, so that an old directory is refused.
_LAYOUT = 2

_DEVICE_TABLE = """
CREATE TABLE device (
    number INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, host TEXT NOT NULL, position INTEGER NOT NULL,
    kind TEXT NOT NULL, name TEXT NOT NULL, total INTEGER NOT NULL, usable INTEGER NOT NULL, mig INTEGER NOT NULL,
    UNIQUE (host, position)
) STRICT;
CREATE TABLE fault (key TEXT PRIMARY KEY, body BLOB NOT NULL) STRICT;
CREATE TABLE setting (id TEXT NOT NULL, context_bytes INTEGER NOT NULL, copy_bytes_per_s INTEGER NOT NULL) STRICT;
PRAGMA user_version = 2;
"""


_TOTAL = Memory(40 << 30)
_RESERVE = Memory(512 << 20)


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """A device to create.

    Attributes:
        kind: what shares ask for, in lower case.
        name: the product name; it should say that the device is simulated.
        total: its memory.
        reserve: what the driver keeps of it.
        host: the machine that it is in; a directory may stand for several.
        mig: whether it is a MIG instance, of which no utilisation is known.
        uuid: as the driver writes it; a new one when empty.
    """

    kind: str = "a100"
    name: str = "simulated A100-40"
    total: Memory = _TOTAL
    reserve: Memory = _RESERVE
    host: str = "simulated"
    mig: bool = False
    uuid: str = ""

    def __post_init__(self) -> None:
        if self.total.is_unlimited or self.reserve < Memory.ZERO or not self.reserve < self.total:
            raise ValueError(f"reserve: {self.reserve} is not less than total: {self.total}; give for example 512MiB")
        if "/" in self.uuid:
            raise ValueError(f"uuid: {self.uuid!r} may not hold a slash; write for example GPU-1")


DEFAULT_DEVICES = (DeviceSpec(), DeviceSpec())


class Machine:
    """Access to a simulated machine. Any number of processes and threads may have it; a forked child may go on.

    Attributes:
        path: its directory.
        devices: all of its devices, those of every host, constant for the machine's life.
        id: what no other machine is called, of letters and digits.
        context_bytes: what a process's context costs on a device.
        copy_bytes_per_s: how fast memory is parked and resumed; 0 takes no time.
        occupancy: who uses what of which device.
    """

    def __init__(self, path: Path, store: Store) -> None:
        self.path = path
        self._store = store
        with store.reading() as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version != _LAYOUT:
                raise MachineError(f"{path} is a machine of layout {version}, not {_LAYOUT}: create a new one")
            setting = connection.execute("SELECT id, context_bytes, copy_bytes_per_s FROM setting").fetchone()
            self.id, self.context_bytes, self.copy_bytes_per_s = setting
            self.devices = tuple(_device(row) for row in connection.execute(_SELECT_DEVICES))
        self._space = Space({device.uuid: device.usable.bytes for device in self.devices})
        self.occupancy = Occupancy(store, self._space)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        devices: Sequence[DeviceSpec] = DEFAULT_DEVICES,
        *,
        context_bytes: int = CONTEXT_BYTES,
        copy_bytes_per_s: int = COPY_BYTES_PER_S,
    ) -> Self:
        """Make a machine in *path*, a directory that is empty or does not exist yet.

        Raises:
            ValueError: *copy_bytes_per_s*, the speed of parking and resuming, is negative.
            MachineError: the directory holds something.
            OSError: it cannot be written.
        """
        if copy_bytes_per_s < 0:
            raise ValueError(f"copy_bytes_per_s: {copy_bytes_per_s} is negative; write 0 for no time at all")
        root = Path(path)
        root.mkdir(parents=True, exist_ok=True)
        if any(root.iterdir()):
            raise MachineError(f"{root} is not empty: a simulated machine wants a directory of its own")
        (root / "arenas").mkdir()
        unfinished = root / "unfinished.sqlite"
        _write_state(unfinished, devices, context_bytes, copy_bytes_per_s)
        # The state appears whole or not at all, also when the creator is killed.
        unfinished.rename(_state_file(root))
        return cls.open(root)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """The machine in *path*.

        Raises:
            MachineError: there is none, or it cannot be read.
        """
        root = Path(path)
        if not _state_file(root).is_file():
            raise MachineError(f"there is no simulated machine in {root}: make one with Machine.create({str(root)!r})")
        store = Store(_state_file(root))
        try:
            return cls(root, store)
        except BaseException:
            store.close()
            raise

    def arena_path(self, uuid: str) -> Path:
        """The file with the contents of the device *uuid*."""
        return _arena_file(self.path, uuid)

    def open_arena(self, uuid: str) -> Arena:
        """The contents of the device *uuid*. While it is open, this process counts as one that uses the device."""
        return Arena(self.arena_path(uuid))

    def moves(self, owner: Identity) -> Moves:
        """The books in which *owner*'s memory leaves its devices and comes back."""
        return Moves(self._store, self._space, owner)

    def inject(self, fault: AnyFault) -> None:
        """Set *fault*, in place of one with the same key. A driver that goes away takes every open context along."""
        fault_types.decode(fault_types.encode(fault))
        with self._store.writing() as connection:
            connection.execute("REPLACE INTO fault VALUES (?, ?)", (fault.key, fault_types.encode(fault)))
            if fault.driver() is not None:
                connection.execute("UPDATE context SET state = 'poisoned'")

    def clear(self, *kinds: type[AnyFault]) -> None:
        """Take the faults of *kinds* away, without any: all."""
        names = {kind.__name__ for kind in kinds}
        with self._store.writing() as connection:
            for (key,) in connection.execute("SELECT key FROM fault").fetchall():
                if not names or key.partition(":")[0] in names:
                    connection.execute("DELETE FROM fault WHERE key = ?", (key,))

    def faults(self) -> Faults:
        """The faults set now."""
        return self.occupancy.faults()

    def close(self) -> None:
        """Let go of the files. Contexts and allocations stay, as they belong to processes."""
        self._store.close()


_SELECT_DEVICES = "SELECT uuid, position, host, kind, name, total, usable, mig FROM device ORDER BY number"


def _device(row: tuple[str, int, str, str, str, int, int, int]) -> Device:
    uuid, position, host, kind, name, total, usable, mig = row
    return Device(uuid, position, host, kind, name, Memory(total), Memory(usable), bool(mig))


def _state_file(root: Path) -> Path:
    return root / "machine.sqlite"


def _arena_file(root: Path, uuid: str) -> Path:
    return root / "arenas" / uuid


def _write_state(path: Path, devices: Sequence[DeviceSpec], context_bytes: int, copy_bytes_per_s: int) -> None:
    store = Store.create(path, _DEVICE_TABLE + SCHEMA)
    try:
        with store.writing() as connection:
            setting = (uuids.uuid4().hex, context_bytes, copy_bytes_per_s)
            connection.execute("INSERT INTO setting VALUES (?, ?, ?)", setting)
            _add_devices(connection, path.parent, devices)
    finally:
        store.close()


def _add_devices(connection: sqlite3.Connection, root: Path, devices: Sequence[DeviceSpec]) -> None:
    on_host: dict[str, int] = {}
    for number, spec in enumerate(devices):
        position = on_host.setdefault(spec.host, 0)
        on_host[spec.host] += 1
        uuid = spec.uuid or f"{'MIG' if spec.mig else 'GPU'}-{uuids.uuid4()}"
        usable = (spec.total - spec.reserve).bytes // GRANULARITY * GRANULARITY
        row = (number, uuid, spec.host, position, spec.kind, spec.name, spec.total.bytes, usable, spec.mig)
        connection.execute("INSERT INTO device VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        Arena.create(_arena_file(root, uuid), usable)
