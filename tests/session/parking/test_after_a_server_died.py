"""The next server cleans up after one that died, and says what was lost."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.devices.identity import Identity, identify, is_alive
from jupyter_gpushare.devices.simulated.faults import FailsAt
from jupyter_gpushare.parking.journal import Journal
from jupyter_gpushare.parking.sequence import Step, Target
from jupyter_gpushare.parking.simulated import SimulatedCheckpoint
from jupyter_gpushare.session.parking.places import gates_directory, remove_left_gates, state_directory
from tests.session.parking.preflight_row import HOLDER, STAYS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def gone() -> Identity:
    """A process that was there a moment ago."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    identity = identify(process.pid)
    process.communicate()
    assert identity is not None
    return identity


async def test_what_was_lost_is_said(api: Any, session: Any, until: Any) -> None:
    """A kernel that was parked when its server died is told as a loss, with how much it was."""

    async def notices() -> Any:
        return (await api("session"))["notices"]

    target = Target("old-kernel", (gone(),), {"GPU-0": 6 << 30})
    Journal(session.parking.state_directory, server=gone()).begin(target, Step.PARKED)
    await session.parking._recover()
    # The server's own first look may still be under way, and be the one that finds it.
    (notice,) = await until(notices)
    assert (notice["kind"], notice["message"]["code"]) == ("loss", "RECOVERED_ENDED_ITSELF"), notice
    assert "6.4 GB" in notice["message"]["text"]
    assert Journal(session.parking.state_directory).inherit() == []


@pytest.fixture(name="holder")
def _holder(machine: Any) -> Iterator[Callable[[], Identity]]:
    """Starts a program that holds a GPU, as a kernel that outlived its server; the machine knows it."""
    started: list[Any] = []

    def holder() -> Identity:
        assert machine.path
        started.append(subprocess.Popen([sys.executable, "-c", HOLDER + STAYS], stdout=subprocess.PIPE, text=True))
        assert started[-1].stdout.readline() == "holding\n"
        identity = identify(started[-1].pid)
        assert identity is not None
        return identity

    yield holder
    for program in started:
        program.kill()
        program.communicate()


async def test_what_outlived_its_server_is_freed_or_ended_and_said(
    api: Any, session: Any, until: Any, machine: Any, holder: Any
) -> None:
    """A lock is undone and its program runs on; one whose GPU state is away is ended, as a loss; a doubt is told."""
    held = {name: await asyncio.to_thread(holder) for name in ("doubt", "runs", "away")}
    driver, dead, uuid = SimulatedCheckpoint(machine.path), gone(), machine.devices[0].uuid
    for process in held.values():
        driver.lock(process, 1000)
    driver.checkpoint(held["away"])
    journal = Journal(session.parking.state_directory, server=dead)

    async def recovered(*steps: tuple[str, Step]) -> None:
        for name, step in steps:
            journal.begin(Target(name, (held[name],), {uuid: 6 << 30}), step)
        await session.parking._recover()

    async def told(code: str) -> Any:
        notices = (await api("session"))["notices"]
        return next((notice for notice in notices if notice["message"]["code"] == code), None)

    machine.inject(FailsAt("get_state"))
    await recovered(("doubt", Step.LOCK))
    doubt = await until(lambda: told("RECOVERED_UNKNOWN"))
    assert (doubt["kind"], str(held["doubt"].pid) in doubt["message"]["text"]) == ("info", True)
    machine.clear()
    await recovered(("runs", Step.LOCK), ("away", Step.PARKED))
    lived, lost = await until(lambda: told("RECOVERED_RUNS")), await until(lambda: told("RECOVERED_ENDED_BY_US"))
    assert (lived["kind"], lost["kind"], "6.4 GB" in lost["message"]["text"]) == ("info", "loss", True)
    assert driver.state(held["runs"]).value == "running"
    await until(lambda: not is_alive(held["away"]))
    driver.close()


def test_flags_of_servers_that_are_gone_are_removed(tmp_path: Path) -> None:
    """A flag left behind would hold messages of nobody; those of living servers stay."""
    left, own, other = tmp_path / "gates-{}-{}".format(*gone()), gates_directory(tmp_path), tmp_path / "gates-notes"
    for path in (left, own, other):
        path.mkdir()
        (path / "K.closed").touch()
    remove_left_gates(tmp_path)
    assert [path.exists() for path in (left, own, other)] == [False, True, True]


def test_a_place_that_cannot_be_had_keeps_no_server_from_starting(tmp_path: Path) -> None:
    """Where the directory is a file, or belongs to somebody else, another one is taken."""
    file = tmp_path / "file"
    file.touch()
    assert state_directory(str(file / "below"), logging.getLogger("test")).is_dir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    assert state_directory(str(link), logging.getLogger("test")) not in (link, tmp_path)
