"""Parking and resuming: whatever step fails, nothing is lost and nothing is left."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.parking.sequence import GpuStateLost, NoRoom, ParkFailed, Step
from tests.parking.fake_checkpoint import NEIGHBOUR, FakeMachine
from tests.parking.stage import GB, MARGIN, Stage, checkpoint_processes, free_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jupyter_gpushare.devices.identity import Identity


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[FakeMachine]:
    """A device of 10 GB. No checkpoint process outlives the test."""
    yield FakeMachine.create(tmp_path, GPU0=10 * GB, GPU1=10 * GB)
    assert checkpoint_processes() == []


def test_a_kernel_parks_and_comes_back(tmp_path: Path, machine: FakeMachine) -> None:
    """The device is free while the kernel is parked, and the driver attests both ends."""

    async def story() -> None:
        async with Stage(tmp_path, machine) as stage:
            target = stage.kernel(3 * GB, 2 * GB)
            parked = await stage.park(target)
            assert stage.states(target) == {"checkpointed"}
            assert machine.free("GPU0") == 10 * GB
            assert stage.host_memory.booked() == 5 * GB
            resumed = await stage.resume(parked)
            assert resumed.took_s >= 0
            assert stage.states(target) == {"running"}
            assert machine.free("GPU0") == 5 * GB
            stage.assert_nothing_is_left()
            assert stage.steps == list(Step)

    asyncio.run(story())


def test_no_process_is_checkpointed_before_all_are_locked(tmp_path: Path, machine: FakeMachine) -> None:
    """Processes that talk to each other on the GPU hang if one goes while another still runs, and likewise back."""

    async def story() -> None:
        async with Stage(tmp_path, machine) as stage:
            await stage.resume(await stage.park(stage.kernel(GB, GB, GB)))
            moves = [call.split()[0] for call in machine.calls()]
            order = [name for name in moves if name in {"lock", "checkpoint", "restore", "unlock"}]
            assert order == ["lock"] * 3 + ["checkpoint"] * 3 + ["restore"] * 3 + ["unlock"] * 3

    asyncio.run(story())


def test_what_does_not_fit_the_budget_is_not_touched(tmp_path: Path, machine: FakeMachine) -> None:
    """A park without host memory is refused before any driver call, with what is missing."""

    async def story() -> None:
        async with Stage(tmp_path, machine, budget=2 * GB) as stage:
            with pytest.raises(ParkFailed) as refused:
                await stage.park(stage.kernel(3 * GB))
            assert refused.value.message.code == "NO_HOST_MEMORY"
            assert refused.value.undone
            assert "3.0 GB" in refused.value.message.text
            assert machine.calls() == []
            stage.assert_nothing_is_left()

    asyncio.run(story())


@pytest.mark.parametrize("found", ["locked", "checkpointed", "failed"])
def test_what_somebody_else_moves_is_left_alone(tmp_path: Path, machine: FakeMachine, found: str) -> None:
    """A process that another program has locked is neither parked nor, as an undo, unlocked."""

    async def story() -> None:
        async with Stage(tmp_path, machine) as stage:
            target = stage.kernel(GB)
            machine.set_state(target.processes[0], found)
            with pytest.raises(ParkFailed) as refused:
                await stage.park(target)
            assert refused.value.message.code == "UNEXPECTED_STATE"
            assert stage.states(target) == {found}
            stage.assert_nothing_is_left()

    asyncio.run(story())


def test_a_busy_gpu_is_said_to_be_busy(tmp_path: Path, machine: FakeMachine) -> None:
    """The driver's time limit on a lock becomes a sentence that says what to wait for."""

    async def story() -> None:
        async with Stage(tmp_path, machine) as stage:
            target = stage.kernel(GB)
            machine.inject("lock", "not_ready")
            with pytest.raises(ParkFailed) as refused:
                await stage.park(target)
            assert refused.value.message.code == "GPU_BUSY"
            assert stage.states(target) == {"running"}

    asyncio.run(story())


def test_neighbours_that_take_the_room_before_an_undo_lose_nobody(tmp_path: Path, machine: FakeMachine) -> None:
    """When the second process cannot go and the first cannot come back, the kernel stays parked, and returns later."""

    async def story() -> None:
        async with Stage(tmp_path, machine) as stage:
            target = stage.kernel(4 * GB, GB)
            machine.inject("checkpoint", "unknown", process=target.processes[1])

            def take_the_room(step: Step) -> None:
                if step is Step.CHECKPOINT:
                    machine.hold(NEIGHBOUR, GPU0=8 * GB)

            with pytest.raises(ParkFailed) as failed:
                await stage.parker.park(target, take_the_room)
            leftover = failed.value.leftover
            assert leftover is not None
            assert not failed.value.undone
            assert stage.host_memory.booked() == 5 * GB
            with pytest.raises(NoRoom) as waits:
                await stage.resume(leftover)
            assert waits.value.message.code == "NO_ROOM"
            assert free_tokens(stage.locks, "GPU0")
            machine.hold(NEIGHBOUR)
            await stage.resume(leftover)
            assert stage.states(target) == {"running"}
            stage.assert_nothing_is_left()

    asyncio.run(story())


