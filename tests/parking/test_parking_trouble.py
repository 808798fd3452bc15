"""Every call of the driver fails, hangs, or takes the checkpoint process with it: all is recovered from."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.parking.sequence import ParkFailed, Step
from tests.parking.fake_checkpoint import FakeMachine
from tests.parking.stage import BRISK, GB, Stage, checkpoint_processes, free_tokens, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jupyter_gpushare.parking.sequence import Parked, Target

TROUBLE = [("unknown", "before"), ("hang", "before"), ("hang", "after"), ("die", "before"), ("die", "after")]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[FakeMachine]:
    """Two devices of 10 GB. No checkpoint process outlives the test."""
    yield FakeMachine.create(tmp_path, GPU0=10 * GB, GPU1=10 * GB)
    assert checkpoint_processes() == []


async def parked_at_last(stage: Stage, target: Target) -> Parked:
    """Park; a first attempt that failed was undone without a trace."""
    failure = None
    try:
        return await stage.park(target)
    except ParkFailed as error:
        failure = error
    assert not failure.lost
    if failure.leftover is not None:
        return failure.leftover
    assert stage.states(target) == {"running"}
    stage.assert_nothing_is_left()
    return await stage.park(target)


@pytest.mark.parametrize("victim", [pytest.param(0, marks=pytest.mark.long), 1])
@pytest.mark.parametrize(("what", "when"), TROUBLE)
@pytest.mark.parametrize("call", ["state", "lock", "checkpoint"])
def test_trouble_while_parking(
    tmp_path: Path, machine: FakeMachine, call: str, what: str, when: str, victim: int
) -> None:
    """Whatever happens at a call on either process, the kernel is parked or runs, and parks at the next attempt."""

    async def story() -> None:
        async with Stage(tmp_path, machine, deadlines=BRISK) as stage:
            target = stage.kernel(3 * GB, 2 * GB)
            machine.inject(call, what, when=when, process=target.processes[victim])
            parked = await parked_at_last(stage, target)
            assert stage.states(target) == {"checkpointed"}
            await stage.resume_at_last(parked)
            assert stage.states(target) == {"running"}
            stage.assert_nothing_is_left()

    asyncio.run(story())


@pytest.mark.parametrize("victim", [pytest.param(0, marks=pytest.mark.long), 1])
@pytest.mark.parametrize(("what", "when"), TROUBLE)
@pytest.mark.parametrize("call", ["claim", "restore", "unlock", "state"])
def test_trouble_while_resuming(
    tmp_path: Path, machine: FakeMachine, call: str, what: str, when: str, victim: int
) -> None:
    """Whatever happens at a call on either process, the kernel comes back, now or at the next attempt."""

    async def story() -> None:
        async with Stage(tmp_path, machine, deadlines=BRISK) as stage:
            target = stage.kernel(3 * GB, 2 * GB)
            parked = await stage.park(target)
            machine.inject(call, what, when=when, process=None if call == "claim" else target.processes[victim])
            await stage.resume_at_last(parked)
            assert stage.states(target) == {"running"}
            assert machine.free("GPU0") == 5 * GB
            stage.assert_nothing_is_left()

    asyncio.run(story())


@pytest.mark.parametrize(("what", "when"), TROUBLE)
@pytest.mark.parametrize("call", ["restore", "unlock", "claim", "state"])
def test_trouble_while_undoing(tmp_path: Path, machine: FakeMachine, call: str, what: str, when: str) -> None:
    """A second fault, in the undo of the first, still leaves a kernel that runs or comes back."""

    async def story() -> None:
        async with Stage(tmp_path, machine, deadlines=BRISK) as stage:
            target = stage.kernel(3 * GB, 2 * GB)
            machine.inject("checkpoint", "unknown", process=target.processes[1])

            def more_trouble(step: Step) -> None:
                if step is Step.CHECKPOINT:
                    machine.inject(call, what, when=when)

            with pytest.raises(ParkFailed) as failed:
                await stage.parker.park(target, more_trouble)
            assert not failed.value.lost
            if failed.value.leftover is not None:
                await stage.resume_at_last(failed.value.leftover)
            assert stage.states(target) == {"running"}
            stage.assert_nothing_is_left()

    asyncio.run(story())


@pytest.mark.parametrize("at", list(Step))
def test_a_checkpoint_process_killed_as_a_step_begins(tmp_path: Path, machine: FakeMachine, at: Step) -> None:
    """The next one takes over; a token that died with the first is taken again before any restore."""

    async def story() -> None:
        async with Stage(tmp_path, machine, deadlines=BRISK) as stage:
            target = stage.kernel(3 * GB, 2 * GB)
            await stage.checkpoint.driver()
            killed: list[int] = []

            def kill(step: Step) -> None:
                if step is at and not killed and stage.checkpoint.pid is not None:
                    killed.append(stage.checkpoint.pid)
                    os.kill(stage.checkpoint.pid, signal.SIGKILL)

            try:
                parked = await stage.parker.park(target, kill)
            except ParkFailed:
                parked = await parked_at_last(stage, target)
            while True:
                attempt = await asyncio.gather(stage.parker.resume(parked, kill), return_exceptions=True)
                if not isinstance(attempt[0], BaseException):
                    break
            assert killed
            assert stage.states(target) == {"running"}
            stage.assert_nothing_is_left()

    asyncio.run(story())


@pytest.mark.parametrize("call", ["lock", "checkpoint"])
def test_a_kernel_that_hangs_does_not_harm_another(tmp_path: Path, machine: FakeMachine, call: str) -> None:
    """Two kernels of one server park at once; the one whose call hangs costs the other at most an attempt."""

    async def story() -> None:
        async with Stage(tmp_path, machine, deadlines=BRISK) as stage:
            bad = stage.kernel(3 * GB, name="bad")
            good = stage.kernel(2 * GB, name="good", device="GPU1")
            machine.inject(call, "hang", process=bad.processes[0])
            first, second = await asyncio.gather(stage.park(bad), stage.park(good), return_exceptions=True)
            assert isinstance(first, ParkFailed)
            assert stage.states(bad) == {"running"}
            parked = second if not isinstance(second, BaseException) else await parked_at_last(stage, good)
            assert stage.states(good) == {"checkpointed"}
            await stage.resume_at_last(parked)
            stage.assert_nothing_is_left()

    asyncio.run(story())


def test_a_restore_hangs_while_another_waits_with_its_token(tmp_path: Path, machine: FakeMachine) -> None:
    """A token that died with the checkpoint process permits no restore: it is taken anew, with the room."""

    async def story() -> None:
        async with Stage(tmp_path, machine, deadlines=BRISK) as stage:
            bad = stage.kernel(3 * GB, name="bad")
            good = stage.kernel(2 * GB, name="good", device="GPU1")
            parked = [await stage.park(bad), await stage.park(good)]
            machine.inject("restore", "hang", process=bad.processes[0])
            await asyncio.gather(*map(stage.resume_at_last, parked))
            assert stage.states(bad) == stage.states(good) == {"running"}
            stage.assert_nothing_is_left()
            assert free_tokens(stage.locks, "GPU0", "GPU1")

    asyncio.run(story())


def test_a_server_that_closes_in_the_middle_leaves_no_process(tmp_path: Path, machine: FakeMachine) -> None:
    """Closing does not wait for a call that hangs."""

    async def story() -> None:
        async with Stage(tmp_path, machine, deadlines=BRISK) as stage:
            target = stage.kernel(GB)
            machine.inject("checkpoint", "hang")
            attempt = asyncio.create_task(stage.park(target))
            await asyncio.to_thread(wait_until, lambda: stage.states(target) == {"locked"})
            await stage.checkpoint.aclose()
            with pytest.raises(ParkFailed):
                await attempt
            assert checkpoint_processes() == []

    asyncio.run(story())
