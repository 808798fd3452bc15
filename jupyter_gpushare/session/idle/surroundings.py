"""What the watch stands on: those who park, the server's kernels, its times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from jupyter_gpushare.rules.message import Message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_gpushare.session.kernels import Kernel

__all__ = ["PARK_FAILED", "LiveKernels", "Parking", "WatchSettings"]

PARK_FAILED = Message("PARK_FAILED", "Parking failed for a reason of ours, which the server's log has.")


class Parking(Protocol):
    """What the watch asks of those who park."""

    def held(self, kernel_id: str) -> int:
        """How many messages wait at the kernel's gate that would wake it."""

    def is_running(self, kernel_id: str) -> bool:
        """Whether its GPU state is where it was: not parked, nor on the way there or back."""

    def refusal(self, kernel_id: str) -> Message | None:
        """Why it could not be parked, by what is known already; None where nothing speaks against it."""

    async def park(self, kernel_id: str) -> Message | None:
        """Park it for the policy, and wait until that ended; why it was refused, None when it was not."""


class LiveKernels(Protocol):
    """What the watch asks of the server's kernels."""

    def all(self) -> Sequence[Kernel]:
        """Every living kernel."""

    def get(self, kernel_id: str) -> Kernel | None:
        """The kernel with that id if it lives."""

    def pid(self, kernel_id: str) -> int | None:
        """Its process here, None for one that runs elsewhere."""

    def execution_state(self, kernel_id: str) -> str:
        """Jupyter's word for what it does."""


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """Times in seconds.

    Attributes:
        every_s: between two judgements.
        cpu_every_s: between two readings of CPU time.
        retry_s: until a refused park is tried again although nothing changed.
        stale_s: the age from which a sample says nothing about now; several times the meter's slowest cadence.
    """

    every_s: float = 1.0
    cpu_every_s: float = 5.0
    retry_s: float = 300.0
    stale_s: float = 60.0
