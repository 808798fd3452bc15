"""Parking and resuming one kernel: the order of the steps, each journalled before it starts, and how they can end."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_gpushare.devices.identity import Identity
    from jupyter_gpushare.rules.message import Message

__all__ = ["GpuStateLost", "NoRoom", "ParkFailed", "Parked", "ParkingTrouble", "Resumed", "Step", "Target"]


class Step(StrEnum):
    """What is done now; the journal holds the step that was begun last."""

    BOOK = "book"
    PREFLIGHT = "preflight"
    LOCK = "lock"
    CHECKPOINT = "checkpoint"
    ATTEST_PARKED = "attest_parked"
    PARKED = "parked"
    TOKEN = "token"  # noqa: S105  # the device's, no secret
    ROOM = "room"
    RESTORE = "restore"
    UNLOCK = "unlock"
    ATTEST_RUNNING = "attest_running"


@dataclass(frozen=True, slots=True)
class Target:
    """What goes together: every process of one kernel that holds a GPU.

    Attributes:
        kernel_id: whose.
        processes: all of them.
        memory: bytes that they hold, by device UUID.
        parts: the same by process, where it is known. Without it a kernel of several processes that came back in part
            waits for room for all of it.
    """

    kernel_id: str
    processes: tuple[Identity, ...]
    memory: Mapping[str, int]
    parts: Mapping[Identity, Mapping[str, int]] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """All bytes that would move."""
        return sum(self.memory.values())

    def memory_of(self, process: Identity) -> Mapping[str, int]:
        """What *process* holds, by device; all of the kernel's when that is not known."""
        return self.parts.get(process, self.memory)

    def memory_of_all(self, processes: tuple[Identity, ...]) -> dict[str, int]:
        """What *processes* hold together, by device, never more than the kernel does."""
        return {
            device: min(whole, sum(self.memory_of(process).get(device, 0) for process in processes))
            for device, whole in self.memory.items()
        }


@dataclass(frozen=True, slots=True)
class Parked:
    """A kernel whose GPU state is in host memory, attested by the driver.

    Attributes:
        target: what was parked.
        since: when, in seconds since the epoch.
        took_s: how long it took.
        frozen: the processes that were stopped afterwards, if any.
    """

    target: Target
    since: float
    took_s: float
    frozen: tuple[Identity, ...] = ()


@dataclass(frozen=True, slots=True)
class Resumed:
    """A kernel that has its GPU back, attested by the driver, after *took_s* seconds."""

    took_s: float


class ParkingTrouble(Exception):  # noqa: N818  # a state to explain, not always an error
    """Something that did not go as wished. *message* is for people."""

    def __init__(self, message: Message) -> None:
        super().__init__(message.text)
        self.message = message


class ParkFailed(ParkingTrouble):
    """A kernel was not parked.

    Attributes:
        undone: it runs on as before.
        leftover: what stayed parked when there was no room to bring it back: resume it, as any parked kernel.
        lost: the driver damaged the kernel's GPU state, or a process of it ended.
    """

    def __init__(
        self, message: Message, *, undone: bool = True, leftover: Parked | None = None, lost: bool = False
    ) -> None:
        super().__init__(message)
        self.undone = undone
        self.leftover = leftover
        self.lost = lost


class NoRoom(ParkingTrouble):  # a state to wait in, no error
    """A kernel cannot come back now. It stays parked, nothing is lost; *message* is a clause that says why."""


class GpuStateLost(ParkingTrouble):  # the word people read
    """A kernel's GPU state is gone for good. *message* says so plainly."""
