"""One attempt to park a kernel, one to bring it back: the steps in their order, and what follows from each failure.

The order is the one that was proven: the gate closes, a barrier shows that nothing is in flight, only then is the
kernel examined and its GPU state moved. On the way back the gate opens last.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_gpushare.parking.sequence import GpuStateLost, NoRoom, ParkFailed, Step
from jupyter_gpushare.parking.verdict import NotParkable
from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.session.lease.agreement import NoBroker
from jupyter_gpushare.session.parking.parts import ParkOutcome
from jupyter_gpushare.session.parking.sentences import (
    A_CELL_CAME,
    CELL_RUNNING,
    COMES_BACK,
    ENDED_MEANWHILE,
    NO_LONGER_WANTED,
    NOT_QUIET,
    NOTHING_HELD,
    OTHER_WAYS,
    OUR_FAULT,
    cannot_park,
    lost,
    resumed,
)

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable

    from jupyter_gpushare.parking.sequence import Target
    from jupyter_gpushare.session.lease.agreement import Agreement
    from jupyter_gpushare.session.notices import Notices
    from jupyter_gpushare.session.parking.parts import Examines, Gate, Gates, ParksAndResumes
    from jupyter_gpushare.session.parking.record import Parking
    from jupyter_gpushare.session.parking.tally import Tally

__all__ = ["KernelSight", "Moves", "ParkingDeadlines"]


@dataclass(frozen=True, slots=True)
class ParkingDeadlines:
    """Seconds. Room is asked for again after *retry_first_s*, then ever more slowly up to *retry_last_s*."""

    gate_s: float = 10.0
    barrier_s: float = 5.0
    quiet_s: float = 1.0
    look_s: float = 0.25
    retry_first_s: float = 0.5
    retry_last_s: float = 2.0


@dataclass(frozen=True, slots=True)
class KernelSight:
    """What parking has to know of a kernel: whether a cell runs, whether anything does, and what people call it."""

    is_working: Callable[[str], bool]
    is_busy: Callable[[str], bool]
    label: Callable[[str], str]


_CELLS_FIRST = (A_CELL_CAME.reason.code, CELL_RUNNING.reason.code)


class _Refused(Exception):  # noqa: N818  # an answer, no error
    """The attempt to park ends here, before anything was touched on the device."""

    def __init__(self, refusal: NotParkable) -> None:
        super().__init__(refusal.reason.text)
        self.refusal = refusal


class Moves:
    """Carries out what the reconciler decides, on one `Parking` at a time, and writes its status.

    Args:
        gates: the kernels' gates.
        parker: what moves the GPU state.
        kernels: what is known of the kernels.
        examine: whether a kernel can be parked.
        free_cache: makes a kernel give up cached memory, so that less has to move; TimeoutError when it is silent.
        tally: counts what was done.
        notices: what people are told.
        changed: called whenever a parking moved on.
        deadlines: how long to wait for what.
        log: where trouble goes.
        agreement: whoever keeps the books of the share, who may have promised it to others; nobody where None.
    """

    def __init__(
        self,
        *,
        gates: Gates,
        parker: ParksAndResumes,
        kernels: KernelSight,
        examine: Examines,
        free_cache: Callable[[str], Awaitable[None]],
        tally: Tally,
        notices: Notices,
        changed: Callable[[], None],
        deadlines: ParkingDeadlines,
        log: logging.Logger,
        agreement: Agreement | None = None,
    ) -> None:
        self._gates = gates
        self._parker = parker
        self._kernels = kernels
        self._examine = examine
        self._free_cache = free_cache
        self._tally = tally
        self._agreement = agreement or NoBroker()
        self._notices = notices
        self._changed = changed
        self.deadlines = deadlines
        self._log = log

    def is_working(self, kernel_id: str) -> bool:
        """Whether a cell, or another request that may run the user's code, is under way."""
        return self._kernels.is_working(kernel_id)

    def is_busy(self, kernel_id: str) -> bool:
        """Whether the kernel does anything at all, as Jupyter sees it: polls of others make it so for a moment."""
        return self._kernels.is_busy(kernel_id)

    def has_waiting(self, parking: Parking) -> bool:
        """Whether a message waits for the kernel to come back."""
        return parking.held_inside or self._gates.of(parking.kernel_id).held > 0

    def open_gate(self, parking: Parking) -> None:
        """Let messages reach the kernel again, in any case: a notebook must never stay behind a closed gate."""
        try:
            self._gates.of(parking.kernel_id).open()
        except KeyError:
            self._log.debug("Kernel %s ended meanwhile", parking.kernel_id)
        except OSError:
            self._log.exception("The gate of kernel %s could not be opened; it is tried again", parking.kernel_id)
            asyncio.get_running_loop().call_later(self.deadlines.retry_last_s, self._open_again, parking)

    def _open_again(self, parking: Parking) -> None:
        if parking.status in ("running", "asked"):
            self.open_gate(parking)

    async def clean_up(self, kernel_id: str) -> None:
        """The kernel's process ended: give back what was booked for it."""
        try:
            await self._parker.forget(kernel_id)
        except Exception:  # noqa: BLE001  # an ending kernel must not be held up; the next start cleans up the rest
            self._log.exception("What was booked for the ended kernel %s could not be given back", kernel_id)

    async def before_kill(self, kernel_id: str) -> bool:
        """What some drivers need before a process that was ever restored is killed; True when only a kill will do."""
        is_away = await self._parker.before_kill(kernel_id)
        if is_away:
            await self._gates.of(kernel_id).close()
        return is_away

    async def park(self, parking: Parking) -> None:
        """Park it, or explain why not; never raises for a failure of the driver or of the kernel."""
        parking.enter("parking")
        parking.memory, parking.processes, parking.step, parking.resumed_at = None, (), None, None
        self._changed()
        gate = self._gates.of(parking.kernel_id)
        began_at = time.monotonic()
        try:
            target = await self._prepare(parking, gate)
            parking.memory, parking.processes = target.total, target.processes
            parking.parked = await self._parker.park(target, lambda step: self._began(parking, step))
        except _Refused as error:
            self._refuse(parking, error.refusal)
        except ParkFailed as error:
            parking.parked = error.leftover
            if error.lost:
                self._tell_lost(parking, error.message)
            self._refuse(parking, _failed(error))
        else:
            self._is_parked(parking, time.monotonic() - began_at)

    async def _prepare(self, parking: Parking, gate: Gate) -> Target:
        """Close the gate, make sure that nothing runs behind it, and find out what would move.

        Raises:
            _Refused: it cannot be parked now; the caller opens the gate again.
        """
        kernel_id, deadlines = parking.kernel_id, self.deadlines
        try:
            await asyncio.wait_for(gate.close(), deadlines.gate_s)
            await gate.barrier(deadlines.barrier_s)
        except Exception as error:
            # Whatever a gate raises, the kernel has not shown that it is quiet.
            self._check_wanted(parking, gate)
            self._log.info("Kernel %s did not become quiet: %s", kernel_id, error)
            # A TimeoutError is an OSError, too; any other one is a disk's, which is not the kernel's doing.
            is_ours = isinstance(error, OSError) and not isinstance(error, TimeoutError)
            raise _Refused(OUR_FAULT if is_ours else NOT_QUIET) from error
        await self._await_quiet(parking)
        self._check_wanted(parking, gate)
        try:
            await self._free_cache(kernel_id)
        except TimeoutError as error:
            # It may still do so at any moment, and must not do so while its GPU state is away.
            raise _Refused(NOT_QUIET) from error
        examined = await self._examine(kernel_id)
        if isinstance(examined.verdict, NotParkable):
            raise _Refused(examined.verdict)
        if examined.target is None or not examined.target.processes:
            raise _Refused(NOTHING_HELD)
        self._check_wanted(parking, gate)
        refusal = await self._agreement.may_park(parking, examined.target.total)
        self._check_wanted(parking, gate)
        if refusal is not None:
            raise _Refused(refusal)
        return examined.target

    async def _await_quiet(self, parking: Parking) -> None:
        """After the barrier nothing runs; that the last cell ended may be told to us a moment later."""
        deadline = time.monotonic() + self.deadlines.quiet_s
        while self._kernels.is_working(parking.kernel_id):
            if time.monotonic() >= deadline:
                raise _Refused(CELL_RUNNING)
            await parking.stirred(0.02)

    def _check_wanted(self, parking: Parking, gate: Gate) -> None:
        if gate.held or parking.held_inside or (parking.target == "running" and parking.asked_by == "message"):
            raise _Refused(A_CELL_CAME)
        if parking.is_ending:
            raise _Refused(ENDED_MEANWHILE)
        if parking.target != "parked":
            raise _Refused(NO_LONGER_WANTED)
        if self._kernels.is_working(parking.kernel_id):
            raise _Refused(CELL_RUNNING)

    def _began(self, parking: Parking, step: Step) -> None:
        parking.step = step
        self._changed()

    def _is_parked(self, parking: Parking, took_s: float) -> None:
        parking.parks += 1
        parking.refusal = None
        parking.enter("parked")
        if parking.parked is not None and parking.parked.frozen:
            self._gates.of(parking.kernel_id).answer_for_frozen(frozen=True)
        self._tally.parked(
            parking.kernel_id,
            parking.memory or 0,
            took_s,
            parking.parked.took_s if parking.parked is not None else took_s,
        )
        parking.tell(ParkOutcome(None, parking.memory or 0))
        if self.has_waiting(parking):
            parking.target, parking.asked_by = "running", "message"

    def _refuse(self, parking: Parking, refusal: NotParkable) -> None:
        """Explain, and go on as if nothing had been asked; what is left parked is brought back."""
        parking.target, parking.held_inside = "running", False
        if refusal.reason.code in _CELLS_FIRST and parking.when_idle and parking.awaiting:
            # It was to wait for the cells anyway, and this one came first.
            self.open_gate(parking)
            parking.enter("asked")
            parking.target = "parked"
            return
        parking.refuse(refusal)
        self._tally.refused(refusal.reason.code)
        if parking.parked is not None:
            parking.parks += 1
            parking.enter("waiting")
        else:
            self.open_gate(parking)
            parking.enter("running")
        self._log.info("Kernel %s was not parked: %s", parking.kernel_id, refusal.reason.text)
        if parking.when_idle and refusal is not NO_LONGER_WANTED:
            # Nobody waits for an answer any more: the cell that asked has ended.
            self._notices.add("warning", cannot_park(refusal))
        parking.tell(ParkOutcome(refusal))

    async def resume(self, parking: Parking) -> bool:
        """One attempt to bring it back; True when it is over, one way or the other."""
        assert parking.parked is not None  # noqa: S101  # the caller looked
        if (why := self._agreement.may_resume(parking)) is not None:
            parking.why = why
            parking.enter("waiting")
            self._changed()
            return False
        if parking.status == "parked":
            parking.enter("resuming")
            self._changed()
        began_at = time.monotonic()
        try:
            await self._parker.resume(parking.parked, lambda step: self._began_resuming(parking, step))
        except NoRoom as error:
            parking.why = error.message.text
        except GpuStateLost as error:
            self._is_lost(parking, error.message)
            return True
        except Exception:  # noqa: BLE001
            # Whatever happened, the state is safest where it is, and the next attempt asks the driver anew.
            self._log.exception("Resuming kernel %s failed and is tried again", parking.kernel_id)
            parking.why = "a step failed and is tried again"
        else:
            self._is_back(parking, time.monotonic() - began_at)
            return True
        parking.enter("waiting")
        self._changed()
        return False

    def _began_resuming(self, parking: Parking, step: Step) -> None:
        parking.step = step
        if step is Step.RESTORE:
            parking.enter("resuming")
        self._changed()

    def _is_back(self, parking: Parking, took_s: float) -> None:
        parking.resumed_at, parking.resumed_s = time.time(), took_s
        self._tally.resumed(parking.kernel_id, parking.memory or 0, took_s)
        message = resumed(took_s)
        values = {**message.values, "notebook": self._kernels.label(parking.kernel_id)}
        self._notices.add("info", Message(message.code, message.template, values))
        self._run_on(parking)

    def _is_lost(self, parking: Parking, why: Message) -> None:
        self._tell_lost(parking, why)
        self._run_on(parking)

    def _tell_lost(self, parking: Parking, why: Message) -> None:
        if parking.is_ending:
            return
        self._log.error("The GPU state of kernel %s is lost: %s", parking.kernel_id, why.text)
        self._tally.lost()
        self._notices.add("loss", lost(self._kernels.label(parking.kernel_id), why))

    def _run_on(self, parking: Parking) -> None:
        """The kernel runs: from now on its messages reach it, those that waited first."""
        parking.parked, parking.memory, parking.processes, parking.why = None, None, (), ""
        parking.enter("running")
        parking.target, parking.held_inside = "running", False
        self.open_gate(parking)
        if parking.park_again:
            parking.park_again, parking.when_idle = False, True
            parking.enter("asked")
            parking.target, parking.asked_by = "parked", "owner"


def _failed(error: ParkFailed) -> NotParkable:
    """What a failed step means to people: it was undone, or what is parked comes back as soon as there is room."""
    return NotParkable(error.message, OTHER_WAYS if error.leftover is None else COMES_BACK)
