"""What a driver does when it is abused: the facts that our rules stand on.

The simulated machine is as hostile as the real driver is said to be, and there the outcome is known. What a real
driver does is put on record; it fails a test only where our rules would not be enough.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.parking.checkpoint import CheckpointError, ProcessState
from jupyter_gpushare.parking.gather import gather_process
from jupyter_gpushare.parking.harmful_drivers import checkpoint_before_kill
from jupyter_gpushare.parking.remote_checkpoint import Deadlines
from jupyter_gpushare.parking.sequence import GpuStateLost
from tests.gpu.driven import Driven, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.gpu.rig import Rig

pytestmark = [pytest.mark.timeout(300), pytest.mark.long]

CRASHES_WITHIN_S = 5.0
MOMENT_S = 0.05


def test_a_restore_without_room(rig: Rig, record: Callable[[str, Any], None]) -> None:
    """Whether a restore that lacks room loses the program for good: why room is proven before every restore."""
    with rig.filled() as (program, digest):
        rig.bare.park(program.pid)
        until(lambda: rig.used() < rig.at_first + rig.unit // 2, "the freed memory")
        with rig.program() as neighbour:
            neighbour.do("hold 4096")
            neighbour.do(f"hold {rig.device.usable.bytes - rig.used() - rig.unit // 2}")
            refused = rig.bare("restore", program.pid)
            kept = rig.used()
        until(lambda: rig.used() < rig.device.usable.bytes - 2 * rig.unit, "the neighbour's end")
        again = [rig.bare("restore", program.pid) for _ in range(2)]
        seen = {
            "refused": refused.code,
            "again": [called.code for called in again],
            "state": rig.bare("state", program.pid).state,
            "same_contents": comes_back(rig, program) == digest if "ok" in {called.code for called in again} else None,
            "kept_after_refusal": rig.used() - rig.at_first,
            "used_at_refusal": kept,
        }
        record("poison", seen)
        program.kill()
    until(lambda: rig.used() < rig.at_first + rig.unit // 2, "the memory of a program that was lost")
    assert refused.code == "out_of_memory"
    if rig.simulated:
        assert seen["again"] == ["operating_system", "operating_system"]


def comes_back(rig: Rig, program: Driven) -> str:
    """The digest of a program after its restore."""
    rig.bare("unlock", program.pid)
    return program.do("digest")


def test_a_synchronisation_while_parked(rig: Rig, record: Callable[[str, Any], None]) -> None:
    """Whether a program that waits for the device while it is parked crashes: why no message reaches a parked kernel."""
    with rig.filled() as (program, digest):
        rig.bare.park(program.pid)
        program.order("synchronise")
        seen = after_parking(rig, program, digest)
    record("synchronise_while_parked", seen)
    if rig.simulated:
        assert seen == "ended by SIGSEGV"


@pytest.mark.parametrize("seconds", [0.02, 0.5])
def test_a_thread_that_synchronises_while_parked(rig: Rig, record: Callable[[str, Any], None], seconds: float) -> None:
    """What becomes of a program with such a thread: why live threads of the user's refuse a park."""
    with rig.filled() as (program, digest):
        program.do(f"often {seconds}")
        calls = [rig.bare(call, program.pid).code for call in ("lock", "checkpoint")]
        if calls == ["ok", "ok"]:
            seen = after_parking(rig, program, digest, has_order=False)
        else:
            seen = f"not parked ({', '.join(calls)}), ended with code {program.ended(CRASHES_WITHIN_S)}"
    record(f"thread_synchronises_every_{seconds:g}_s", seen)
    if rig.simulated:
        assert seen == "ended by SIGSEGV" or "ended with code -11" in seen


def after_parking(rig: Rig, program: Driven, digest: str, *, has_order: bool = True) -> str:
    """How a parked program ends within some seconds, or how it is after a resume and the end of its order."""
    code = program.ended(CRASHES_WITHIN_S)
    if code is not None:
        return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
    rig.bare.resume(program.pid)
    if has_order:
        program.wait()
    return "goes on with its contents" if program.do("digest") == digest else "goes on with other contents"


def test_a_frozen_program_that_wants_to_synchronise(rig: Rig, record: Callable[[str, Any], None]) -> None:
    """A stopped program does not crash; whether it does once it is continued for its restore is put on record.

    It is continued first, as the driver never answers for a stopped process: what it has left to do then runs before
    its memory is back. This is why freezing by itself permits no background work.
    """

    async def story() -> str:
        async with rig.parking(freeze=True) as parking:
            with rig.filled() as (program, digest):
                parked = await parking.park(parking.target(program, rig.unit))
                program.order("synchronise")
                assert await asyncio.to_thread(program.ended, 2.0) is None, "it ended although it was stopped"
                try:
                    await parking.resume(parked)
                except GpuStateLost as loss:
                    return loss.message.code
                await asyncio.to_thread(program.wait)
                assert program.do("digest") == digest
                return "survived with its contents"

    seen = asyncio.run(story())
    record("frozen_and_synchronises", seen)
    assert seen in {"PROCESS_GONE", "survived with its contents"}


def test_work_under_way(rig: Rig, record: Callable[[str, Any], None]) -> None:
    """What becomes of a program that is parked between two launches of its own: why a busy kernel is not parked."""
    with rig.filled() as (program, digest):
        program.do("work 0.1")
        program.order("work 2")
        rig.bare.park(program.pid)
        seen = after_parking(rig, program, digest)
    record("work_under_way", seen)
    if rig.simulated:
        assert seen == "goes on with its contents"


@pytest.fixture
def stopped(rig: Rig) -> Iterator[Driven]:
    """A program that somebody else has stopped."""
    with rig.filled() as (program, _):
        os.kill(program.pid, signal.SIGSTOP)
        until(lambda: gather_process(program.identity).state == "T", "the stop")
        yield program
        os.kill(program.pid, signal.SIGCONT)


def test_a_stopped_program_hangs_nobody(rig: Rig, stopped: Driven) -> None:
    """A call on a stopped program, which the driver would never answer, ends by its deadline or is refused at once."""

    async def story() -> str:
        async with rig.parking(deadlines=Deadlines(ask_s=5, small_s=5, lock_wait_s=1)) as parking:
            with pytest.raises(CheckpointError) as refused:
                await parking.checkpoint.lock(stopped.identity)
            os.kill(stopped.pid, signal.SIGCONT)
            if await parking.checkpoint.state(stopped.identity) is ProcessState.LOCKED:
                await parking.checkpoint.unlock(stopped.identity)
            return refused.value.code

    assert asyncio.run(story()) in {"not_ready", "deadline"}


def test_a_kill_while_parked(rig: Rig, record: Callable[[str, Any], None]) -> None:
    """A parked program dies at once when it is killed, and frees its host memory and the device."""
    with rig.filled() as (program, _):
        rig.bare.park(program.pid)
        program.process.terminate()
        record("sigterm_while_parked", program.ended(MOMENT_S * 20))
        program.kill()
    until(lambda: rig.used() < rig.at_first + rig.unit // 2, "the freed memory")


def test_a_kill_after_a_resume(rig: Rig) -> None:
    """The device goes on after a resumed program was killed, checkpointed again first where the driver needs that."""
    with rig.filled(seed=1) as (program, _):
        rig.bare.park(program.pid)
        rig.bare.resume(program.pid)
        if checkpoint_before_kill(rig.driver.version):
            rig.bare.park(program.pid)
        program.kill()
    with rig.filled(seed=2) as (program, digest):
        assert program.do("digest") == digest
