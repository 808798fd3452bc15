"""A server is killed at each step: the next one cleans up, and says what was lost."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.devices.identity import Identity, identify, is_alive
from jupyter_gpushare.parking.journal import Journal
from jupyter_gpushare.parking.recovery import Outcome, Recovered
from jupyter_gpushare.parking.sequence import Step, Target
from jupyter_gpushare.rules.loss import Loss
from tests.parking.fake_checkpoint import FakeMachine
from tests.parking.stage import GB, ROOT, Stage, checkpoint_processes, state_letter, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AWAY = {Step.ATTEST_PARKED, Step.PARKED, Step.TOKEN, Step.ROOM, Step.RESTORE}
QUICK_S = 0.3


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[FakeMachine]:
    """A device of 10 GB. No checkpoint process outlives the test."""
    yield FakeMachine.create(tmp_path, GPU0=10 * GB)
    assert checkpoint_processes() == []


def let_a_server_die(directory: Path, at: Step, target: Target, *, freeze: bool = False) -> None:
    """Run a server until *at*, and wait until its checkpoint process has ended too."""
    told = {
        "kernel_id": target.kernel_id, "processes": target.processes, "memory": dict(target.memory), "freeze": freeze,
    }  # fmt: skip
    command = [sys.executable, "-m", "tests.parking.doomed_server", str(directory), at.value, json.dumps(told)]
    server = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=60, check=False)
    assert server.returncode == -signal.SIGKILL
    child = int(server.stdout)
    wait_until(lambda: identify(child) is None)


@pytest.mark.parametrize("at", list(Step))
def test_a_server_killed_at_a_step(tmp_path: Path, machine: FakeMachine, at: Step) -> None:
    """What can run, runs unlocked; what cannot ever come back is announced, ended, and said to be lost."""

    async def story() -> None:
        async with Stage(tmp_path, machine) as stage:
            target = stage.kernel(3 * GB, 2 * GB)
            let_a_server_die(tmp_path, at, target)
            announced: list[tuple[Recovered, bool]] = []

            def announce(what: Recovered) -> None:
                announced.append((what, all(map(is_alive, target.processes))))

            (recovered,) = await stage.parker.recover(announce, patience_s=QUICK_S)
            if at in AWAY:
                assert recovered.outcome is Outcome.ENDED_BY_US
                assert recovered.loss is Loss.ORPHAN_OF_A_DEAD_SERVER
                assert recovered.lost == 5 * GB
                assert announced == [(recovered, True)]
                wait_until(lambda: not any(map(is_alive, target.processes)))
            else:
                assert recovered.outcome is Outcome.RUNS
                assert recovered.lost == 0
                assert stage.states(target) == {"running"}
                assert announced == []
            stage.assert_nothing_is_left()
            assert await stage.parker.recover(patience_s=QUICK_S) == []

    asyncio.run(story())


def test_a_kernel_that_ends_with_its_server_is_said_to_be_lost(tmp_path: Path, machine: FakeMachine) -> None:
    """The usual end of a kernel whose server died: we end nothing, and people hear what is gone."""

    async def story() -> None:
        async with Stage(tmp_path, machine) as stage:
            target = stage.kernel(3 * GB)
            let_a_server_die(tmp_path, Step.TOKEN, target)
            stage.kernels.end(target.processes[0])
            announced: list[Recovered] = []
            (recovered,) = await stage.parker.recover(announced.append)
            assert recovered.outcome is Outcome.ENDED_ITSELF
            assert "3.0 GB" in recovered.message.text
            assert announced == []
            stage.assert_nothing_is_left()

    asyncio.run(story())


def test_a_frozen_kernel_goes_on_when_its_server_dies(tmp_path: Path, machine: FakeMachine) -> None:
    """A stopped process could never notice that its server is gone; the checkpoint process continues it."""

    async def story() -> None:
        async with Stage(tmp_path, machine) as stage:
            target = stage.kernel(3 * GB)
            let_a_server_die(tmp_path, Step.TOKEN, target, freeze=True)
            wait_until(lambda: state_letter(target.processes[0]) == "S")

    asyncio.run(story())


def test_a_kernel_whose_checkpoint_process_died_as_well_is_continued(tmp_path: Path, machine: FakeMachine) -> None:
    """The journal names what was frozen, so the next server can let it go on, even to its end."""

    async def story() -> None:
        async with Stage(tmp_path, machine) as stage:
            target = stage.kernel(3 * GB)
            dead = Journal(tmp_path / "journal", Identity(2**22, 1))
            dead.begin(target, Step.LOCK, frozen=target.processes)
            os.kill(target.processes[0].pid, signal.SIGSTOP)
            (recovered,) = await stage.parker.recover(patience_s=QUICK_S)
            assert recovered.outcome is Outcome.RUNS
            wait_until(lambda: state_letter(target.processes[0]) == "S")

    asyncio.run(story())


def test_another_process_with_the_same_id_is_spared(tmp_path: Path, machine: FakeMachine) -> None:
    """A process id that was given to somebody else since is never unlocked or ended."""

    async def story() -> None:
        async with Stage(tmp_path, machine) as stage:
            target = stage.kernel(GB)
            pid, start = target.processes[0]
            dead = Journal(tmp_path / "journal", Identity(2**22, 1))
            dead.begin(Target("kernel", (Identity(pid, start - 1),), {"GPU0": GB}), Step.PARKED)
            (recovered,) = await stage.parker.recover(patience_s=QUICK_S)
            assert recovered.outcome is Outcome.ENDED_ITSELF
            assert is_alive(target.processes[0])
            assert machine.calls() == []

    asyncio.run(story())


def test_a_driver_that_says_nothing_leaves_the_kernel_alone(tmp_path: Path, machine: FakeMachine) -> None:
    """Nothing is ended on a guess; people are told which process to look at."""

    async def story() -> None:
        async with Stage(tmp_path, machine) as stage:
            target = stage.kernel(GB)
            Journal(tmp_path / "journal", Identity(2**22, 1)).begin(target, Step.PARKED)
            for _ in range(8):
                machine.inject("state", "unknown")
            (recovered,) = await stage.parker.recover(patience_s=QUICK_S)
            assert recovered.outcome is Outcome.UNKNOWN
            assert str(target.processes[0].pid) in recovered.message.text
            assert is_alive(target.processes[0])

    asyncio.run(story())