@pytest.mark.parametrize("room", [GB - 1, GB, GB + MARGIN - 1])
def test_a_resume_waits_for_room_and_its_margin(tmp_path: Path, machine: FakeMachine, room: int) -> None:
    """Restore is never tried when the device has less than the kernel's memory and the margin."""

    async def story() -> None:
        async with Stage(tmp_path, machine) as stage:
            parked = await stage.park(stage.kernel(GB))
            machine.hold(NEIGHBOUR, GPU0=10 * GB - room)
            with pytest.raises(NoRoom):
                await stage.resume(parked)
            assert not any(call.startswith("restore") for call in machine.calls())
            assert stage.journal.entries()[0].step is Step.PARKED
            machine.hold(NEIGHBOUR, GPU0=9 * GB - MARGIN)
            await stage.resume(parked)
            stage.assert_nothing_is_left()

    asyncio.run(story())


def test_a_kernel_that_had_the_whole_device_comes_back(tmp_path: Path, machine: FakeMachine) -> None:
    """The margin never asks for more than an empty device has, or a full notebook could never return."""

    async def story() -> None:
        async with Stage(tmp_path, machine) as stage:
            target = stage.kernel(10 * GB)
            await stage.resume(await stage.park(target))
            assert stage.states(target) == {"running"}

    asyncio.run(story())


def test_a_claim_that_fails_stops_the_restore(tmp_path: Path, machine: FakeMachine) -> None:
    """A reading that says "room" is not believed when the device itself says no."""

    async def story() -> None:
        async with Stage(tmp_path, machine) as stage:
            parked = await stage.park(stage.kernel(GB))
            machine.inject("claim", "out_of_memory")
            with pytest.raises(NoRoom) as waits:
                await stage.resume(parked)
            assert waits.value.message.code == "CLAIM_REFUSED"
            assert not any(call.startswith("restore") for call in machine.calls())
            await stage.resume(parked)

    asyncio.run(story())


def test_a_process_that_the_driver_lost_is_said_to_be_lost(tmp_path: Path, machine: FakeMachine) -> None:
    """A poisoned process is told plainly, and its neighbour process of the same kernel runs on."""

    async def story() -> None:
        async with Stage(tmp_path, machine) as stage:
            target = stage.kernel(GB, GB)
            parked = await stage.park(target)
            machine.set_state(target.processes[0], "failed")
            with pytest.raises(GpuStateLost) as lost:
                await stage.resume(parked)
            assert lost.value.message.code == "GPU_STATE_LOST"
            assert machine.state(target.processes[1]).value == "running"
            stage.assert_nothing_is_left()

    asyncio.run(story())


def test_a_restore_that_is_refused_for_ever_is_given_up_in_the_end(tmp_path: Path, machine: FakeMachine) -> None:
    """One refusal is tried again, as nothing was harmed; only a lasting one is called a loss."""

    async def story() -> None:
        async with Stage(tmp_path, machine) as stage:
            parked = await stage.park(stage.kernel(GB))
            for _ in range(2):
                machine.inject("restore", "operating_system")
                with pytest.raises(NoRoom):
                    await stage.resume(parked)
            machine.inject("restore", "operating_system")
            with pytest.raises(GpuStateLost):
                await stage.resume(parked)

    asyncio.run(story())


def test_a_process_that_ended_while_parked_is_reported(tmp_path: Path, machine: FakeMachine) -> None:
    """A worker that was killed while parked is a loss that people hear of; the rest of the kernel comes back."""

    async def story() -> None:
        async with Stage(tmp_path, machine) as stage:
            target = stage.kernel(GB, GB)
            parked = await stage.park(target)
            stage.kernels.end(target.processes[0])
            with pytest.raises(GpuStateLost) as lost:
                await stage.resume(parked)
            assert lost.value.message.code == "PROCESS_GONE"
            assert machine.state(target.processes[1]).value == "running"
            stage.assert_nothing_is_left()

    asyncio.run(story())


def test_a_process_that_ends_while_it_is_parked_ends_the_attempt(tmp_path: Path, machine: FakeMachine) -> None:
    """A kernel that dies in the middle leaves no booking and no row, and is not reported as undone."""

    async def story() -> None:
        async with Stage(tmp_path, machine) as stage:
            target = stage.kernel(GB, GB)

            def die(step: Step) -> None:
                if step is Step.CHECKPOINT:
                    stage.kernels.end(target.processes[1])

            with pytest.raises(ParkFailed) as failed:
                await stage.parker.park(target, die)
            assert failed.value.lost
            assert machine.state(target.processes[0]).value == "running"
            stage.assert_nothing_is_left()

    asyncio.run(story())


