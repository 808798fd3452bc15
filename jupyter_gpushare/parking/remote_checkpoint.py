"""The server's side of the checkpoint process: every call has a deadline, and a hung call never blocks the server."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from asyncio.subprocess import PIPE
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from jupyter_gpushare.parking.calls import (
    LONGEST_LINE,
    Answer,
    AnyCall,
    AskDriver,
    AskState,
    CheckpointCall,
    Claim,
    DropTokens,
    Freeze,
    Lock,
    Request,
    Restore,
    TakeToken,
    Thaw,
    Unlock,
)
from jupyter_gpushare.parking.checkpoint import CheckpointDriver, CheckpointError, ProcessState
from jupyter_gpushare.parking.stopping import go_on

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping, Sequence

    from jupyter_gpushare.devices.identity import Identity

_T = TypeVar("_T")

__all__ = ["Deadlines", "RemoteCheckpoint", "checkpoint_command"]


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long a call may take, in seconds. Past it the checkpoint process is killed and started anew.

    The driver's copy has been seen at 0.4 GB/s at worst (`copy_bytes_per_s` is half of that), and asking for a state
    blocks while a copy runs.
    """

    start_s: float = 90.0
    ask_s: float = 30.0
    small_s: float = 20.0
    lock_wait_s: float = 3.0
    copy_s: float = 60.0
    copy_bytes_per_s: float = 2e8
    settle_s: float = 300.0
    close_s: float = 5.0

    def copy(self, size: int) -> float:
        """For moving *size* bytes."""
        return self.copy_s + size / self.copy_bytes_per_s


def checkpoint_command(
    simulated: str | os.PathLike[str] | None = None,
    locks: str | os.PathLike[str] | None = None,
    imported: str | None = None,
) -> tuple[str, ...]:
    """The program of a checkpoint process.

    Args:
        simulated: the simulated machine's directory; without it CUDA's driver.
        locks: the directory of the device tokens; without it the host's own.
        imported: ``module:factory`` of another driver, for tests.
    """
    # -P: a file in the notebooks' directory must not stand in for a module of ours.
    command = [sys.executable, "-P", "-m", "jupyter_gpushare.parking.checkpoint_process"]
    for option, value in (("--simulated", simulated), ("--locks", locks), ("--import", imported)):
        command += [option, os.fspath(value)] if value is not None else []
    return tuple(command)


# The checkpoint process sees every device, whatever this server's kernels see, and is no client of MPS.
_NOT_INHERITED: Final = ("CUDA_VISIBLE_DEVICES", "CUDA_MPS_PIPE_DIRECTORY", "LD_PRELOAD")


