"""What a driver can do to a process's GPU state. Implemented by CUDA's driver and by the simulated machine.

The states, their order and the errors are those of CUDA's process checkpoint (CUDA Driver API, "CUDA Checkpointing").
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

if TYPE_CHECKING:
    from jupyter_gpushare.devices.identity import Identity

__all__ = ["Checkpoint", "CheckpointDriver", "CheckpointError", "ErrorCode", "ProcessState"]

ErrorCode = Literal[
    # what a driver says
    "invalid_value",
    "out_of_memory",
    "not_initialized",
    "operating_system",
    "illegal_state",
    "not_ready",
    "not_supported",
    "not_permitted",
    "unknown",
    # what only the caller of the checkpoint process sees
    "deadline",
    "died",
    # the process that was meant is gone; another one may have its pid
    "gone",
]


class ProcessState(StrEnum):
    """What a process may do with its GPU now. A restored process is LOCKED until it is unlocked."""

    RUNNING = "running"
    LOCKED = "locked"
    CHECKPOINTED = "checkpointed"
    FAILED = "failed"


class CheckpointError(Exception):
    """A call that did not do its work. *code* is constant, the text is for people."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class CheckpointDriver(msgspec.Struct, frozen=True):
    """The driver behind the calls.

    Attributes:
        vendor: ``nvidia`` or ``simulated``.
        version: of the kernel driver, such as ``580.95.05``; empty when it cannot be told.
        cuda: the CUDA version that the driver supports, such as ``13.0``; empty when it cannot be told.
        missing: why processes cannot be checkpointed at all here, empty when they can.
    """

    vendor: Literal["nvidia", "simulated"]
    version: str = ""
    cuda: str = ""
    missing: str = ""


class Checkpoint(Protocol):
    """Blocking calls, each of which may hang: they run in the checkpoint process only.

    Every call on a process raises CheckpointError; ``gone`` when the process with that pid is another one.
    """

    def driver(self) -> CheckpointDriver:
        """Which driver this is."""

    def state(self, process: Identity) -> ProcessState:
        """What the process may do now."""

    def lock(self, process: Identity, timeout_ms: int) -> None:
        """RUNNING to LOCKED: waits for submitted work, at most *timeout_ms*, then fails with ``not_ready``."""

    def checkpoint(self, process: Identity) -> None:
        """LOCKED to CHECKPOINTED: GPU memory moves to the process's own host memory, the device is free of it."""

    def restore(self, process: Identity) -> None:
        """CHECKPOINTED to LOCKED. Without enough room on the device this loses the process's GPU state for good."""

    def unlock(self, process: Identity) -> None:
        """LOCKED to RUNNING."""

    def claim(self, device: str, size: int) -> None:
        """Prove that *size* bytes can be had on *device*, by taking and freeing them; ``out_of_memory`` if not."""
