"""Parking and resuming one kernel: the order of the steps, each journalled before it starts, and their undoing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_gpushare.devices.identity import Identity

__all__ = ["Step", "Target"]


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
    """

    kernel_id: str
    processes: tuple[Identity, ...]
    memory: Mapping[str, int]

    @property
    def total(self) -> int:
        """All bytes that would move."""
        return sum(self.memory.values())