class _Child:
    """One checkpoint process that is running."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018  # both are pipes
        self.process = process
        self._in, self._out = process.stdin, process.stdout
        self._answers = msgspec.json.Decoder(Answer)
        self._last = 0

    @property
    def is_running(self) -> bool:
        return self.process.returncode is None

    async def ask(self, call: AnyCall) -> Answer:
        """The answer to *call*.

        Raises:
            CheckpointError: ``died``, when there is none, or one that makes no sense.
        """
        self._last += 1
        try:
            self._in.write(msgspec.json.encode(Request(self._last, call)) + b"\n")
            await self._in.drain()
        except OSError as trouble:
            raise CheckpointError("died", f"the checkpoint process cannot be reached ({trouble})") from trouble
        return await self._answer()

    async def _answer(self) -> Answer:
        try:
            line = await self._out.readline()
        except (OSError, ValueError) as trouble:  # a ValueError is asyncio's word for a line without an end
            raise CheckpointError("died", f"the checkpoint process cannot be understood ({trouble})") from trouble
        if not line:
            raise CheckpointError("died", "the checkpoint process ended")
        return self._read(line)

    def _read(self, line: bytes) -> Answer:
        try:
            answer = self._answers.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as trouble:
            raise CheckpointError("died", f"the checkpoint process answered nonsense ({trouble})") from trouble
        if answer.id != self._last:
            raise CheckpointError("died", "the checkpoint process answered another question")
        return answer

    async def ready(self) -> None:
        """Wait until it has initialised its driver, which it says as an answer to a question with number 0."""
        if (answer := await self._answer()).error is not None:
            raise CheckpointError("died", answer.text)

    async def end(self, patience_s: float) -> bool:
        """Ask it to end by closing its input, and force it after *patience_s*. False when even that has no effect."""
        self._in.close()
        return await self._has_ended(patience_s) or await self.kill(patience_s)

    async def kill(self, patience_s: float) -> bool:
        """End it by force. False when that has no effect within *patience_s*."""
        self._in.close()
        if self.is_running:
            self.process.kill()
        return await self._has_ended(patience_s)

    async def _has_ended(self, patience_s: float) -> bool:
        try:
            await asyncio.wait_for(self.process.wait(), patience_s)
        except TimeoutError:
            return False
        return True


class RemoteCheckpoint:
    """A checkpoint process and its calls, one after the other. It starts at the first call, and again after it ended.

    Every call raises CheckpointError: what the driver said, ``deadline`` when it took too long, ``died`` when the
    process ended meanwhile. A cancelled call still runs to its end, and the next one waits for it.

    Args:
        command: see `checkpoint_command`.
        deadlines: how long calls may take.
        environ: the process's environment; without it this one's.
        log: where restarts are reported.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        deadlines: Deadlines | None = None,
        environ: Mapping[str, str] | None = None,
        log: logging.Logger | logging.LoggerAdapter[logging.Logger] | None = None,
    ) -> None:
        self.deadlines = deadlines or Deadlines()
        self._command = tuple(command)
        self._environ = dict(os.environ if environ is None else environ)
        self._log = log or logging.getLogger(__name__)
        self._child: _Child | None = None
        self._turn = asyncio.Lock()
        self._frozen: dict[Identity, None] = {}
        self._tasks: set[asyncio.Task[object]] = set()
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The checkpoint process's id while it runs."""
        return self._child.process.pid if self._child is not None and self._child.is_running else None

    async def driver(self) -> CheckpointDriver:
        """Which driver is behind it."""
        answer = await self._call(AskDriver(), self.deadlines.ask_s)
        if answer.driver is None:
            raise CheckpointError("died", "the checkpoint process left the driver out of its answer")
        return answer.driver

    async def state(self, process: Identity) -> ProcessState:
        """What *process* may do now."""
        answer = await self._call(AskState(process), self.deadlines.ask_s)
        if answer.state is None:
            raise CheckpointError("died", "the checkpoint process left the state out of its answer")
        return answer.state

    async def lock(self, process: Identity, timeout_s: float | None = None) -> None:
        """RUNNING to LOCKED; ``not_ready`` when work that was submitted lasts longer than *timeout_s*."""
        wait_s = self.deadlines.lock_wait_s if timeout_s is None else timeout_s
        await self._call(Lock(process, round(wait_s * 1000)), wait_s + self.deadlines.small_s)

    async def checkpoint(self, process: Identity, size: int = 0) -> None:
        """LOCKED to CHECKPOINTED; *size* bytes move, which sets the deadline."""
        await self._call(CheckpointCall(process), self.deadlines.copy(size))

    async def restore(self, process: Identity, holder: str, devices: Iterable[str], size: int = 0) -> None:
        """CHECKPOINTED to LOCKED. ``illegal_state`` unless *holder* has the *devices*' tokens and claimed there."""
        await self._call(Restore(process, holder, tuple(devices)), self.deadlines.copy(size))

    async def unlock(self, process: Identity) -> None:
        """LOCKED to RUNNING."""
        await self._call(Unlock(process), self.deadlines.small_s)

    async def claim(self, device: str, size: int, holder: str) -> None:
        """Prove *size* bytes of room on *device*, whose token *holder* has; ``out_of_memory`` if there are not."""
        await self._call(Claim(device, size, holder), self.deadlines.ask_s)

    async def take_token(self, device: str, holder: str) -> bool:
        """Take *device*'s token for *holder*; False when somebody else has it. It is lost when the process ends."""
        answer = await self._call(TakeToken(device, holder), self.deadlines.small_s)
        return answer.taken is True

    async def drop_tokens(self, holder: str) -> None:
        """Give all tokens of *holder* back."""
        await self._call(DropTokens(holder), self.deadlines.small_s)

    async def freeze(self, processes: Iterable[Identity]) -> None:
        """Stop *processes* until `thaw`, or until this server is gone."""
        wanted = tuple(processes)
        self._frozen.update(dict.fromkeys(wanted))
        await self._call(Freeze(wanted), self.deadlines.small_s)

    async def thaw(self, processes: Iterable[Identity]) -> None:
        """Continue *processes*. Never fails: it needs no driver, and so no checkpoint process."""
        wanted = tuple(processes)
        for process in wanted:
            self._frozen.pop(process, None)
            go_on(process)
        with suppress(CheckpointError):  # one that ended watches nobody any more
            await self._call(Thaw(wanted), self.deadlines.small_s)

    async def aclose(self) -> None:
        """End the checkpoint process, also in the middle of a call. What it had frozen goes on, its tokens are free."""
        self._closed = True
        if self._child is not None and not await self._child.end(self.deadlines.close_s):
            self._log.warning("checkpoint process %s does not end", self._child.process.pid)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _call(self, call: AnyCall, deadline_s: float) -> Answer:
        # A task of its own: who asked may be cancelled, but the driver's work cannot, so the next call waits for it.
        return await asyncio.shield(self._begin(self._in_turn(call, deadline_s)))

    def _begin(self, work: Coroutine[None, None, _T]) -> asyncio.Task[_T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # Who asked may have been cancelled, and then nobody else looks at it.

    async def _in_turn(self, call: AnyCall, deadline_s: float) -> Answer:
        async with self._turn:
            child = await self._running()
            answer = await self._ask(child, call, deadline_s)
        if answer.error is not None:
            raise CheckpointError(answer.error, answer.text)
        return answer

    async def _ask(self, child: _Child, call: AnyCall, deadline_s: float) -> Answer:
        try:
            return await asyncio.wait_for(child.ask(call), deadline_s)
        except TimeoutError:
            await self._discard(child, f"it did not answer {type(call).__name__} within {deadline_s:g} s")
            raise CheckpointError("deadline", f"the driver did not answer within {deadline_s:g} s") from None
        except CheckpointError as trouble:
            await self._discard(child, trouble.text)
            raise

    async def _discard(self, child: _Child, why: str) -> None:
        self._log.warning("checkpoint process %s is replaced: %s", child.process.pid, why)
        self._child = None
        if not await child.kill(self.deadlines.close_s):
            # It hangs inside the system's kernel. It keeps its tokens, as its restore may still take the room.
            self._log.error("checkpoint process %s cannot be ended", child.process.pid)

    async def _running(self) -> _Child:
        if self._closed:
            raise CheckpointError("died", "the checkpoint process was closed")
        if self._child is None or not self._child.is_running:
            self._child = await self._start()
        return self._child

    async def _start(self) -> _Child:
        environ = {name: value for name, value in self._environ.items() if name not in _NOT_INHERITED}
        process = await asyncio.create_subprocess_exec(
            *self._command, stdin=PIPE, stdout=PIPE, env=environ, limit=LONGEST_LINE, start_new_session=True
        )
        child = _Child(process)
        try:
            await asyncio.wait_for(child.ready(), self.deadlines.start_s)
            if self._frozen:
                await asyncio.wait_for(child.ask(Freeze(tuple(self._frozen))), self.deadlines.small_s)
        except (TimeoutError, CheckpointError) as trouble:
            await child.kill(self.deadlines.close_s)
            raise CheckpointError("died", f"the checkpoint process does not start ({trouble})") from trouble
        if self._closed:
            await child.end(self.deadlines.close_s)
            raise CheckpointError("died", "the checkpoint process was closed")
        self._begin(self._watch(child))
        return child

    async def _watch(self, child: _Child) -> None:
        """Start another one as soon as *child* ended, if processes are frozen: one of them must always watch them."""
        await child.process.wait()
        pause_s = 0.1
        while self._frozen and not self._closed:
            try:
                async with self._turn:
                    await self._running()
            except CheckpointError as trouble:
                self._log.warning("nobody watches %d frozen processes: %s", len(self._frozen), trouble.text)
                await asyncio.sleep(pause_s)
                pause_s = min(10.0, pause_s * 2)
            else:
                return
