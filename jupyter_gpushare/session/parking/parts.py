"""What the state machine of parking stands on, as it sees it: gates, the Parker, the examiner. No implementation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_gpushare.parking.sequence import Parked, Resumed, Step, Target
    from jupyter_gpushare.parking.verdict import NotParkable, Verdict

__all__ = ["Examined", "Examines", "Gate", "Gates", "ParkOutcome", "ParksAndResumes"]


class Gate(Protocol):
    """Holds one kernel's messages while it is closed."""

    @property
    def held(self) -> int:
        """How many messages that wake the kernel are held."""

    async def close(self) -> None:
        """Let nothing through that can run user code."""

    async def barrier(self, deadline_s: float) -> None:
        """Return once everything that was let through before has been dealt with by the kernel.

        Raises:
            BarrierFailed: the kernel did not answer in time.
        """

    def open(self) -> None:
        """Let everything through again, what was held first and in order; OSError when that cannot be."""

    def answer_for_frozen(self, frozen: bool) -> None:  # noqa: FBT001  # a switch
        """Answer for a kernel that is stopped and cannot, or no longer do so."""

    def disturb(self) -> None:
        """The part of ours in the kernel holds something itself."""


class Gates(Protocol):
    """The gates of all kernels of a server."""

    def of(self, kernel_id: str) -> Gate:
        """The gate of one kernel."""

    def can_gate(self, kernel_id: str) -> bool:
        """Whether the kernel's messages pass through here at all."""

    def environment(self, kernel_id: str) -> Mapping[str, str]:
        """What a kernel needs in its environment to keep its own layer of the gate."""

    def forget(self, kernel_id: str) -> None:
        """The kernel is no more."""


class ParksAndResumes(Protocol):
    """Moves GPU state off the device and back, safely; `jupyter_gpushare.parking.sequence.Parker` is the real one."""

    async def park(self, target: Target, began: Callable[[Step], None]) -> Parked:
        """Park *target*; raises ParkFailed with everything undone, or what is left parked."""

    async def resume(self, parked: Parked, began: Callable[[Step], None]) -> Resumed:
        """Bring it back; raises NoRoom with nothing changed, or GpuStateLost."""

    async def forget(self, kernel_id: str) -> None:
        """The kernel ended: give back whatever was booked for it."""

    async def before_kill(self, kernel_id: str) -> bool:
        """The kernel is about to be killed: do what the driver needs first; True when its GPU state is away then."""


@dataclass(frozen=True, slots=True)
class Examined:
    """What an examination found: *target* is what would move, None where nothing can be said or nothing is held."""

    verdict: Verdict
    target: Target | None


class Examines(Protocol):
    """Finds out whether a kernel can be parked."""

    async def __call__(self, kernel_id: str) -> Examined:
        """Look at everything afresh: the devices, the processes, and inside the kernel."""


@dataclass(frozen=True, slots=True)
class ParkOutcome:
    """How an attempt to park ended: *refusal* is None when it is parked."""

    refusal: NotParkable | None
    memory: int = 0
