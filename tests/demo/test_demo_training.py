"""The demo's own broker and its jobs: what it is told, what jobs are counted by, and who joins it."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.broker.client import BROKER, Endpoint
from jupyter_gpushare.broker.configuration import Configuration
from jupyter_gpushare.demo.broker import DemoBroker, two_projects
from jupyter_gpushare.demo.jobs import Job, steps_per_s
from jupyter_gpushare.demo.light_holder import LightHolder
from jupyter_gpushare.demo.machine import create_machine
from jupyter_gpushare.demo.processes import Child
from jupyter_gpushare.demo.server import ServerError
from jupyter_gpushare.demo.workspace import Workspace

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator
    from pathlib import Path

DEADLINE_S = 60


@pytest.fixture
def workspace() -> Iterator[Workspace]:
    """A demo's places."""
    workspace = Workspace.create()
    yield workspace
    workspace.remove()


@pytest.fixture
def job(workspace: Workspace) -> Iterator[Job]:
    """One that has made no steps yet."""
    child = Child([sys.executable, "-c", ""], {}, workspace.root, workspace.root / "log")
    yield Job("job", child, workspace.root / "losses")
    child.end()


def test_what_the_demos_broker_is_told_is_a_configuration() -> None:
    """A slip in the text would keep every demo from starting."""
    told = Configuration.parse(two_projects(training="1.5"))
    assert {project.name: str(project.quota) for project in told.projects} == {"notebooks": "0.5", "training": "1.5"}
    assert told.pools[0].minimum_turn_s == 0


def test_stories_without_a_broker_join_none(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine's own broker knows nothing of simulated GPUs: a demo must neither find nor be told of it."""
    monkeypatch.setenv(BROKER, "unix:/run/gpushare/broker.sock")
    assert Endpoint.discover(workspace.environment()) is None
    joined = Endpoint.discover(workspace.environment(broker=True))
    assert joined is not None
    assert joined.socket == str(workspace.broker_socket)


def test_a_half_written_line_is_no_step(job: Job) -> None:
    """Steps are counted while the job writes: what it has not finished is not counted, and does not break the count."""
    assert (job.steps, job.made()) == (0, [])
    job.losses.write_text(json.dumps([0, "0x1p0"]) + "\n" + "[1, ")
    assert (job.steps, job.made()) == (1, [0])


async def test_steps_are_counted_over_all_jobs(job: Job) -> None:
    """What training gets done is what its jobs get done together, in the time that was counted."""
    counting = asyncio.create_task(steps_per_s([job, job], 0.2))
    await asyncio.sleep(0)
    job.losses.write_text("[0, 0]\n" * 10)
    assert 50 < await counting <= 100


async def test_light_holders_hold_real_leases(workspace: Workspace) -> None:
    """A lease runs though no program does, makes room for one that may reclaim it, and ends when its holder says so."""
    create_machine(workspace)
    children: list[Child] = []
    policy = "[projects.a]\nquota = 2\n[projects.b]\nquota = 0\n[pools.default]\nminimum_turn = '0s'\n"
    environment = workspace.environment(broker=True)
    try:
        broker = await DemoBroker.start(workspace, environment, policy, deadline_s=DEADLINE_S, started=children.append)
        over, inside = LightHolder("over", "training", "b", "2"), LightHolder("inside", "training", "a", "2")
        for holder in (over, inside):
            holding = holder.claim(broker.client)
            await asyncio.wait_for(holding.until(lambda lease: lease.status == "running"), DEADLINE_S)
        statuses = {lease.name: lease.status for lease in await broker.leases()}
        assert statuses == {"over": "queued", "inside": "running"}
        await asyncio.gather(over.end(), inside.end())
        assert await broker.lease("over") is None
    finally:
        for child in children:
            child.end()


async def test_a_broker_that_cannot_start_says_why(workspace: Workspace) -> None:
    """Whoever starts the demo reads what the broker said, and not that a socket is missing."""
    create_machine(workspace)
    children: list[Child] = []
    with pytest.raises(ServerError, match=r"pools.*backoff"):
        await DemoBroker.start(
            workspace,
            workspace.environment(broker=True),
            "[pools.default]\nbackoff = 'soon'\n",
            deadline_s=DEADLINE_S,
            started=children.append,
        )
    assert children[0].end() != 0


def test_a_directory_that_is_too_deep_for_a_socket_is_named_with_the_remedy(
    gpushare: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """Unix sockets have short paths: the message names the variable that helps, and nothing is left behind."""
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    ended = gpushare("demo", "--json", "--tour", "teams", TMPDIR=str(deep))
    assert ended.returncode == 1
    assert "set TMPDIR to a directory with a shorter path" in ended.stdout + ended.stderr
    assert list(deep.iterdir()) == []
