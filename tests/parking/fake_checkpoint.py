"""A driver whose state is a file, so that it outlives the checkpoint process as a real driver does. Hostile on demand.

It poisons a process that is restored without room, lets neighbours take what was freed, and fails, hangs or takes the
checkpoint process down before or after any call does its work.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from jupyter_gpushare.devices.identity import identify
from jupyter_gpushare.parking.checkpoint import CheckpointDriver, CheckpointError, ErrorCode, ProcessState
from jupyter_gpushare.parking.room import RoomReading

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_gpushare.devices.identity import Identity

VARIABLE = "GPUSHARE_FAKE_DRIVER"
NEIGHBOUR = "neighbour"


class FakeMachine:
    """The file. Any process may open it; each change is atomic."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.path = Path(directory) / "driver.json"
        self._gate = Path(directory) / "driver.lock"

    @classmethod
    def create(cls, directory: Path, **devices: int) -> FakeMachine:
        """A machine with *devices* of so many bytes each."""
        machine = cls(directory)
        machine._gate.touch()
        empty = {"devices": devices, "held": {}, "states": {}, "faults": [], "calls": [], "poisoned": 0}
        machine.path.write_text(json.dumps(empty))
        return machine

    @contextmanager
    def changing(self) -> Iterator[dict[str, Any]]:
        """The whole state, for one change."""
        with self._gate.open() as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            state = json.loads(self.path.read_text())
            yield state
            new = self.path.with_suffix(".new")
            new.write_text(json.dumps(state))
            new.replace(self.path)

    def hold(self, who: Identity | str, **memory: int) -> None:
        """*who* holds *memory* by device; nothing without any."""
        with self.changing() as state:
            state["held"][_key(who)] = memory
            if not isinstance(who, str):
                state["states"].setdefault(_key(who), "running")

    def inject(self, call: str, what: str, *, when: str = "before", process: Identity | None = None) -> None:
        """Once, when *call* is made (on *process*): *what* is ``hang``, ``die`` or the code of an error."""
        pid = process.pid if process else None
        with self.changing() as state:
            state["faults"].append({"call": call, "what": what, "when": when, "pid": pid})

    def clear(self) -> None:
        """No fault waits any more."""
        with self.changing() as state:
            state["faults"] = []

    def pending(self) -> list[str]:
        """The calls that a fault still waits for."""
        with self.changing() as state:
            return [fault["call"] for fault in state["faults"]]

    def state(self, process: Identity) -> ProcessState:
        """What *process* is, without a call."""
        with self.changing() as state:
            return ProcessState(state["states"][_key(process)])

    def set_state(self, process: Identity, name: str) -> None:
        """Somebody else moved *process*."""
        with self.changing() as state:
            state["states"][_key(process)] = name

    def free(self, device: str) -> int:
        """Bytes that nobody holds on *device*. What a dead process held is free."""
        with self.changing() as state:
            return _free(state, device)

    async def room(self, device: str) -> RoomReading:
        """The same as a reading."""
        with self.changing() as state:
            return RoomReading(_free(state, device), state["devices"][device])

    def calls(self) -> list[str]:
        """Every call that did its work, in order, such as ``lock 12``."""
        with self.changing() as state:
            return list(state["calls"])

    @property
    def poisoned(self) -> int:
        """How many processes were restored without room."""
        with self.changing() as state:
            return int(state["poisoned"])


def _key(who: Identity | str) -> str:
    return who if isinstance(who, str) else f"{who.pid}:{who.start}"


def _free(state: dict[str, Any], device: str) -> int:
    used = 0
    for who, memory in state["held"].items():
        lives = who == NEIGHBOUR or f"{identify(int(who.split(':')[0])) and who.split(':')[1]}" == who.split(":")[1]
        if lives and state["states"].get(who) != "checkpointed":
            used += memory.get(device, 0)
    return int(state["devices"][device]) - used


class FakeCheckpoint:
    """Calls on a `FakeMachine`."""

    def __init__(self, machine: FakeMachine) -> None:
        self._machine = machine

    def driver(self) -> CheckpointDriver:
        return CheckpointDriver("simulated", "1.0")

    def state(self, process: Identity) -> ProcessState:
        with self._call("state", process) as state:
            return ProcessState(state["states"][_key(process)])

    def lock(self, process: Identity, timeout_ms: int) -> None:  # noqa: ARG002  # nothing computes here
        self._move("lock", process, "running", "locked")

    def checkpoint(self, process: Identity) -> None:
        self._move("checkpoint", process, "locked", "checkpointed")

    def unlock(self, process: Identity) -> None:
        self._move("unlock", process, "locked", "running")

    def restore(self, process: Identity) -> None:
        with self._call("restore", process) as state:
            _require(state, process, "checkpointed")
            for device, size in state["held"][_key(process)].items():
                if _free(state, device) < size:
                    state["states"][_key(process)] = "failed"
                    state["poisoned"] += 1
                    raise CheckpointError("out_of_memory", "no room")
            state["states"][_key(process)] = "locked"

    def claim(self, device: str, size: int) -> None:
        with self._call("claim", None) as state:
            if _free(state, device) < size:
                raise CheckpointError("out_of_memory", f"{size} bytes cannot be had")

    def _move(self, call: str, process: Identity, before: str, after: str) -> None:
        with self._call(call, process) as state:
            _require(state, process, before)
            state["states"][_key(process)] = after

    @contextmanager
    def _call(self, call: str, process: Identity | None) -> Iterator[dict[str, Any]]:
        if process is not None and identify(process.pid) != process:
            raise CheckpointError("gone", f"{process.pid} is gone")
        self._suffer(call, "before", process)
        with self._machine.changing() as state:
            try:
                yield state
            finally:
                state["calls"].append(f"{call} {process.pid}" if process else call)
        self._suffer(call, "after", process)

    def _suffer(self, call: str, when: str, process: Identity | None) -> None:
        with self._machine.changing() as state:
            due = [
                fault
                for fault in state["faults"]
                if (fault["call"], fault["when"]) == (call, when)
                and fault["pid"] in {None, process.pid if process else None}
            ]
            for fault in due[:1]:
                state["faults"].remove(fault)
        for fault in due[:1]:
            _strike(fault["what"])


def _require(state: dict[str, Any], process: Identity, wanted: str) -> None:
    found = state["states"][_key(process)]
    if found == "failed":
        raise CheckpointError("operating_system", "it was poisoned")
    if found != wanted:
        raise CheckpointError("illegal_state", f"it is {found}")


def _strike(what: ErrorCode | str) -> None:
    if what == "hang":
        _hang()
    if what == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    raise CheckpointError(what, "as injected")  # type: ignore[arg-type]  # tests name real codes


def _hang() -> NoReturn:
    while True:
        threading.Event().wait()


def make() -> FakeCheckpoint:
    """For ``--import``."""
    return FakeCheckpoint(FakeMachine(os.environ[VARIABLE]))
