"""A supervisor with a real job on the simulated machine."""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.devices.identity import identify
from jupyter_gpushare.rules.loss import Loss
from jupyter_gpushare.training import supervisor as supervising
from jupyter_gpushare.training.child import adopt_orphans
from jupyter_gpushare.training.supervisor import TRY_LATER
from jupyter_gpushare.training.usage import EVERY_S
from tests.training.conftest import python, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jupyter_gpushare.devices.simulated.machine import Machine
    from tests.training.conftest import Stage

TRAIN = [sys.executable, "-m", "jupyter_gpushare.demo.train_numpy"]

_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
# Says in a file that it has got so far, and waits.
STANDING = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch(); time.sleep(3600)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + STANDING
SILENT = "from jupyter_gpushare.training import on_reclaim; on_reclaim(print); " + STANDING
HOLDS = "from jupyter_gpushare.devices.simulated import cuda; held = cuda.allocate('64MiB'); "
WORKS = (
    HOLDS
    + """
import pathlib, sys, time
from jupyter_gpushare.training import on_reclaim, safe_point
on_reclaim(lambda: pathlib.Path(sys.argv[1] + '-saved').touch())
pathlib.Path(sys.argv[1]).touch()
while True:
    time.sleep(0.01)
    safe_point()
    with open(sys.argv[1], 'a') as steps:
        steps.write('.')
"""
)


def losses(file: Path) -> dict[int, str]:
    """What the program wrote; the last value of each step."""
    return dict(json.loads(line) for line in file.read_text().splitlines())


async def begin(stage: Stage, there: Path) -> None:
    """Grant, and wait until the job says that it stands."""
    stage.broker.grant()
    await stage.until(there.exists, "the job's sign")
    await stage.until(lambda: stage.broker.lease.status == "running", "the lease to run")


async def undisturbed(directory: Path, steps: int) -> dict[int, str]:
    """The losses of a run that keeps its GPU."""
    file = directory / "undisturbed.jsonl"
    async with running(directory, [*TRAIN, "--steps", str(steps), "--step-s", "0", "--losses", str(file)]) as stage:
        stage.broker.grant()
        assert await stage.code == 0
    return losses(file)


@pytest.mark.parametrize("times", [3, pytest.param(20, marks=pytest.mark.long)])
def test_a_job_that_is_parked_at_its_safe_points_loses_nothing(tmp_path: Path, machine: Machine, times: int) -> None:
    """Losses are bit for bit those of an undisturbed run, and the process is the same one throughout."""

    async def story() -> None:
        steps = 30 * (times + 1)
        file = tmp_path / "losses.jsonl"
        argv = [*TRAIN, "--steps", str(steps), "--step-s", "0.02", "--losses", str(file)]
        async with running(tmp_path, argv) as stage:
            broker = stage.broker
            broker.grant()
            await stage.until(lambda: broker.is_parkable, "its safe points")
            for _ in range(times):
                seen = len(losses(file))
                await stage.until(lambda seen=seen: len(losses(file)) > seen + 3, "some steps")
                broker.call_back("parking")
                await stage.until(lambda: broker.lease.status == "parked", "the park")
                assert machine.occupancy.state().held == ()
                broker.resume()
                await stage.until(lambda: broker.lease.status == "running", "the way back")
            assert await stage.code == 0
            assert stage.supervisor.restarts == 0
        assert losses(file) == await undisturbed(tmp_path, steps)

    asyncio.run(story())


