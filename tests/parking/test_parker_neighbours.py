"""Parked kernels beside others on a device, frozen ones, and those that are about to be killed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.parking.room import RoomReading
from jupyter_gpushare.parking.sequence import NoRoom
from jupyter_gpushare.rules.message import Message
from tests.parking.fake_checkpoint import NEIGHBOUR, FakeMachine
from tests.parking.stage import GB, Stage, checkpoint_processes, state_letter, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[FakeMachine]:
    """A device of 10 GB. No checkpoint process outlives the test."""
    yield FakeMachine.create(tmp_path, GPU0=10 * GB, GPU1=10 * GB)
    assert checkpoint_processes() == []


def test_one_device_serves_one_resume_at_a_time(tmp_path: Path, machine: FakeMachine) -> None:
    """Two servers with room for one kernel each never restore at once; the second waits and then comes back."""

    async def story() -> None:
        async with Stage(tmp_path, machine) as ours, Stage(tmp_path, machine) as theirs:
            first, second = ours.kernel(4 * GB, name="first"), theirs.kernel(4 * GB, name="second")
            parked = await ours.park(first), await theirs.park(second)
            machine.hold(NEIGHBOUR, GPU0=5 * GB)
            assert await theirs.checkpoint.take_token("GPU0", "somebody")
            with pytest.raises(NoRoom) as waits:
                await ours.resume(parked[0])
            assert waits.value.message.text == "another notebook is coming back on this device"
            await theirs.checkpoint.drop_tokens("somebody")
            outcomes = await asyncio.gather(ours.resume(parked[0]), theirs.resume(parked[1]), return_exceptions=True)
            assert [type(outcome) for outcome in outcomes].count(NoRoom) >= 1
            assert machine.poisoned == 0
            machine.hold(NEIGHBOUR)
            for stage, kept, outcome in zip((ours, theirs), parked, outcomes, strict=True):
                if isinstance(outcome, NoRoom):
                    await stage.resume_at_last(kept)
            assert machine.free("GPU0") == 2 * GB
            ours.assert_nothing_is_left()
            theirs.assert_nothing_is_left()

    asyncio.run(story())


def test_kernels_of_one_server_take_turns_on_a_device(tmp_path: Path, machine: FakeMachine) -> None:
    """The token also keeps two kernels of the same server apart."""

    async def story() -> None:
        async with Stage(tmp_path, machine) as stage:
            targets = [stage.kernel(4 * GB, name=name) for name in ("a", "b")]
            parked = [await stage.park(target) for target in targets]
            machine.hold(NEIGHBOUR, GPU0=5 * GB)
            outcomes = await asyncio.gather(*map(stage.resume, parked), return_exceptions=True)
            assert sorted(type(outcome).__name__ for outcome in outcomes) == ["NoRoom", "Resumed"]
            assert machine.poisoned == 0

    asyncio.run(story())


def test_a_frozen_kernel_is_stopped_while_parked_and_goes_on_before_it_is_restored(
    tmp_path: Path, machine: FakeMachine
) -> None:
    """Freezing holds while the kernel waits for room, and never delays the driver's own work."""

    async def story() -> None:
        async with Stage(tmp_path, machine, freeze=True) as stage:
            target = stage.kernel(GB)
            parked = await stage.park(target)
            assert parked.frozen == target.processes
            wait_until(lambda: state_letter(target.processes[0]) == "T")
            machine.hold(NEIGHBOUR, GPU0=10 * GB)
            with pytest.raises(NoRoom):
                await stage.resume(parked)
            assert state_letter(target.processes[0]) == "T"
            machine.hold(NEIGHBOUR)
            await stage.resume(parked)
            wait_until(lambda: state_letter(target.processes[0]) == "S")
            assert stage.states(target) == {"running"}

    asyncio.run(story())


@pytest.mark.parametrize("frozen_by", ["forget", "close"])
def test_nothing_stays_frozen(tmp_path: Path, machine: FakeMachine, frozen_by: str) -> None:
    """A process that is not ours to hold any more goes on, whether its kernel was forgotten or the server closed."""

    async def story() -> None:
        async with Stage(tmp_path, machine, freeze=True) as stage:
            target = stage.kernel(GB)
            await stage.park(target)
            await (stage.parker.forget("kernel") if frozen_by == "forget" else stage.checkpoint.aclose())
            wait_until(lambda: state_letter(target.processes[0]) == "S")

    asyncio.run(story())


@pytest.mark.parametrize("harmful", [True, False])
def test_a_resumed_kernel_is_checkpointed_again_before_a_kill(
    tmp_path: Path, machine: FakeMachine, *, harmful: bool
) -> None:
    """On drivers that hang when a restored process is killed, and only there; a kernel never parked is not touched."""

    async def story() -> None:
        async with Stage(tmp_path, machine, harmful_kill=harmful) as stage:
            target = stage.kernel(GB, GB)
            await stage.parker.before_kill("kernel")
            assert machine.calls() == []
            await stage.resume(await stage.park(target))
            machine.inject("lock", "unknown", process=target.processes[0])
            await stage.parker.before_kill("kernel")
            assert stage.states(target) == {"running"}
            await stage.parker.before_kill("kernel")
            assert stage.states(target) == ({"checkpointed"} if harmful else {"running"})

    asyncio.run(story())


def test_a_room_that_cannot_be_read_is_no_room(tmp_path: Path, machine: FakeMachine) -> None:
    """An unknown number is never taken for an empty device, and the reason reaches people."""

    async def story() -> None:
        async with Stage(tmp_path, machine) as stage:
            parked = await stage.park(stage.kernel(GB))

            async def lost(_device: str) -> RoomReading:
                return RoomReading(None, 10 * GB, reason=Message("X", "the driver was lost", {}))

            stage.parker._back._room = lost
            with pytest.raises(NoRoom) as waits:
                await stage.resume(parked)
            assert waits.value.message.text == "the driver was lost"

    asyncio.run(story())
