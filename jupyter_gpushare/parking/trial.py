"""The doctor's own programs: starting one, asking for its checksum, parking and resuming it, and ending it.

No program of anybody else is ever touched from here.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.devices.identity import identify
from jupyter_gpushare.parking.checkpoint import CheckpointError, ProcessState

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from jupyter_gpushare.devices.device import Source
    from jupyter_gpushare.devices.identity import Identity
    from jupyter_gpushare.parking.remote_checkpoint import RemoteCheckpoint

__all__ = ["Bench", "Trial", "TrialFailed"]

_END_S: Final = 20.0
_READINGS: Final = 50
_BETWEEN_READINGS_S: Final = 0.1
_NO_GPU: Final = "Free GPU memory, or give this user the GPU, then try again."
# The context of a program costs some hundred MB besides what it asks for.
_CONTEXT_BYTES: Final = 1 << 30


class TrialFailed(Exception):  # noqa: N818  # what happened, not an error of ours
    """A trial did not go as it should. The message is a clause for people, *remedy* what would help, if known."""

    def __init__(self, found: str, remedy: str = "") -> None:
        super().__init__(found)
        self.remedy = remedy


@dataclass(frozen=True, slots=True)
class Bench:
    """Where trials are made.

    Attributes:
        remote: the checkpoint process.
        source: the readings of the devices.
        device: the UUID of the device to try.
        size: bytes that each program holds.
        simulated: the simulated machine's directory, empty for a real device.
        answer_s: how long a program may take to answer.
        kill_needs_checkpoint: whether this driver wants a resumed program checkpointed before it is killed.
    """

    remote: RemoteCheckpoint
    source: Source
    device: str
    size: int
    simulated: str = ""
    answer_s: float = 60.0
    kill_needs_checkpoint: bool = False

    @asynccontextmanager
    async def program(self, *, synchronise: bool = False) -> AsyncIterator[Trial]:
        """A program that holds memory; it is ended in any case.

        Raises:
            TrialFailed: it does not start.
        """
        command = [sys.executable, "-P", "-m", "jupyter_gpushare.parking.trial_program", "--device", self.device]
        command += ["--size", str(self.size), *(["--simulated", self.simulated] if self.simulated else [])]
        process = await asyncio.create_subprocess_exec(
            *command, *(["--synchronise"] if synchronise else []), stdin=PIPE, stdout=PIPE, stderr=DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        trial = Trial(self, process)
        try:
            await trial.begin()
            yield trial
        finally:
            await trial.end()


class Trial:
    """One program, and what was done to it."""

    def __init__(self, bench: Bench, process: asyncio.subprocess.Process) -> None:
        self._bench = bench
        self._process = process
        self._identity: Identity | None = None
        self._checksum = ""
        self._was_resumed = False

    @property
    def identity(self) -> Identity:
        """Who the program is.

        Raises:
            TrialFailed: it ended by itself.
        """
        if self._identity is None:
            raise TrialFailed("the trial program ended before it began")
        return self._identity

    async def begin(self) -> None:
        """Wait until it holds its memory."""
        self._identity = identify(self._process.pid)
        self._checksum = await self._answer()

    async def same_contents(self) -> bool:
        """Whether its memory holds what it held at the beginning."""
        if self._process.stdin is None:
            raise TrialFailed("the trial program has no input")
        try:
            self._process.stdin.write(b"\n")
            await self._process.stdin.drain()
        except OSError as trouble:
            raise TrialFailed(await self._how_it_ended()) from trouble
        return await self._answer() == self._checksum

    async def park(self) -> None:
        """Its GPU state to host memory, attested by the driver."""
        remote = self._bench.remote
        await remote.lock(self.identity)
        await remote.checkpoint(self.identity, self._bench.size)
        state = await remote.state(self.identity)
        if state is not ProcessState.CHECKPOINTED:
            raise TrialFailed(f"after the checkpoint the program is {state.value}")

    async def is_listed(self, *, expected: bool) -> bool:
        """Whether the driver lists it as a holder of memory. Readings lag: what is *expected* has some time to show."""
        for _ in range(_READINGS):
            if await asyncio.to_thread(self._is_listed) == expected:
                return expected
            await asyncio.sleep(_BETWEEN_READINGS_S)
        return not expected

    def _is_listed(self) -> bool:
        uses = [use for use in self._bench.source.read() if use.uuid == self._bench.device]
        return any(held.pid == self.identity.pid for use in uses for held in use.processes or ())

    async def resume(self) -> None:
        """Its GPU state back, with room proven first, as for any notebook."""
        remote, device, holder = self._bench.remote, self._bench.device, f"doctor-{os.getpid()}"
        try:
            if not await remote.take_token(device, holder):
                raise TrialFailed("something else of gpushare is coming back on this device just now; try again")
            await remote.claim(device, self._bench.size + (0 if self._bench.simulated else _CONTEXT_BYTES), holder)
            await remote.restore(self.identity, holder, [device], self._bench.size)
        finally:
            await remote.drop_tokens(holder)
        self._was_resumed = True
        await remote.unlock(self.identity)

    async def ends_by_itself(self, within_s: float) -> str:
        """How the program ended within *within_s*; empty when it goes on."""
        try:
            await asyncio.wait_for(self._process.wait(), within_s)
        except TimeoutError:
            return ""
        return await self._how_it_ended()

    async def end_at_once(self) -> None:
        """End it as the system would, after what this driver needs first."""
        if self._was_resumed and self._bench.kill_needs_checkpoint:
            await self.park()
        await self._kill()

    async def end(self) -> None:
        """Let it end, by force if need be. Never fails: what was to be found out was found out by then."""
        if self._process.returncode is None and self._was_resumed and self._bench.kill_needs_checkpoint:
            try:
                await self.park()
            except (CheckpointError, TrialFailed):
                self._was_resumed = False  # It is parked already, or cannot be: nothing more can be done.
        await self._kill()

    async def _kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), _END_S)
        except TimeoutError as trouble:
            raise TrialFailed(f"process {self._process.pid} does not end although it was killed") from trouble

    async def _answer(self) -> str:
        if self._process.stdout is None:
            raise TrialFailed("the trial program has no output")
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), self._bench.answer_s)
        except TimeoutError as trouble:
            raise TrialFailed(f"the trial program did not answer within {self._bench.answer_s:g} s") from trouble
        return await self._read(line)

    async def _read(self, line: bytes) -> str:
        if not line:
            raise TrialFailed(await self._how_it_ended())
        try:
            content = json.loads(line)
        except ValueError:
            content = None
        if not isinstance(content, dict) or not isinstance(content.get("checksum"), str):
            error = content.get("error") if isinstance(content, dict) else None
            raise TrialFailed(f"the trial program cannot use the GPU: {error or 'its answer is odd'}", _NO_GPU)
        return str(content["checksum"])

    async def _how_it_ended(self) -> str:
        try:
            code = await asyncio.wait_for(self._process.wait(), _END_S)
        except TimeoutError:
            return "the trial program closed its output"
        return f"the trial program ended by {signal.Signals(-code).name}" if code < 0 else f"it ended with code {code}"