@pytest.mark.parametrize("times", [3, pytest.param(20, marks=pytest.mark.long)])
def test_a_job_that_is_stopped_and_started_again_loses_nothing(tmp_path: Path, machine: Machine, times: int) -> None:
    """Without safe points a job gets SIGTERM, saves, and goes on from there: the same losses, bit for bit."""

    async def story() -> None:
        steps = 30 * (times + 1)
        file, save = tmp_path / "losses.jsonl", tmp_path / "saved.npz"
        argv = [*TRAIN, "--steps", str(steps), "--no-safe-points", "--losses", str(file), "--save", str(save)]
        async with running(tmp_path, argv) as stage:
            broker = stage.broker
            broker.grant()
            for number in range(times):
                seen = len(losses(file)) if file.exists() else 0
                await stage.until(lambda seen=seen: file.exists() and len(losses(file)) > seen + 3, "some steps")
                broker.call_back("yielding")
                await stage.until(lambda: broker.lease.status == "queued", "the release")
                assert machine.occupancy.state().held == ()
                assert stage.supervisor.restarts == number + 1
                broker.grant()
            assert await stage.code == 0
        assert losses(file) == await undisturbed(tmp_path, steps)
        assert stage.losses == []

    asyncio.run(story())


def test_a_job_saves_at_its_safe_point_before_it_is_stopped(tmp_path: Path, machine: Machine) -> None:
    """One that offers safe points but is not parked has its callbacks called there, and only then gets SIGTERM."""

    async def story() -> None:
        there = tmp_path / "there"
        async with running(tmp_path, [*python(WORKS), str(there)], choice="never") as stage:
            await begin(stage, there)
            await stage.until(lambda: stage.supervisor.job.offers, "its safe points")
            assert stage.broker.is_parkable is False
            stage.broker.call_back("yielding")
            await stage.until(lambda: stage.broker.lease.status == "queued", "the release")
            assert (tmp_path / "there-saved").exists()
            assert stage.losses == []

    asyncio.run(story())


def test_a_job_that_ignores_sigterm_is_ended_after_its_grace(tmp_path: Path, machine: Machine) -> None:
    """Its end is announced as a loss before it happens, comes before the broker's deadline, and it starts again."""

    async def story() -> None:
        there = tmp_path / "there"
        async with running(tmp_path, [*python(STUBBORN), str(there)], grace_s=0.2) as stage:
            await begin(stage, there)
            deadline = stage.broker.call_back("yielding", grace_s=2.0)
            await stage.until(lambda: stage.broker.lease.status == "queued", "the release")
            assert time.time() < deadline
            assert stage.losses == [Loss.JOB_STOPPED_AFTER_GRACE]
            assert [loss for loss, _ in stage.broker.losses] == [Loss.JOB_STOPPED_AFTER_GRACE.value]
            there.unlink()
            await begin(stage, there)
            assert stage.supervisor.restarts == 1

    asyncio.run(story())


def test_a_job_that_comes_to_no_safe_point_is_not_parked(tmp_path: Path, machine: Machine) -> None:
    """The broker hears in time that it could not be parked, and that it counts as not parkable for now."""

    async def story() -> None:
        there = tmp_path / "there"
        async with running(tmp_path, [*python(SILENT), str(there)]) as stage:
            await begin(stage, there)
            await stage.until(lambda: stage.broker.is_parkable, "its offer")
            deadline = stage.broker.call_back("parking", grace_s=1.5)
            await stage.broker.has_said("NO_SAFE_POINT")
            assert time.time() < deadline
            assert stage.broker.is_parkable is False
            await stage.until(lambda: stage.supervisor.points_asked == "stop", "the other way")

    asyncio.run(story())


def test_a_job_saves_itself_when_there_is_no_room_for_its_copy(tmp_path: Path, machine: Machine) -> None:
    """A park that fails is undone: the job leaves its safe point unharmed, and saves at the next one."""

    async def story() -> None:
        there = tmp_path / "there"
        async with running(tmp_path, [*python(WORKS), str(there)], budget=1) as stage:
            await begin(stage, there)
            await stage.until(lambda: stage.broker.is_parkable, "its offer")
            stage.broker.call_back("parking")
            await stage.broker.has_said("NO_HOST_MEMORY")
            await stage.until(lambda: stage.broker.lease.status == "queued", "the release")
            assert (tmp_path / "there-saved").exists()
            assert machine.occupancy.state().held == ()
            assert stage.losses == []

    asyncio.run(story())


