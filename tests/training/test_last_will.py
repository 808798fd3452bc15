"""A `run` that is killed takes its job with it: nothing stays on the GPU that nobody supervises."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.broker.audit_wire import AuditAnswer, AuditEntryModel
from jupyter_gpushare.broker.client import BrokerClient, Endpoint
from jupyter_gpushare.broker.wire import LeasesAnswer
from jupyter_gpushare.training.child import marked
from jupyter_gpushare.training.environment import LEASE
from tests.training.fake_broker import PATIENT_S
from tests.training.test_with_a_broker import (  # noqa: F401  # fixtures
    TRAIN,
    Place,
    ended,
    job_is,
    losses,
    place,
)

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

IN_A_SHELL = ["sh", "-c", '"$@" & wait', "sh"]
STUBBORN = """
import pathlib, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
pathlib.Path(sys.argv[1]).touch()
time.sleep(600)
"""


async def until(holds: Callable[[], bool], what: str) -> None:
    """Wait for it; fails with *what*."""
    deadline = time.monotonic() + PATIENT_S
    while not holds():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.05)


async def is_audited(place: Place, lease: str) -> None:  # noqa: F811
    """Wait until the audit has the loss of *lease*, announced by whoever held it."""
    client, found = BrokerClient(Endpoint.at_socket(place.socket)), list[AuditEntryModel]()
    deadline = time.monotonic() + PATIENT_S
    while not found:
        assert time.monotonic() < deadline, "no loss in the audit"
        await asyncio.sleep(0.05)
        lines = await client.request("GET", f"audit?lease={lease}", type=AuditAnswer)
        found = [line for line in lines.entries if line.verb == "loss"]
    assert found[0].by == "holder"
    assert found[0].details["loss"] == "job_stopped_after_grace"


async def stubborn_job(place: Place, *, grace_s: float) -> tuple[subprocess.Popen[bytes], str]:  # noqa: F811
    """A `run` whose job does not go on SIGTERM, and the id of its lease."""
    sign = place.directory / "ready"
    train = [sys.executable, "-c", STUBBORN, str(sign)]
    run = place.start_job("--project", "team-a", "--gpu", "1", "--grace", str(grace_s), train=train)
    await until(sign.exists, "the job to begin")
    answer = await BrokerClient(Endpoint.at_socket(place.socket)).request("GET", "leases", type=LeasesAnswer)
    (lease,) = answer.leases
    return run, lease.id


def guards(directory: Path) -> list[str]:
    """The processes of this test that wait for the death of a `run`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command, environ = (process / "cmdline").read_bytes(), (process / "environ").read_bytes()
        except OSError:
            continue  # it ended meanwhile
        if b"jupyter_gpushare.training.last_will" in command and f"TMPDIR={directory}".encode() in environ:
            found.append(process.name)
    return found


@pytest.mark.parametrize("shell", [[], IN_A_SHELL], ids=["itself", "in a shell"])
def test_a_job_ends_when_its_run_is_killed(place: Place, shell: list[str]) -> None:  # noqa: F811
    """SIGKILL to `run` ends the program on the GPU, below a shell too, and the next job gets the whole device."""

    async def story() -> None:
        file = place.directory / "losses.jsonl"
        train = [*shell, *TRAIN, "--steps", "99999", "--losses", str(file)]
        run = place.start_job("--project", "team-a", "--gpu", "1", "--grace", "20", train=train)
        client = BrokerClient(Endpoint.at_socket(place.socket))
        lease = await job_is(client, place, "running")
        await until(lambda: bool(losses(file)), "the training to begin")
        assert marked(f"{LEASE}={lease.id}")
        run.send_signal(signal.SIGKILL)
        await ended(run)
        await until(lambda: not marked(f"{LEASE}={lease.id}"), "the job to end")
        assert "was killed. Its job gets SIGTERM and has 20 s to save its work." in place.said()
        again = place.start_job("--project", "team-a", "--gpu", "1", train=[sys.executable, "-c", ""])
        assert await ended(again) == 0, place.said()
        answer = await client.request("GET", "leases", type=LeasesAnswer)
        assert [each.id for each in answer.leases if each.status == "running"] == []

    asyncio.run(story())


def test_a_job_that_ignores_it_is_ended_after_its_grace_and_that_is_told(place: Place) -> None:  # noqa: F811
    """One that does not go on SIGTERM is ended as the announced loss, not before its grace is over."""

    async def story() -> None:
        run, lease = await stubborn_job(place, grace_s=1.5)
        run.send_signal(signal.SIGKILL)
        await ended(run)
        killed = time.monotonic()
        await until(lambda: not marked(f"{LEASE}={lease}"), "the job to end")
        assert time.monotonic() - killed > 1
        assert "is ended. loss: job_stopped_after_grace" in place.said()
        await is_audited(place, lease)
        await until(lambda: not guards(place.directory), "the one beside it to end")

    asyncio.run(story())


def test_a_broker_that_was_away_then_hears_what_was_ended(place: Place) -> None:  # noqa: F811
    """With `run`, its job and the broker gone, the next broker's audit has the loss, and the lease is over."""

    async def story() -> None:
        run, lease = await stubborn_job(place, grace_s=0.5)
        place.broker.kill()
        await ended(place.broker)
        run.send_signal(signal.SIGKILL)
        await ended(run)
        await until(lambda: not marked(f"{LEASE}={lease}"), "the job to end")
        place.broker = place.start_broker()
        await is_audited(place, lease)
        await until(lambda: not guards(place.directory), "the one beside it to end")
        answer = await BrokerClient(Endpoint.at_socket(place.socket)).request("GET", "leases", type=LeasesAnswer)
        assert [each.id for each in answer.leases if each.status == "running"] == []

    asyncio.run(story())


def test_a_run_that_ends_leaves_nothing_that_waits_for_its_death(place: Place) -> None:  # noqa: F811
    """With a job that has ended nobody is left behind, and nothing is said of any killing."""

    async def story() -> None:
        job = place.start_job("--project", "team-a", "--gpu", "1", train=[sys.executable, "-c", ""])
        assert await ended(job) == 0
        await until(lambda: not guards(place.directory), "the one beside it to end")
        assert "was killed" not in place.said()

    asyncio.run(story())
