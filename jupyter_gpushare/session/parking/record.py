"""One kernel's parking: where it is, where it should be, and since when."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_gpushare.devices.identity import Identity
    from jupyter_gpushare.parking.sequence import Parked, Step
    from jupyter_gpushare.parking.verdict import NotParkable
    from jupyter_gpushare.session.parking.parts import ParkOutcome

__all__ = ["AskedBy", "Goal", "Parking", "Status"]

Status = Literal["running", "asked", "parking", "parked", "waiting", "resuming"]
Goal = Literal["running", "parked"]
#: Who wants it parked or back: the owner, the idle policy, or a message that arrived at the gate.
AskedBy = Literal["owner", "policy", "message"]


@dataclass(slots=True)
class Parking:
    """Only the reconciler writes *status*; requests, timers and the gate write *target* (DESIGN 6).

    Attributes:
        kernel_id: whose.
        status: where it is.
        target: where it should be.
        since: when that status began, in seconds since the epoch.
        asked_by: who set the target last.
        memory: bytes that are parked or on the move; None while unknown.
        processes: whose memory that is.
        step: the step that was begun last.
        parked: what to give the Parker to bring it back; None while it runs.
        refusal: why the last attempt failed, at *refused_at*; None after one that did not.
        why: why there is no room yet.
        resumed_at: when it came back last; *resumed_s* is how long that took.
        parks: how often it was parked.
        stir: set when something changed that the reconciler may be waiting for.
        task: the reconciler, None while status and target agree.
        when_idle: whether it is to be parked only when no cell runs, however long that takes.
        park_again: whether it is to be parked when the cells are done for which it is coming back.
        held_inside: whether something waits behind the gate inside the kernel.
        is_ending: its process is being ended: nothing is moved any more.
        awaiting: who wants to know how the attempt to park ends.
    """

    kernel_id: str
    status: Status = "running"
    target: Goal = "running"
    since: float = field(default_factory=time.time)
    asked_by: AskedBy = "owner"
    memory: int | None = None
    processes: Sequence[Identity] = ()
    step: Step | None = None
    parked: Parked | None = None
    refusal: NotParkable | None = None
    refused_at: float = 0.0
    why: str = ""
    resumed_at: float | None = None
    resumed_s: float = 0.0
    parks: int = 0
    stir: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    when_idle: bool = False
    park_again: bool = False
    held_inside: bool = False
    is_ending: bool = False
    awaiting: list[asyncio.Future[ParkOutcome]] = field(default_factory=list)

    @property
    def is_moving(self) -> bool:
        """Whether bytes are on their way."""
        return self.status in ("parking", "resuming")

    @property
    def is_off(self) -> bool:
        """Whether its GPU state is off the device, or partly so: nothing may run in the kernel."""
        return self.parked is not None or self.is_moving

    @property
    def is_settled(self) -> bool:
        """Whether status and target agree."""
        return self.status == self.target

    def enter(self, status: Status) -> None:
        """Go to *status*; staying there keeps its beginning."""
        if status != self.status:
            self.status, self.since = status, time.time()

    def refuse(self, refusal: NotParkable) -> None:
        """The attempt to park failed."""
        self.refusal, self.refused_at = refusal, time.time()

    def tell(self, outcome: ParkOutcome) -> None:
        """Tell everybody who waits how the attempt to park ended."""
        waiting, self.awaiting = self.awaiting, []
        for future in waiting:
            if not future.done():
                future.set_result(outcome)

    async def stirred(self, at_most_s: float) -> None:
        """Wait until something changed, or for so long."""
        self.stir.clear()
        try:
            await asyncio.wait_for(self.stir.wait(), at_most_s)
        except TimeoutError:
            return