def test_a_park_that_was_given_up_is_not_tried_again_before_the_broker_has_heard(
    tmp_path: Path, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker with a locked ledger takes the word late: a job that parked after all would be elsewhere than its books."""
    monkeypatch.setattr(supervising, "_NOT_AGAIN_S", 0.0)

    async def story() -> None:
        there = tmp_path / "there"
        async with running(tmp_path, [*python(WORKS), str(there)], budget=1) as stage:
            await begin(stage, there)
            await stage.until(lambda: stage.broker.is_parkable, "its offer")
            stage.broker.is_deaf = True
            stage.broker.call_back("parking", grace_s=600)
            await stage.broker.has_said("NO_HOST_MEMORY")
            steps = there.stat().st_size + 30
            await stage.until(lambda: there.stat().st_size > steps, "more steps")
            assert [code for code, _ in stage.broker.said].count("NO_HOST_MEMORY") == 1
            assert stage.broker.is_parkable is False
            stage.broker.call_back("yielding")
            await stage.until(lambda: stage.broker.lease.status == "queued", "the release")
            assert (tmp_path / "there-saved").exists()

    asyncio.run(story())


def test_a_call_back_that_is_withdrawn_lets_the_job_go_on(tmp_path: Path, machine: Machine) -> None:
    """A job that was asked for a safe point and has not come to it is left alone when the lease runs again."""

    async def story() -> None:
        there = tmp_path / "there"
        async with running(tmp_path, [*python(SILENT), str(there)]) as stage:
            await begin(stage, there)
            await stage.until(lambda: stage.broker.is_parkable, "its offer")
            stage.broker.call_back("parking")
            await stage.until(lambda: stage.supervisor.points_asked == "park", "the question")
            stage.broker.put(status="running", deadline=None)
            await stage.until(lambda: stage.supervisor.points_asked is None, "its end")
            assert stage.supervisor.job.place == "running"

    asyncio.run(story())


@pytest.mark.parametrize(("code", "expected"), [("raise SystemExit(7)", 7), ("import os; os.abort()", 134), ("", 0)])
def test_the_exit_code_is_the_jobs(tmp_path: Path, machine: Machine, code: str, expected: int) -> None:
    """As a shell has it: its own, or 128 and the signal's number."""

    async def story() -> None:
        async with running(tmp_path, python(code)) as stage:
            stage.broker.grant()
            assert await stage.code == expected
            assert stage.broker.is_ended

    asyncio.run(story())


def test_a_program_that_is_missing_is_named(tmp_path: Path, machine: Machine) -> None:
    """127, as in a shell, and the share is given back."""

    async def story() -> None:
        async with running(tmp_path, ["/no/such/program"]) as stage:
            stage.broker.grant()
            assert await stage.code == 127
            assert "/no/such/program" in stage.told[-1]
            assert stage.broker.is_ended

    asyncio.run(story())


@pytest.fixture
def _adopting() -> Iterator[None]:
    """This process adopts orphans, as `jupyter gpushare run` does."""
    adopt_orphans()
    yield
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@pytest.mark.usefixtures("_adopting")
def test_what_a_job_leaves_behind_ends_with_it(tmp_path: Path, machine: Machine) -> None:
    """A process in the background, even in a session of its own, does not keep the GPU after its job."""

    async def story() -> None:
        told = tmp_path / "pid"
        orphan = f"[sys.executable, '-c', {STANDING!r}, sys.argv[1] + '.there'], start_new_session=True"
        code = f"import subprocess, sys; print(subprocess.Popen({orphan}).pid, file=open(sys.argv[1], 'w'))"
        async with running(tmp_path, [*python(code), str(told)]) as stage:
            stage.broker.grant()
            assert await stage.code == 0
            assert stage.supervisor.child is None
            assert identify(int(told.read_text())) is None

    asyncio.run(story())


def test_ctrl_c_reaches_the_job_and_twice_ends_it(tmp_path: Path, machine: Machine) -> None:
    """The owner's end is never a restart: SIGTERM, the grace, the end, and the shell's code for Ctrl-C."""

    async def story() -> None:
        there = tmp_path / "there"
        code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); " + STUBBORN
        async with running(tmp_path, [*python(code), str(there)], grace_s=0.2) as stage:
            await begin(stage, there)
            assert stage.supervisor.forward(signal.SIGINT)
            stage.supervisor.end(signal.SIGINT)
            assert await stage.code == 128 + signal.SIGINT
            assert stage.supervisor.restarts == 0
            assert set(stage.losses) == {Loss.JOB_STOPPED_AFTER_GRACE}

    asyncio.run(story())


