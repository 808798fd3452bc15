"""After a server died: what it had been parking, by what the processes are now."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from enum import StrEnum
from signal import SIGKILL
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.devices.identity import is_alive
from jupyter_gpushare.parking import stopping, trouble
from jupyter_gpushare.parking.checkpoint import CheckpointError, ProcessState
from jupyter_gpushare.parking.sequence import NoRoom
from jupyter_gpushare.rules.loss import Loss

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.devices.identity import Identity
    from jupyter_gpushare.parking.bring_back import BringBack
    from jupyter_gpushare.parking.journal import Entry, Journal
    from jupyter_gpushare.parking.remote_checkpoint import RemoteCheckpoint
    from jupyter_gpushare.rules.message import Message

__all__ = ["OWN_END_S", "Outcome", "Recovered", "Recovery"]

# ipykernel notices within a second or two that its server is gone.
OWN_END_S: Final = 5.0
_LOOK_S: Final = 0.1


class Outcome(StrEnum):
    """What became of a kernel whose server died."""

    ENDED_ITSELF = "ended_itself"
    RUNS = "runs"
    ENDED_BY_US = "ended_by_us"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Recovered:
    """One kernel of a dead server.

    Attributes:
        kernel_id: which.
        outcome: what became of it.
        lost: bytes of GPU memory that were parked and are gone.
        message: the same for people.
        loss: the kind of loss, where it was we who ended it.
    """

    kernel_id: str
    outcome: Outcome
    lost: int
    message: Message
    loss: Loss | None = None


class Recovery:
    """Cleans up what dead servers of this host left: each of their kernels once, whoever comes first.

    Args:
        journal: where they wrote what they did.
        checkpoint: asks and unlocks.
        states: asks patiently.
        announce: hears of every ending before it happens.
        patience_s: how long a kernel may take to end itself.
        log: for what people need not know.
    """

    def __init__(
        self,
        journal: Journal,
        checkpoint: RemoteCheckpoint,
        states: BringBack,
        announce: Callable[[Recovered], None],
        *,
        patience_s: float = OWN_END_S,
        log: logging.Logger | logging.LoggerAdapter[logging.Logger] | None = None,
    ) -> None:
        self._journal = journal
        self._checkpoint = checkpoint
        self._states = states
        self._announce = announce
        self._patience_s = patience_s
        self._log = log or logging.getLogger(__name__)

    async def run(self) -> list[Recovered]:
        """What became of each kernel of a dead server."""
        inherited = await asyncio.to_thread(self._journal.inherit)
        # What is frozen can neither end itself nor answer the driver.
        for entry in inherited:
            for process in entry.frozen:
                stopping.go_on(process)
        return list(await asyncio.gather(*map(self._recover, inherited)))

    async def _recover(self, entry: Entry) -> Recovered:
        outcome = await self._outcome(entry)
        if outcome is not Outcome.UNKNOWN:
            await asyncio.to_thread(self._journal.forget, entry.target.kernel_id)
        return self._report(entry, outcome)

    async def _outcome(self, entry: Entry) -> Outcome:
        living = [process for process in entry.target.processes if is_alive(process)]
        if not living:
            return Outcome.ENDED_ITSELF
        try:
            stranded = [process for process in living if await self._is_stranded(process)]
        except (NoRoom, CheckpointError) as problem:
            self._log.warning("kernel %s of a dead server: %s", entry.target.kernel_id, problem)
            return Outcome.UNKNOWN
        if stranded and await self._end_themselves(stranded):
            return Outcome.ENDED_ITSELF
        if stranded:
            return self._end(entry, stranded)
        return Outcome.RUNS if any(map(is_alive, living)) else Outcome.ENDED_ITSELF

    async def _is_stranded(self, process: Identity) -> bool:
        """Whether the GPU state of *process* is away, and nobody is left who could want it back. A lock is undone."""
        state = await self._states.settled(process)
        if state is ProcessState.LOCKED:
            await self._checkpoint.unlock(process)
        return state in {ProcessState.CHECKPOINTED, ProcessState.FAILED}

    async def _end_themselves(self, stranded: list[Identity]) -> bool:
        deadline = time.monotonic() + self._patience_s
        while any(map(is_alive, stranded)):
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(_LOOK_S)
        return True

    def _end(self, entry: Entry, stranded: list[Identity]) -> Outcome:
        self._announce(self._report(entry, Outcome.ENDED_BY_US))
        ended = [stopping.send_signal(process, SIGKILL) for process in stranded if is_alive(process)]
        return Outcome.ENDED_BY_US if all(ended) else Outcome.UNKNOWN

    def _report(self, entry: Entry, outcome: Outcome) -> Recovered:
        target = entry.target
        is_lost = outcome in {Outcome.ENDED_ITSELF, Outcome.ENDED_BY_US}
        loss = Loss.ORPHAN_OF_A_DEAD_SERVER if outcome is Outcome.ENDED_BY_US else None
        pids = ", ".join(str(process.pid) for process in target.processes)
        message = trouble.recovered(outcome.value, target.total, pids)
        return Recovered(target.kernel_id, outcome, target.total if is_lost else 0, message, loss)
