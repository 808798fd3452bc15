"""What is known of one kernel at one moment, to judge whether it is idle."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = ["IN_USE", "UNREADABLE", "Activity", "Evidence", "Signal"]


class Activity(StrEnum):
    """Why a kernel is not parked by itself, in the order in which it is looked for."""

    CELL_RUNNING = "CELL_RUNNING"
    KERNEL_BUSY = "KERNEL_BUSY"
    MESSAGES_HELD = "MESSAGES_HELD"
    CPU_IN_USE = "CPU_IN_USE"
    CPU_UNREADABLE = "CPU_UNREADABLE"
    GPU_IN_USE = "GPU_IN_USE"
    GPU_UNREADABLE = "GPU_UNREADABLE"
    KEPT = "KEPT"


@dataclass(frozen=True, slots=True)
class Signal:
    """One kind of use: quiet since a moment (seconds since the epoch), in use, or not to be read."""

    quiet_since: float | None
    readable: bool = True


IN_USE: Final = Signal(None)
UNREADABLE: Final = Signal(None, readable=False)


@dataclass(frozen=True, slots=True)
class Evidence:
    """One kernel that holds GPU memory. Times are seconds since the epoch, memory is in bytes.

    Attributes:
        cell_ended: when its last cell ended, or the kernel started.
        cell_began: when the cell that runs longest began; None while none runs.
        execution_state: Jupyter's word, such as ``idle``; polls of other extensions make it ``busy`` for a moment.
        held: messages that wait for it and would wake it.
        cpu: CPU time of its process tree, judged over a sliding window.
        utilisation: of its own processes, by the driver.
        device: of all its devices, whoever uses them; unreadable while somebody does, as that may be others.
        allocations: bytes that its frameworks' own counters report; a change is use.
        memory: what it holds; None while unknown.
        kept_until: until when its owner keeps it from being parked by itself.
    """

    cell_ended: float
    cell_began: float | None = None
    execution_state: str = "idle"
    held: int = 0
    cpu: Signal = UNREADABLE
    utilisation: Signal = UNREADABLE
    device: Signal = UNREADABLE
    allocations: Signal = UNREADABLE
    memory: int | None = None
    kept_until: float | None = None

    @property
    def gpu(self) -> Signal:
        """The best that is known of its GPU use: its own, else the whole device's, else its counters."""
        signals = (self.utilisation, self.device, self.allocations)
        return next((signal for signal in signals if signal.readable), UNREADABLE)
