"""The parkings of one server's kernels: a record with status and target each, and one reconciler that moves it.

Requests, timers and the gate's wake-ups write the target only; the reconciler, one task per kernel while there is
something to do, writes the status.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from jupyter_gpushare.session.parking.parts import ParkOutcome
from jupyter_gpushare.session.parking.record import Parking
from jupyter_gpushare.session.parking.sentences import (
    A_CELL_CAME,
    CELL_RUNNING,
    ENDED_MEANWHILE,
    NO_LONGER_WANTED,
    OUR_FAULT,
    SERVER_STOPS,
)

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

    from jupyter_gpushare.session.parking.moves import Moves
    from jupyter_gpushare.session.parking.record import AskedBy, Goal

__all__ = ["Parkings"]


class Parkings:
    """Lives on the event loop. Requests return at once; the reconcilers do the work.

    Args:
        moves: carry out one attempt.
        changed: called whenever a parking moved on.
        log: where trouble goes.
    """

    def __init__(self, moves: Moves, *, changed: Callable[[], None], log: logging.Logger) -> None:
        self._moves = moves
        self._changed = changed
        self._log = log
        self._known: dict[str, Parking] = {}
        self._endings: set[asyncio.Task[None]] = set()

    def of(self, kernel_id: str) -> Parking:
        """The record of one kernel."""
        return self._known.setdefault(kernel_id, Parking(kernel_id))

    def all(self) -> list[Parking]:
        """Every record there is: kernels that were never parked may have none."""
        return list(self._known.values())

    def park(self, kernel_id: str, *, asked_by: AskedBy, when_idle: bool = False) -> asyncio.Future[ParkOutcome]:
        """Want it parked, now or as soon as no cell runs; how that ends."""
        parking = self.of(kernel_id)
        answer = self._answer_at_once(parking, when_idle=when_idle)
        future: asyncio.Future[ParkOutcome] = asyncio.get_running_loop().create_future()
        if answer is not None:
            future.set_result(answer)
            return future
        if _is_coming_back(parking):
            parking.awaiting.append(future)
            parking.park_again = True
            return future
        parking.awaiting.append(future)
        parking.when_idle = when_idle
        if parking.status == "running" and when_idle:
            parking.enter("asked")
        self._aim(parking, "parked", asked_by)
        return future

    def _answer_at_once(self, parking: Parking, *, when_idle: bool) -> ParkOutcome | None:
        if parking.is_ending:
            return ParkOutcome(ENDED_MEANWHILE)
        if parking.status == "parked" and parking.target == "parked":
            return ParkOutcome(None, parking.memory or 0)
        if not when_idle and _is_coming_back(parking):
            return ParkOutcome(A_CELL_CAME)
        if not when_idle and self._moves.is_working(parking.kernel_id):
            return ParkOutcome(CELL_RUNNING)
        return None

    def resume(self, kernel_id: str, *, asked_by: AskedBy = "owner") -> bool:
        """Want it back; False when there is nothing to bring back."""
        parking = self._known.get(kernel_id)
        if parking is None or parking.is_ending or (parking.status == "running" and parking.target == "running"):
            return False
        self._aim(parking, "running", asked_by)
        return True

    def wake(self, kernel_id: str, *, from_inside: bool = False) -> None:
        """A message that needs the kernel has arrived at its gate; *from_inside*, at the one inside the kernel.

        What waits inside is not counted here, so it is remembered until an interrupt aborts it or the gate opens.
        """
        parking = self._known.get(kernel_id)
        if parking is None or parking.status in ("running", "asked"):
            return  # its gate is open: the message has got to it, or will
        if self.resume(kernel_id, asked_by="message"):
            parking.held_inside |= from_inside

    def interrupted(self, kernel_id: str) -> None:
        """The held cells were aborted: with nothing waiting any more, it need not come back yet."""
        parking = self._known.get(kernel_id)
        if parking is not None:
            parking.held_inside = False
        called_off = parking is not None and parking.status == "waiting" and parking.asked_by == "message"
        if parking is not None and called_off and not self._moves.has_waiting(parking):
            self._aim(parking, "parked", parking.asked_by)

    def look_again(self) -> None:
        """Something changed that a reconciler may be waiting for: a cell ended, there is a new sample."""
        for parking in self._known.values():
            parking.stir.set()

    def forget(self, kernel_id: str) -> None:
        """The kernel's process ended, by whatever hand: nothing of it is left to park or to bring back."""
        parking = self._known.pop(kernel_id, None)
        if parking is None:
            return
        if parking.task is not None:
            parking.task.cancel()
        parking.tell(ParkOutcome(ENDED_MEANWHILE))
        if parking.parks or parking.is_off:
            ending = asyncio.get_running_loop().create_task(self._clean_up(kernel_id, parking.task))
            self._endings.add(ending)
            ending.add_done_callback(self._endings.discard)

    async def before_end(self, kernel_id: str) -> bool:
        """The kernel's process is about to be ended; True when only a plain kill will do.

        The way out of a process whose GPU state is away would touch the GPU. And some drivers need care before the
        kill of a process that ever came back.
        """
        parking = self._known.get(kernel_id)
        if parking is None:
            return False
        parking.is_ending = True
        if parking.status == "asked":
            self._aim(parking, "running", parking.asked_by)
        was_moved = bool(parking.parks) and await self._moves.before_kill(kernel_id)
        return was_moved or parking.is_off

    async def stop(self) -> list[str]:
        """The server ends. The kernels that are parked, which end with it as every kernel does."""
        left = [parking.kernel_id for parking in self._known.values() if parking.parked is not None]
        came_back = [parking.kernel_id for parking in self._known.values() if parking.parks and not parking.is_off]
        # Once this has stopped nobody could do it, and the server ends its kernels after us.
        await asyncio.gather(*map(self.before_end, came_back), return_exceptions=True)
        for parking in self._known.values():
            parking.tell(ParkOutcome(SERVER_STOPS))
        for kernel_id in list(self._known):
            self.forget(kernel_id)
        await asyncio.gather(*self._endings, return_exceptions=True)
        return left

    def _aim(self, parking: Parking, target: Goal, asked_by: AskedBy) -> None:
        parking.target = target
        parking.asked_by = asked_by
        parking.stir.set()
        if parking.task is None and not parking.is_settled:
            parking.task = asyncio.get_running_loop().create_task(self._reconcile(parking))
        self._changed()

    async def _clean_up(self, kernel_id: str, task: asyncio.Task[None] | None) -> None:
        if task is not None:
            await asyncio.wait([task])
        await self._moves.clean_up(kernel_id)

    async def _reconcile(self, parking: Parking) -> None:
        """Move *parking* until it is where it should be; there is one of these at a time for a kernel."""
        try:
            while not parking.is_settled:
                await (self._towards_parked if parking.target == "parked" else self._towards_running)(parking)
                self._changed()
        except Exception:  # noqa: BLE001  # a fault of ours must not leave a kernel behind a closed gate
            self._log.exception("Parking kernel %s failed for a reason of ours", parking.kernel_id)
            self._give_up(parking)
        finally:
            parking.task = None

    def _give_up(self, parking: Parking) -> None:
        """After a fault of ours: what is parked stays safe, what runs goes on, and the next request tries again."""
        if parking.parked is None:
            self._moves.open_gate(parking)
        parking.enter("running" if parking.parked is None else "parked")
        parking.target = "running" if parking.parked is None else "parked"
        parking.refuse(OUR_FAULT)
        parking.tell(ParkOutcome(OUR_FAULT))
        self._changed()

    async def _towards_parked(self, parking: Parking) -> None:
        if parking.status == "waiting":
            parking.enter("parked")
            parking.park_again = False
            parking.tell(ParkOutcome(None, parking.memory or 0))
            return
        if parking.status == "asked" and self._moves.is_busy(parking.kernel_id):
            # Cells of %gpushare alone are not counted as cells, and the one that asked may itself still run.
            await parking.stirred(self._moves.deadlines.look_s)
            return
        await self._moves.park(parking)

    async def _towards_running(self, parking: Parking) -> None:
        if parking.parked is None:
            parking.enter("running")
            parking.tell(ParkOutcome(NO_LONGER_WANTED))
            return
        pause_s = self._moves.deadlines.retry_first_s
        while parking.target == "running" and parking.parked is not None:
            if await self._moves.resume(parking):
                return
            await parking.stirred(pause_s)
            pause_s = min(pause_s * 1.5, self._moves.deadlines.retry_last_s)
            if parking.asked_by == "message" and not self._moves.has_waiting(parking):
                parking.target = "parked"


def _is_coming_back(parking: Parking) -> bool:
    """Whether somebody waits for it, or it was wanted back a moment ago: that goes first."""
    return parking.status in ("waiting", "resuming") or parking.target == "running" != parking.status
