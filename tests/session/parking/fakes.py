"""Small stand-ins for the gate and the Parker, hostile where a test wants them to be."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from jupyter_gpushare.devices.identity import Identity
from jupyter_gpushare.parking.sequence import Parked, Resumed, Step, Target
from jupyter_gpushare.parking.verdict import Parkable
from jupyter_gpushare.session.notices import Notices
from jupyter_gpushare.session.parking.moves import KernelSight, Moves, ParkingDeadlines
from jupyter_gpushare.session.parking.parkings import Parkings
from jupyter_gpushare.session.parking.parts import Examined

if TYPE_CHECKING:
    from collections.abc import Callable

GIB = 1 << 30
TARGET = Target("K", (Identity(1, 1),), {"GPU-0": GIB})


class FakeGate:
    """Counts how often it was closed and opened; *raises* comes out of its barrier."""

    def __init__(self) -> None:
        self.is_open = True
        self.held = 0
        self.raises: Exception | None = None
        self.fails_to_open = 0
        self.frozen = False

    async def close(self) -> None:
        self.is_open = False

    async def barrier(self, deadline_s: float) -> None:  # noqa: ARG002
        if self.raises is not None:
            raise self.raises

    def open(self) -> None:
        if self.fails_to_open:
            self.fails_to_open -= 1
            raise OSError("disk full")
        self.is_open, self.held = True, 0

    def answer_for_frozen(self, frozen: bool) -> None:  # noqa: FBT001
        self.frozen = frozen

    def disturb(self) -> None:
        """Nothing to do."""


class FakeParker:
    """Parks at once, unless *trouble* holds what to raise, step by step; *waits* is awaited in the middle of a park."""

    def __init__(self) -> None:
        self.trouble: list[Exception] = []
        self.waits: asyncio.Event | None = None
        self.harms_at_kill = False
        self.calls: list[str] = []
        self.began, self.refused = asyncio.Event(), asyncio.Event()

    async def park(self, target: Target, began: Callable[[Step], None]) -> Parked:
        self.calls.append("park")
        self.began.set()
        began(Step.CHECKPOINT)
        if self.waits is not None:
            await self.waits.wait()
        if self.trouble:
            raise self.trouble.pop(0)
        return Parked(target, 0.0, 0.1)

    async def resume(self, parked: Parked, began: Callable[[Step], None]) -> Resumed:  # noqa: ARG002
        self.calls.append("resume")
        if self.trouble:
            self.refused.set()
            raise self.trouble.pop(0)
        began(Step.RESTORE)
        return Resumed(0.1)

    async def forget(self, kernel_id: str) -> None:  # noqa: ARG002
        self.calls.append("forget")

    async def before_kill(self, kernel_id: str) -> bool:  # noqa: ARG002
        self.calls.append("before_kill")
        return self.harms_at_kill


class FakeTally:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def parked(self, *_: Any) -> None:
        self.told.append("parked")

    def resumed(self, *_: Any) -> None:
        self.told.append("resumed")

    def refused(self, code: str) -> None:
        self.told.append(code)

    def lost(self) -> None:
        self.told.append("lost")


class Bench:
    """One kernel "K" with everything around it that a test can turn."""

    def __init__(self) -> None:
        self.gate, self.parker, self.tally, self.notices = FakeGate(), FakeParker(), FakeTally(), Notices()
        self.working = self.busy = False
        self.examined = Examined(Parkable(GIB, 1.0, 1.0), TARGET)
        self.on_examine: Callable[[], None] = lambda: None
        log = logging.getLogger("test")
        self.parkings = Parkings(
            Moves(
                gates=self,  # type: ignore[arg-type]
                parker=self.parker,
                kernels=KernelSight(lambda _: self.working, lambda _: self.working or self.busy, lambda _: "eda.ipynb"),
                examine=self._examine,
                free_cache=self._free_cache,
                tally=self.tally,  # type: ignore[arg-type]
                notices=self.notices,
                changed=lambda: None,
                deadlines=ParkingDeadlines(
                    gate_s=1, barrier_s=1, quiet_s=0.1, look_s=0.02, retry_first_s=0.02, retry_last_s=0.02
                ),
                log=log,
            ),
            changed=lambda: None,
            log=log,
        )

    @property
    def record(self) -> Any:
        return self.parkings.of("K")

    def of(self, kernel_id: str) -> FakeGate:  # noqa: ARG002
        return self.gate

    async def settle(self) -> None:
        """Until the reconciler has nothing more to do."""
        while self.record.task is not None:
            await asyncio.wait([self.record.task], timeout=10)

    async def parked(self) -> None:
        """Park it."""
        outcome = await self.parkings.park("K", asked_by="owner")
        assert outcome.refusal is None
        await self.settle()

    async def _examine(self, kernel_id: str) -> Examined:  # noqa: ARG002
        self.on_examine()
        return self.examined

    async def _free_cache(self, kernel_id: str) -> None:
        """Nothing to free."""
