"""Whoever is killed, at whatever step: a program's memory comes back whole, or the device is free of it."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.parking.harmful_drivers import checkpoint_before_kill
from jupyter_gpushare.parking.sequence import GpuStateLost, ParkFailed, Step

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.parking.sequence import Parked, Target
    from tests.gpu.rig import Parking, Rig

pytestmark = [pytest.mark.timeout(300), pytest.mark.long]

PARKING = [Step.LOCK, Step.CHECKPOINT, Step.ATTEST_PARKED]
RESUMING = [Step.TOKEN, Step.ROOM, Step.RESTORE, Step.UNLOCK, Step.ATTEST_RUNNING]
# In the midst of a copy, which takes a third of a second at least on a real device and no less on the simulated one.
MIDST_S = 0.03


class Killer:
    """Kills a process once, at a step or a moment after it began."""

    def __init__(self, step: Step, pid: Callable[[], int | None], after_s: float = 0.0) -> None:
        self._step, self._pid, self._after_s = step, pid, after_s
        self.fired = False

    def __call__(self, step: Step) -> None:
        """A step begins."""
        if step is not self._step or self.fired:
            return
        self.fired = True
        if self._after_s:
            asyncio.get_running_loop().call_later(self._after_s, self._kill)
        else:
            self._kill()

    def _kill(self) -> None:
        pid = self._pid()
        if pid is not None:
            with suppress(ProcessLookupError):  # its call was quicker, and it ended by itself
                os.kill(pid, signal.SIGKILL)


async def park_at_last(parking: Parking, target: Target, killer: Killer) -> tuple[Parked, str]:
    """Park *target* although somebody is killed meanwhile; what came of that."""
    try:
        return await parking.park(target, killer), "parked all the same"
    except ParkFailed as failure:
        if failure.lost:
            raise
        if failure.leftover is not None:
            await parking.resume_at_last(failure.leftover)
        outcome = f"{failure.message.code}, {'undone' if failure.undone else 'brought back later'}"
    return await parking.park(target), outcome


@pytest.mark.parametrize("after_s", [0.0, MIDST_S], ids=["as it begins", "in its midst"])
@pytest.mark.parametrize("step", [*PARKING, *RESUMING], ids=str)
def test_the_checkpoint_process_is_killed(
    rig: Rig, record: Callable[[str, Any], None], step: Step, after_s: float
) -> None:
    """Another checkpoint process finds out how far the driver came, and the program gets every word back."""

    async def story() -> str:
        async with rig.parking() as parking:
            with rig.filled() as (program, digest):
                killer = Killer(step, lambda: parking.checkpoint.pid, after_s)
                parked, outcome = await park_at_last(parking, parking.target(program, rig.unit), killer)
                await parking.device_is_free()
                await parking.resume_at_last(parked, killer)
                assert killer.fired
                assert program.do("digest") == digest
                parking.assert_nothing_is_left()
                return outcome

    record(f"checkpoint_process_killed_{step}_{after_s:g}", asyncio.run(story()))


@pytest.mark.parametrize("step", [*PARKING, *RESUMING], ids=str)
def test_the_program_is_killed(rig: Rig, record: Callable[[str, Any], None], step: Step) -> None:
    """A program that ends at any step leaves the device free, nothing booked, and the next one unharmed."""
    if step in RESUMING and checkpoint_before_kill(rig.driver.version):
        pytest.skip(f"driver {rig.driver.version} hangs the host when a resumed program is killed")

    async def story() -> str:
        async with rig.parking() as parking:
            with rig.filled() as (program, _):
                target = parking.target(program, rig.unit)
                outcome = await ending(parking, target, Killer(step, lambda: program.pid))
                await parking.parker.forget(target.kernel_id)
                await parking.device_is_free()
                parking.assert_nothing_is_left()
            with rig.filled(seed=2) as (program, digest):
                await parking.resume(await parking.park(parking.target(program, rig.unit)))
                assert program.do("digest") == digest
            return outcome

    record(f"program_killed_{step}", asyncio.run(story()))


async def ending(parking: Parking, target: Target, killer: Killer) -> str:
    """Park and resume *target*, which ends meanwhile; what is said of it."""
    try:
        parked = await parking.park(target, killer)
        await parking.resume(parked, killer)
    except (ParkFailed, GpuStateLost) as trouble:
        assert killer.fired
        return trouble.message.code
    assert killer.fired
    return "not noticed before it was over"
