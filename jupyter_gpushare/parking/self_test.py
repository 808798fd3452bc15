"""What the doctor tries out with programs of its own: a park and resume, and riskier trials that qualify a driver."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from jupyter_gpushare.parking.checkpoint import CheckpointError
from jupyter_gpushare.parking.gather import gather_process
from jupyter_gpushare.parking.trial import TrialFailed
from jupyter_gpushare.quantity import Memory

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from jupyter_gpushare.parking.checkpoint import ErrorCode
    from jupyter_gpushare.parking.trial import Bench

__all__ = ["QUALIFYING", "TITLES", "Outcome", "TrialCode", "attempt", "park_and_resume"]

TrialCode = Literal["SELF_TEST", "KILL_AFTER_RESUME", "FREEZE", "BACKGROUND_SYNCHRONISE"]

TITLES: Final[dict[TrialCode, str]] = {
    "SELF_TEST": "Self-test",
    "KILL_AFTER_RESUME": "Kill after resume",
    "FREEZE": "Freeze while parked",
    "BACKGROUND_SYNCHRONISE": "Background synchronisation",
}

_REMEDIES: Final[dict[ErrorCode, str]] = {
    "not_permitted": "Run it as the notebooks' user. In a container, let it look into its own processes "
    "(--cap-add SYS_PTRACE); on the host, set kernel.yama.ptrace_scope to 0.",
    "out_of_memory": "Free GPU memory, then try again.",
    "not_supported": "This driver refuses to park on this device; docs/preflight.md lists what it cannot park.",
}
_SEES_NO_PIDS: Final = "In a container, start it with the host's process ids (docker run --pid=host)."

#: Where a resumed program was killed and the host hung, it did so after about 35 s.
_HANGS_AFTER_S: Final = 50.0
_STOPS_WITHIN_S: Final = 10.0
_CRASHES_WITHIN_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a trial went: whether this host and driver passed it, what was seen, and what would help, if known."""

    code: TrialCode
    passed: bool
    found: str
    remedy: str = ""


async def attempt(code: TrialCode, trial: Awaitable[str], deadline_s: float) -> Outcome:
    """Wait for *trial*, which tells what it saw; whatever goes wrong, or takes too long, is its outcome."""
    try:
        return Outcome(code, passed=True, found=await asyncio.wait_for(trial, deadline_s))
    except TimeoutError:
        return Outcome(code, passed=False, found=f"it did not end within {deadline_s:g} s")
    except CheckpointError as trouble:
        return Outcome(code, passed=False, found=trouble.text, remedy=_REMEDIES.get(trouble.code, ""))
    except TrialFailed as trouble:
        return Outcome(code, passed=False, found=str(trouble), remedy=trouble.remedy)


async def park_and_resume(bench: Bench) -> str:
    """A program's memory is parked, leaves the device, and comes back with the contents that it had."""
    async with bench.program() as trial:
        if not await trial.is_listed(expected=True):
            raise TrialFailed("the driver does not list the trial program under its own process id", _SEES_NO_PIDS)
        began = time.monotonic()
        await trial.park()
        parked = time.monotonic() - began
        if await trial.is_listed(expected=False):
            raise TrialFailed("the driver still lists the trial program on the device after it was parked")
        began = time.monotonic()
        await trial.resume()
        resumed = time.monotonic() - began
        if not await trial.same_contents():
            raise TrialFailed("the contents of GPU memory are not what they were: this driver damages them")
    size = Memory(bench.size).human
    return f"{size} parked in {parked:.2f} s, resumed in {resumed:.2f} s, contents as they were"


async def kill_after_resume(bench: Bench) -> str:
    """A program that was resumed is killed, and the host and the device go on."""
    async with bench.program() as trial:
        await trial.park()
        await trial.resume()
        await trial.end_at_once()
    await asyncio.sleep(0 if bench.simulated else _HANGS_AFTER_S)
    async with bench.program() as trial:
        if not await trial.same_contents():
            raise TrialFailed("the device no longer keeps what is written to it")
    first = "checkpointed again first, as this driver needs" if bench.kill_needs_checkpoint else "without a checkpoint"
    return f"the device goes on after a resumed program was killed ({first})"


async def freeze(bench: Bench) -> str:
    """A parked program is stopped and continued, and comes back with the contents that it had."""
    async with bench.program() as trial:
        await trial.park()
        await bench.remote.freeze([trial.identity])
        await _until(lambda: gather_process(trial.identity).state == "T", "the program was not stopped")
        await bench.remote.thaw([trial.identity])
        await _until(lambda: gather_process(trial.identity).state != "T", "the program did not go on")
        await trial.resume()
        if not await trial.same_contents():
            raise TrialFailed("the contents of GPU memory are not what they were")
    return "a parked program can be stopped and continued"


async def background_synchronise(bench: Bench) -> str:
    """What becomes of a program whose background thread waits for the device while it is parked."""
    async with bench.program(synchronise=True) as trial:
        try:
            await trial.park()
        except CheckpointError:
            if not await trial.ends_by_itself(_CRASHES_WITHIN_S):  # It may have ended before it could be looked at.
                raise
        if ended := await trial.ends_by_itself(_CRASHES_WITHIN_S):
            return f"{ended}, as is known: background work stays refused"
        await trial.resume()
        if not await trial.same_contents():
            raise TrialFailed("the contents of GPU memory are not what they were")
    return "the program went on; background work stays refused all the same"


async def _until(holds: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + _STOPS_WITHIN_S
    while not holds():
        if time.monotonic() > deadline:
            raise TrialFailed(otherwise)
        await asyncio.sleep(0.02)


#: The riskier trials, in order: each with programs of its own.
QUALIFYING: Final[tuple[tuple[TrialCode, Callable[[Bench], Coroutine[None, None, str]]], ...]] = (
    ("KILL_AFTER_RESUME", kill_after_resume),
    ("FREEZE", freeze),
    ("BACKGROUND_SYNCHRONISE", background_synchronise),
)