def test_a_parked_job_that_its_owner_ends_frees_its_host_memory(tmp_path: Path, machine: Machine) -> None:
    """No signal reaches a parked job but the last one, and nothing of it stays booked."""

    async def story() -> None:
        there = tmp_path / "there"
        async with running(tmp_path, [*python(WORKS), str(there)]) as stage:
            await begin(stage, there)
            await stage.until(lambda: stage.broker.is_parkable, "its offer")
            stage.broker.call_back("parking")
            await stage.until(lambda: stage.supervisor.is_parked, "the park")
            pid = stage.pid
            assert not stage.supervisor.forward(signal.SIGINT)
            stage.supervisor.end(signal.SIGINT)
            assert await stage.code == 128 + signal.SIGINT
            assert identify(pid) is None
            assert await stage.gpu._driver.budget_left() == 1 << 40

    asyncio.run(story())


def test_a_job_that_the_broker_ends_says_try_later(tmp_path: Path, machine: Machine) -> None:
    """A lease that failed stops the job, and the code is one that a caller can tell from the job's own."""

    async def story() -> None:
        there = tmp_path / "there"
        async with running(tmp_path, [*python(STANDING), str(there)]) as stage:
            await begin(stage, there)
            stage.broker.put(status="failed")
            assert await stage.code == TRY_LATER

    asyncio.run(story())


def test_a_job_that_dies_while_parked_ends_and_books_nothing(tmp_path: Path, machine: Machine) -> None:
    """Somebody else's kill of a parked job is the job's own end, with its code."""

    async def story() -> None:
        there = tmp_path / "there"
        async with running(tmp_path, [*python(WORKS), str(there)]) as stage:
            await begin(stage, there)
            await stage.until(lambda: stage.broker.is_parkable, "its offer")
            stage.broker.call_back("parking")
            await stage.until(lambda: stage.supervisor.is_parked, "the park")
            with suppress(ProcessLookupError):
                os.kill(stage.pid, signal.SIGKILL)
            assert await stage.code == 128 + signal.SIGKILL
            assert await stage.gpu._driver.budget_left() == 1 << 40

    asyncio.run(story())


def test_the_broker_hears_what_the_job_uses(tmp_path: Path, machine: Machine) -> None:
    """Memory in bytes and GPU-seconds, of the job's processes alone, when it is time for it."""

    async def story() -> None:
        there = tmp_path / "there"
        code = HOLDS + "import pathlib, sys; pathlib.Path(sys.argv[1]).touch(); cuda.compute(load=50, seconds=600)"
        async with running(tmp_path, [*python(code), str(there)]) as stage:
            await begin(stage, there)
            assert stage.broker.memory is None
            (held,) = machine.occupancy.state().held
            await stage.until(lambda: machine.occupancy.state().held[0].utilisation == 50, "its computing")
            stage.supervisor._usage._reported_at -= 2 * EVERY_S
            await stage.until(lambda: stage.broker.memory is not None, "a report")
            assert stage.broker.memory == held.memory
            assert stage.broker.computed_s == pytest.approx(EVERY_S, rel=0.5)

    asyncio.run(story())
