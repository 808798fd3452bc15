"""Parks kernels and resumes them: each step journalled before it begins, a failed one undone, parked means attested."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from functools import partial
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from jupyter_gpushare.devices.descendants import descendants
from jupyter_gpushare.devices.identity import identify
from jupyter_gpushare.parking import trouble
from jupyter_gpushare.parking.bring_back import BringBack
from jupyter_gpushare.parking.checkpoint import CheckpointError, ProcessState
from jupyter_gpushare.parking.host_memory import Booking
from jupyter_gpushare.parking.persistence import completed
from jupyter_gpushare.parking.recovery import OWN_END_S, Recovery
from jupyter_gpushare.parking.sequence import GpuStateLost, NoRoom, Parked, ParkFailed, Resumed, Step

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from jupyter_gpushare.devices.identity import Identity
    from jupyter_gpushare.parking.host_memory import HostMemory
    from jupyter_gpushare.parking.journal import Journal
    from jupyter_gpushare.parking.recovery import Recovered
    from jupyter_gpushare.parking.remote_checkpoint import RemoteCheckpoint
    from jupyter_gpushare.parking.room import Room
    from jupyter_gpushare.parking.sequence import Target
    from jupyter_gpushare.rules.message import Message

    Began = Callable[[Step], None]
    Begin = Callable[[Step], Awaitable[None]]

__all__ = ["MARGIN", "Parker"]

MARGIN: Final = 256 << 20
_ROUNDS_OF_FREEZING: Final = 3
_CUT_OFF: Final = frozenset({"died", "deadline"})


class _StepFailed(Exception):  # noqa: N818  # a signal inside this module
    """A step of parking did not do its work, for the reason in *message*."""

    def __init__(self, message: Message) -> None:
        super().__init__(message.text)
        self.message = message


class Parker:
    """One server's parked kernels. Kernels move at the same time; what one does never harms another.

    Args:
        checkpoint: the checkpoint process.
        journal: where each step is written down first.
        host_memory: the host's budget.
        room: how much a device has free (`room.DeviceRoom`).
        margin: bytes that must be free on a device beyond what comes back to it.
        freeze: stop a parked kernel's processes, so that not even a thread of theirs can touch the driver.
        harmful_kill: a restored process that is killed hangs this host's driver, unless it is checkpointed again first
            (NVIDIA/open-gpu-kernel-modules, reference table: #53).
        log: where faults that people need not know are reported.
    """

    def __init__(
        self,
        checkpoint: RemoteCheckpoint,
        journal: Journal,
        host_memory: HostMemory,
        room: Room,
        *,
        margin: int = MARGIN,
        freeze: bool = False,
        harmful_kill: bool = False,
        log: logging.Logger | logging.LoggerAdapter[logging.Logger] | None = None,
    ) -> None:
        self._checkpoint = checkpoint
        self._journal = journal
        self._host_memory = host_memory
        self._back = BringBack(checkpoint, room, margin)
        self._freezes = freeze
        self._harmful_kill = harmful_kill
        self._log = log or logging.getLogger(__name__)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._frozen: dict[str, tuple[Identity, ...]] = {}
        self._resumed: dict[str, Target] = {}

    async def park(self, target: Target, began: Began) -> Parked:
        """Move *target*'s GPU memory to host memory. Its gate is closed and its preflight done: the caller saw to that.

        Args:
            target: what goes together.
            began: told each step, after the journal.

        Raises:
            ParkFailed: it runs on as before, unless the error says otherwise.
        """
        begin = partial(self._begin, target, began)
        async with self._turn(target.kernel_id):
            started = time.monotonic()
            await self._prepare(target, begin)
            try:
                await self._take_off(target, begin)
            except _StepFailed as failure:
                raise await completed(self._undo(target, failure.message, started)) from failure
            except Exception as fault:
                # What could not be undone must be said as after any other failure, or the kernel would be let run.
                self._log.exception("kernel %s: a step failed for a reason of ours", target.kernel_id)
                why = trouble.not_recorded(str(fault)) if isinstance(fault, OSError) else trouble.interrupted()
                raise await completed(self._undo(target, why, started)) from fault
            except BaseException:
                await completed(self._undo(target, trouble.interrupted(), started))
                raise
            return self._parked(target, started)

    async def resume(self, parked: Parked, began: Began) -> Resumed:
        """Give *parked* its GPU back.

        Args:
            parked: what `park` returned, or what `ParkFailed` left over.
            began: told each step, after the journal.

        Raises:
            NoRoom: not now, it stays parked: try again later.
            GpuStateLost: for good. Nothing of the kernel is checkpointed any more, so its gate may open.
        """
        target = parked.target
        async with self._turn(target.kernel_id):
            started = time.monotonic()
            try:
                await self._bring_back(target, began)
            except GpuStateLost:
                await completed(self._settle(target.kernel_id))
                raise
            except BaseException:
                await completed(self._note(target, Step.PARKED))
                raise
            await completed(self._settle(target.kernel_id))
            self._resumed[target.kernel_id] = target
            return Resumed(time.monotonic() - started)

    async def forget(self, kernel_id: str) -> None:
        """The kernel has ended: nothing of it is frozen, booked or journalled any more."""
        async with self._turn(kernel_id):
            self._resumed.pop(kernel_id, None)
            await completed(self._thaw(kernel_id))
            await completed(self._settle(kernel_id))

    async def before_kill(self, kernel_id: str, deadline_s: float = 15.0) -> bool:
        """Prepare the kernel for a kill, on the drivers that need it: best effort, at most for *deadline_s* seconds.

        Returns:
            Whether its GPU state may be away now: then its own way out would crash or hang, and it must be killed.
        """
        target = self._resumed.get(kernel_id)
        if not self._harmful_kill or target is None:
            return False
        try:
            await asyncio.wait_for(self._checkpoint_again(target), deadline_s)
        except (TimeoutError, CheckpointError, NoRoom) as problem:
            self._log.warning("kernel %s is ended without another checkpoint: %r", kernel_id, problem)
        return True

    async def recover(
        self, announce: Callable[[Recovered], None] | None = None, *, patience_s: float = OWN_END_S
    ) -> list[Recovered]:
        """Clean up after servers of this host that died; what became of their kernels.

        Args:
            announce: hears of every ending before it happens.
            patience_s: how long a kernel may take to end itself.
        """
        tell = announce or (lambda _: None)
        recovery = Recovery(self._journal, self._checkpoint, self._back, tell, patience_s=patience_s, log=self._log)
        return await recovery.run()

    async def _prepare(self, target: Target, begin: Begin) -> None:
        """What needs no undoing but of the books."""
        try:
            await begin(Step.BOOK)
            await self._book(target)
            await begin(Step.PREFLIGHT)
            for process in target.processes:
                await self._expect(Step.PREFLIGHT, process, ProcessState.RUNNING)
        except _StepFailed as failure:
            await completed(self._settle(target.kernel_id))
            raise ParkFailed(failure.message) from failure
        except BaseException:
            await completed(self._settle(target.kernel_id))
            raise

    async def _book(self, target: Target) -> None:
        book = partial(self._host_memory.book, target.kernel_id, target.total, target.processes)
        try:
            booked = await asyncio.to_thread(book)
        except OSError as error:
            raise _StepFailed(trouble.not_recorded(str(error))) from error
        if not isinstance(booked, Booking):
            raise _StepFailed(booked)

    async def _take_off(self, target: Target, begin: Begin) -> None:
        await begin(Step.LOCK)
        for process in target.processes:
            await self._do(Step.LOCK, process, self._checkpoint.lock(process), ProcessState.LOCKED)
        await begin(Step.CHECKPOINT)
        for process in target.processes:
            size = sum(target.memory_of(process).values())
            moved = self._checkpoint.checkpoint(process, size)
            await self._do(Step.CHECKPOINT, process, moved, ProcessState.CHECKPOINTED)
        await begin(Step.ATTEST_PARKED)
        for process in target.processes:
            await self._expect(Step.ATTEST_PARKED, process, ProcessState.CHECKPOINTED)
        await asyncio.to_thread(self._host_memory.landed, target.kernel_id)
        if self._freezes:
            self._frozen[target.kernel_id] = _with_children(target.processes)
        # Written before anything is frozen, so that a later server knows what to let go on.
        await begin(Step.PARKED)
        if self._freezes:
            await self._freeze(target)

    async def _do(self, step: Step, process: Identity, call: Awaitable[None], wanted: ProcessState) -> None:
        try:
            await call
        except CheckpointError as error:
            # Whether a call that was cut off took effect, only the driver knows.
            if error.code in _CUT_OFF and await self._state(process) is wanted:
                return
            raise _StepFailed(trouble.step_failed(step, error)) from error

    async def _expect(self, step: Step, process: Identity, wanted: ProcessState) -> None:
        try:
            state = await self._state(process)
        except CheckpointError as error:
            raise _StepFailed(trouble.step_failed(step, error)) from error
        if state is not wanted:
            raise _StepFailed(trouble.unexpected_state(step, state.value))

    async def _state(self, process: Identity) -> ProcessState:
        try:
            state = await self._back.settled(process)
        except NoRoom as error:
            raise _StepFailed(trouble.state_unknown(error.message)) from error
        if state is None:
            raise _StepFailed(trouble.gone_while_parking())
        return state

    async def _freeze(self, target: Target) -> None:
        """Stop the processes and what they start meanwhile. Where that fails, parked without being frozen will do."""
        try:
            for _ in range(_ROUNDS_OF_FREEZING):
                known = self._frozen[target.kernel_id]
                await self._checkpoint.freeze(known)
                self._frozen[target.kernel_id] = _with_children(target.processes)
                if set(self._frozen[target.kernel_id]) <= set(known):
                    return
        except CheckpointError as error:
            self._log.warning("kernel %s is parked, but not frozen: %s", target.kernel_id, error.text)
            await completed(self._thaw(target.kernel_id))

    async def _thaw(self, kernel_id: str) -> None:
        if frozen := self._frozen.pop(kernel_id, ()):
            await self._checkpoint.thaw(frozen)

    async def _undo(self, target: Target, message: Message, started: float) -> ParkFailed:
        """Bring back what is away already; the error that says how that went."""
        try:
            await self._bring_back(target, lambda _: None)
        except GpuStateLost as loss:
            await self._settle(target.kernel_id)
            return ParkFailed(loss.message, undone=False, lost=True)
        except Exception as obstacle:  # noqa: BLE001  # whatever it is, the kernel must not be taken for a running one
            self._log.warning("kernel %s stays parked for now: %s", target.kernel_id, obstacle)
            await self._note(target, Step.PARKED)
            return ParkFailed(message, undone=False, leftover=self._parked(target, started))
        await self._settle(target.kernel_id)
        return ParkFailed(message)

    async def _bring_back(self, target: Target, began: Began) -> None:
        async def begin(step: Step) -> None:
            # A journal that cannot be written must not keep anybody's memory away.
            await self._note(target, step)
            began(step)

        thaw = partial(self._thaw, target.kernel_id) if target.kernel_id in self._frozen else None
        await self._back.bring(target, begin, thaw)

    async def _checkpoint_again(self, target: Target) -> None:
        async with self._turn(target.kernel_id):
            for process in target.processes:
                if await self._back.settled(process) is ProcessState.RUNNING:
                    await self._checkpoint.lock(process)
            for process in target.processes:
                if await self._back.settled(process) is ProcessState.LOCKED:
                    await self._checkpoint.checkpoint(process, target.total)

    async def _begin(self, target: Target, began: Began, step: Step) -> None:
        try:
            await self._write(target, step)
        except (OSError, sqlite3.Error) as error:
            raise _StepFailed(trouble.not_recorded(str(error))) from error
        began(step)

    async def _note(self, target: Target, step: Step) -> None:
        try:
            await self._write(target, step)
        except (OSError, sqlite3.Error) as error:
            self._log.warning("kernel %s: the journal cannot be written: %s", target.kernel_id, error)

    async def _write(self, target: Target, step: Step) -> None:
        frozen = self._frozen.get(target.kernel_id, ())
        await asyncio.to_thread(self._journal.begin, target, step, frozen)

    async def _settle(self, kernel_id: str) -> None:
        """Nothing of the kernel is parked: strike it from the books."""
        for strike in (self._journal.forget, self._host_memory.give_back):
            try:
                await asyncio.to_thread(strike, kernel_id)
            except (OSError, sqlite3.Error) as error:
                self._log.warning("kernel %s: it stays in the books for now: %s", kernel_id, error)

    def _parked(self, target: Target, started: float) -> Parked:
        return Parked(target, time.time(), time.monotonic() - started, self._frozen.get(target.kernel_id, ()))

    def _turn(self, kernel_id: str) -> asyncio.Lock:
        """One park or resume of a kernel at a time. A lock lives for as long as somebody waits for it."""
        turn = self._turns.get(kernel_id)
        if turn is None:
            turn = self._turns[kernel_id] = asyncio.Lock()
        return turn


def _with_children(processes: tuple[Identity, ...]) -> tuple[Identity, ...]:
    family = descendants([process.pid for process in processes])
    return tuple(identity for pid in sorted(family) if (identity := identify(pid)) is not None)
