"""A job whose supervisor is not heard: what it was given last may be somebody else's by now."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.training.held import may_begin
from tests.training.conftest import python, running
from tests.training.fake_broker import FakeBroker

if TYPE_CHECKING:
    from pathlib import Path


# It looks at least once a second.
_LOOKS_S = 1.5
_FOREVER = "import time; time.sleep(3600)"


@pytest.mark.parametrize(("away_s", "may"), [(0.0, True), (9.0, True), (11.0, False)])
def test_what_was_told_last_counts_for_a_moment_without_a_connection(away_s: float, *, may: bool) -> None:
    """A broker that restarts delays nobody; one that has given it up for lost meanwhile is asked first."""
    broker = FakeBroker("GPU-0")
    broker.connected, broker.since = False, 100.0
    assert may_begin(broker, 100.0 + away_s) is may
    broker.connected = True
    assert may_begin(broker, 100.0 + away_s)


@pytest.mark.usefixtures("machine")
def test_a_job_starts_on_an_old_grant_only_when_it_is_heard_again(tmp_path: Path) -> None:
    """Behind a partition it waits; with the broker back, which still says so, it starts at once."""

    async def story() -> None:
        async with running(tmp_path, python(_FOREVER)) as stage:
            stage.broker.connected, stage.broker.since = False, time.time() - 60
            stage.broker.grant()
            granted = time.monotonic()
            await stage.until(lambda: time.monotonic() - granted > _LOOKS_S, "some looks at an old grant")
            assert stage.supervisor.child is None
            stage.broker.connected, stage.broker.since = True, time.time()
            stage.supervisor.wake()
            await stage.until(lambda: stage.supervisor.child is not None, "the job's start")

    asyncio.run(story())


@pytest.mark.usefixtures("machine")
def test_a_job_whose_lease_was_given_up_stops_and_starts_again(tmp_path: Path) -> None:
    """Back from a partition to a claim that waits anew, it leaves its device, and goes on with its next grant."""

    async def story() -> None:
        async with running(tmp_path, python(_FOREVER)) as stage:
            stage.broker.grant()
            await stage.broker.has_said("running")
            first = stage.supervisor.child
            stage.broker.go_away()
            stage.broker.connected = True
            stage.broker.put(id="lease-2", status="queued", epoch=0, grants=[])
            await stage.until(lambda: stage.supervisor.child is None, "the end of what it has no share for")
            assert any("counted this job as gone" in line for line in stage.told)
            stage.broker.grant()
            await stage.until(lambda: stage.supervisor.child is not None, "its next start")
            assert stage.supervisor.child is not first
            assert stage.supervisor.restarts == 1
            assert stage.broker.lease.status == "running"

    asyncio.run(story())