def test_a_kernel_that_ended_is_forgotten(tmp_path: Path, machine: FakeMachine) -> None:
    """The host memory of a parked kernel that was shut down can be booked again."""

    async def story() -> None:
        async with Stage(tmp_path, machine, budget=4 * GB) as stage:
            target = stage.kernel(3 * GB)
            await stage.park(target)
            stage.kernels.end(target.processes[0])
            await stage.parker.forget("kernel")
            stage.assert_nothing_is_left()
            await stage.park(stage.kernel(4 * GB, name="next"))

    asyncio.run(story())


def test_a_park_that_is_given_up_is_undone_first(tmp_path: Path, machine: FakeMachine) -> None:
    """Whoever asked may be cancelled at any step; the kernel then runs, with nothing left behind."""

    async def story(at: Step) -> None:
        async with Stage(tmp_path, machine) as stage:
            target = stage.kernel(GB, GB)
            reached = asyncio.Event()

            def stop_there(step: Step) -> None:
                if step is at:
                    reached.set()

            attempt = asyncio.create_task(stage.parker.park(target, stop_there))
            await reached.wait()
            attempt.cancel()
            with pytest.raises(asyncio.CancelledError):
                await attempt
            assert stage.states(target) == {"running"}
            stage.assert_nothing_is_left()

    for step in (Step.BOOK, Step.PREFLIGHT, Step.LOCK, Step.CHECKPOINT, Step.ATTEST_PARKED):
        asyncio.run(story(step))


def test_a_resume_that_is_given_up_may_be_tried_again(tmp_path: Path, machine: FakeMachine) -> None:
    """Cancelling in the middle of a restore leaves a kernel that the next resume brings back."""

    async def story(at: Step) -> None:
        async with Stage(tmp_path, machine) as stage:
            target = stage.kernel(GB, GB)
            parked = await stage.park(target)
            reached = asyncio.Event()
            attempt = asyncio.create_task(
                stage.parker.resume(parked, lambda step: reached.set() if step is at else None)
            )
            await reached.wait()
            attempt.cancel()
            with pytest.raises(asyncio.CancelledError):
                await attempt
            assert free_tokens(stage.locks, "GPU0")
            await stage.resume(parked)
            assert stage.states(target) == {"running"}
            stage.assert_nothing_is_left()

    for step in (Step.TOKEN, Step.ROOM, Step.RESTORE, Step.UNLOCK):
        asyncio.run(story(step))


def test_a_journal_that_cannot_be_written_stops_a_park_but_no_resume(tmp_path: Path, machine: FakeMachine) -> None:
    """What cannot be recovered from does not begin; what is away comes back all the same."""

    async def story() -> None:
        async with Stage(tmp_path, machine) as stage:
            target = stage.kernel(GB)
            parked = await stage.park(target)
            journal = stage.journal.directory / "parking.sqlite"
            good = journal.read_bytes()
            for rest in journal.parent.glob("parking.sqlite-*"):
                rest.unlink()
            journal.write_bytes(b"no database at all" * 100)
            await stage.resume(parked)
            assert stage.states(target) == {"running"}
            with pytest.raises(ParkFailed) as refused:
                await stage.park(target)
            assert refused.value.message.code == "NOT_RECORDED"
            assert stage.states(target) == {"running"}
            assert stage.host_memory.booked() == 0
            journal.write_bytes(good)

    asyncio.run(story())


def test_what_the_driver_does_not_attest_is_not_parked(tmp_path: Path, machine: FakeMachine) -> None:
    """A checkpoint that reported success and moved nothing is found out, and the kernel runs on."""

    async def story() -> None:
        async with Stage(tmp_path, machine) as stage:
            target = stage.kernel(GB, GB)

            def nothing_moved(step: Step) -> None:
                if step is Step.ATTEST_PARKED:
                    machine.set_state(target.processes[1], "locked")

            with pytest.raises(ParkFailed) as failed:
                await stage.parker.park(target, nothing_moved)
            assert failed.value.message.code == "UNEXPECTED_STATE"
            assert stage.states(target) == {"running"}
            stage.assert_nothing_is_left()

    asyncio.run(story())


def test_a_kernel_that_is_asked_back_twice_is_restored_once(
    tmp_path: Path, machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two wishes at the same moment, such as a button and a cell, take turns; the driver hears of one restore."""

    async def story() -> None:
        async with Stage(tmp_path, machine) as stage:
            target = stage.kernel(GB)
            parked = await stage.park(target)
            restore, asked = stage.checkpoint.restore, []

            async def noting(process: Identity, *more: Any) -> None:
                asked.append(process)
                await restore(process, *more)

            monkeypatch.setattr(stage.checkpoint, "restore", noting)
            await asyncio.gather(stage.resume(parked), stage.resume(parked))
            assert asked == [*target.processes]
            assert stage.states(target) == {"running"}
            stage.assert_nothing_is_left()

    asyncio.run(story())
