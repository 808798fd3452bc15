"""Bringing a kernel back, by what its processes are and not by what was meant: the whole of a resume, and every undo.

Room, one protocol (DESIGN 7): the device's token, a reading with a margin, a claim, and the restore at once, all in one
hold of the token. The checkpoint process refuses any other restore: without room it would lose the kernel.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.devices.identity import is_alive
from jupyter_gpushare.parking import trouble
from jupyter_gpushare.parking.checkpoint import CheckpointError, ProcessState
from jupyter_gpushare.parking.persistence import completed
from jupyter_gpushare.parking.sequence import GpuStateLost, NoRoom, Step

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from jupyter_gpushare.devices.identity import Identity
    from jupyter_gpushare.parking.remote_checkpoint import RemoteCheckpoint
    from jupyter_gpushare.parking.room import Room, RoomReading
    from jupyter_gpushare.parking.sequence import Target
    from jupyter_gpushare.rules.message import Message

    Begin = Callable[[Step], Awaitable[None]]
    Thaw = Callable[[], Awaitable[None]]

__all__ = ["BringBack"]

_PAUSES_S: Final = (0.05, 0.5, 1.0)
# NVIDIA/cuda-checkpoint #44: a process that the driver can never restore again answers with this for ever.
_POISON: Final = "operating_system"
_POISONED_AFTER: Final = 3


class BringBack:
    """Restores and unlocks the processes of one kernel together.

    Args:
        checkpoint: the checkpoint process.
        room: how much a device has free.
        margin: bytes that must be free beyond what comes back.
    """

    def __init__(self, checkpoint: RemoteCheckpoint, room: Room, margin: int) -> None:
        self._checkpoint = checkpoint
        self._room = room
        self._margin = margin
        self._refusals: Counter[Identity] = Counter()

    async def bring(self, target: Target, begin: Begin, thaw: Thaw | None = None) -> None:
        """Let every process of *target* run with its GPU, whatever it is now. May be tried again after `NoRoom`.

        Args:
            target: what goes together.
            begin: called before each step.
            thaw: for a kernel that is frozen: lets it go on, called as late as can be.

        Raises:
            NoRoom: not now; everything is as safe as before.
            GpuStateLost: for good, of at least one process. The others run.
        """
        # A frozen process answers no driver call at all, and was attested to be checkpointed before.
        away = target.processes if thaw else await self._away(target)
        lost = await self._restore_all(target, away, begin, thaw) if away else {}
        await self._unlock_all(target, begin)
        await begin(Step.ATTEST_RUNNING)
        await self._attest(target, lost)

    async def states(self, target: Target) -> dict[Identity, ProcessState | None]:
        """What each process is now; None for one that has ended.

        Raises:
            NoRoom: the driver does not say; to be asked again later.
        """
        return {process: await self.settled(process) for process in target.processes}

    async def _away(self, target: Target) -> tuple[Identity, ...]:
        states = await self.states(target)
        return tuple(process for process, state in states.items() if state is ProcessState.CHECKPOINTED)

    async def settled(self, process: Identity) -> ProcessState | None:
        """What *process* is now, once the driver has answered; None when it has ended.

        Raises:
            NoRoom: the driver does not say; to be asked again later.
        """
        problem = ""
        for pause_s in (*_PAUSES_S, None):
            try:
                return await self._checkpoint.state(process)
            except CheckpointError as error:
                if error.code == "gone" or not is_alive(process):
                    return None
                problem = error.text
            if pause_s is not None:
                await asyncio.sleep(pause_s)
        raise NoRoom(trouble.unsettled(problem))

    async def _restore_all(
        self, target: Target, away: tuple[Identity, ...], begin: Begin, thaw: Thaw | None
    ) -> dict[Identity, Message]:
        needs = target.memory_of_all(away)
        try:
            await begin(Step.TOKEN)
            await self._take_tokens(target.kernel_id, sorted(needs))
            await begin(Step.ROOM)
            claims = {device: await self._read_room(device, need) for device, need in sorted(needs.items())}
            await begin(Step.RESTORE)
            if thaw:
                await thaw()
                away = await self._away(target)
            await self._claim(target.kernel_id, claims)
            return await self._restore_each(target, away, sorted(needs))
        except CheckpointError as error:
            raise NoRoom(trouble.restore_to_be_repeated(error.text)) from error
        finally:
            await completed(self._drop_tokens(target.kernel_id))

    async def _take_tokens(self, holder: str, devices: Sequence[str]) -> None:
        # In the order of their names everywhere, so that two kernels of several devices never wait for each other.
        for device in devices:
            if not await self._checkpoint.take_token(device, holder):
                raise NoRoom(trouble.token_taken(device))

    async def _drop_tokens(self, holder: str) -> None:
        try:
            await self._checkpoint.drop_tokens(holder)
        except CheckpointError as error:
            if error.code not in {"died", "deadline"}:  # with that process its tokens ended
                raise

    async def _read_room(self, device: str, size: int) -> int:
        """How much to claim on *device* so that *size* bytes may come back."""
        reading = await self._room(device)
        if reading.reason is not None:
            raise NoRoom(reading.reason)
        if reading.free is None:
            raise NoRoom(trouble.room_unknown("no number"))
        need = needed(size, self._margin, reading)
        if reading.free < need:
            raise NoRoom(trouble.room_short(need, reading.free))
        return min(need, max(0, reading.whole - reading.claim_cost))

    async def _claim(self, holder: str, claims: Mapping[str, int]) -> None:
        for device, size in claims.items():
            try:
                await self._checkpoint.claim(device, size, holder)
            except CheckpointError as error:
                raise NoRoom(trouble.claim_refused(error.text)) from error

    async def _restore_each(
        self, target: Target, away: Sequence[Identity], devices: Sequence[str]
    ) -> dict[Identity, Message]:
        """Restore all of *away*; which of them are lost. Room was claimed for all, so one failure spares the rest."""
        lost: dict[Identity, Message] = {}
        for process in away:
            size = sum(target.memory_of(process).values())
            try:
                await self._checkpoint.restore(process, target.kernel_id, devices, size)
            except CheckpointError as error:
                message = await self._loss(process, error)
                if message is not None:
                    lost[process] = message
        return lost

    async def _loss(self, process: Identity, error: CheckpointError) -> Message | None:
        """Why *process* is lost after a restore that failed with *error*; None when it did come back.

        Raises:
            NoRoom: it is still checkpointed, and may be tried again.
        """
        state = await self.settled(process)
        if state in {ProcessState.LOCKED, ProcessState.RUNNING}:
            return None
        if state is None:
            return trouble.gone()
        self._refusals[process] += error.code == _POISON
        if state is ProcessState.FAILED or self._refusals[process] >= _POISONED_AFTER:
            return trouble.poisoned(error.text)
        raise NoRoom(trouble.restore_to_be_repeated(error.text))

    async def _unlock_all(self, target: Target, begin: Begin) -> None:
        await begin(Step.UNLOCK)
        for process, state in (await self.states(target)).items():
            if state is ProcessState.LOCKED:
                await self._unlock(process)

    async def _unlock(self, process: Identity) -> None:
        try:
            await self._checkpoint.unlock(process)
        except CheckpointError as error:
            # It may have happened all the same; and what ended meanwhile is for `_attest` to find.
            if await self.settled(process) is ProcessState.LOCKED:
                raise NoRoom(trouble.restore_to_be_repeated(error.text)) from error

    async def _attest(self, target: Target, lost: dict[Identity, Message]) -> None:
        for process, state in (await self.states(target)).items():
            if state is None:
                lost.setdefault(process, trouble.gone())
            elif state is ProcessState.FAILED:
                lost.setdefault(process, trouble.poisoned("the driver says that it failed"))
            elif state is not ProcessState.RUNNING and process not in lost:
                raise NoRoom(trouble.restore_to_be_repeated(f"it is {state.value}"))
            self._refusals.pop(process, None)
        if lost:
            raise GpuStateLost(next(iter(lost.values())))


def needed(size: int, margin: int, reading: RoomReading) -> int:
    """Bytes that must be free for *size* to come back. One that had nearly all of a device needs no margin on top."""
    return max(size, min(size + margin, reading.whole))
