"""Admins and machines that take away what is in use: quotas, projects, capacity. What runs goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from jupyter_gpushare.broker.admin_wire import ApplyAnswer, ApplyRequest
from jupyter_gpushare.broker.audit_wire import AuditAnswer
from jupyter_gpushare.broker.client import BrokerError
from jupyter_gpushare.broker.wire import DevicesAnswer
from tests.broker.service.bench import JOB, SESSION, Bench, never, until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Play = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]

TEAM = '[projects.team]\nquota = "{quota}"\n[projects.rest]\nquota = 1\n'
OF_TEAM = msgspec.structs.replace(SESSION, project="team", share="0.5")


async def apply(bench: Bench, text: str) -> ApplyAnswer:
    """Put *text* in force."""
    return await bench.client.request("POST", "apply", ApplyRequest(text), ApplyAnswer)


def test_a_quota_below_what_is_used_ends_nobody_and_admits_nobody(play: Play) -> None:
    """The session goes on, parks and comes back; the next one is refused until the quota has room again."""

    async def story(bench: Bench) -> None:
        await apply(bench, TEAM.format(quota=1))
        session = await bench.running(OF_TEAM)
        assert session.lease is not None
        answer = await apply(bench, TEAM.format(quota="0.25"))
        assert any("team" in warning for warning in answer.warnings)
        assert bench.lease(session.lease.id).status == "running"
        late = bench.hold(msgspec.structs.replace(OF_TEAM, key="late"))
        with pytest.raises(BrokerError) as caught:
            await late.granted()
        assert caught.value.code == "EXCEEDS_PROJECT_QUOTA"
        session.want("parked", 1)
        parking = await session.until(lambda lease: lease.status == "parking")
        session.did("released", parking.epoch)
        await session.until(lambda lease: lease.status == "parked")
        session.want("running")
        await session.until(lambda lease: lease.status == "resuming")

    play(story)


def test_a_project_that_is_deleted_in_use_keeps_what_runs(play: Play) -> None:
    """Its session parks and comes back; a new claim under its name is refused with the projects that there are."""

    async def story(bench: Bench) -> None:
        await apply(bench, TEAM.format(quota=1))
        session = await bench.parked(OF_TEAM)
        assert session.lease is not None
        await apply(bench, "[projects.rest]\nquota = 1\n")
        assert bench.lease(session.lease.id).status == "parked"
        late = bench.hold(msgspec.structs.replace(OF_TEAM, key="late"))
        with pytest.raises(BrokerError) as caught:
            await late.granted()
        assert caught.value.code == "NO_SUCH_PROJECT"
        session.want("running")
        resuming = await session.until(lambda lease: lease.status == "resuming")
        session.did("running", resuming.epoch)
        await session.until(lambda lease: lease.status == "running")
        await session.end()
        await until(lambda: not bench.broker.books.leases)

    play(story)


def test_capacity_that_is_taken_from_below_those_who_run_is_marked_and_drained(play: Play) -> None:
    """A foreign program takes half of a full device: nobody is ended, it is said, and nothing new comes there."""

    async def story(bench: Bench) -> None:
        notebook, stranger = bench.program(), bench.program()
        session = await bench.running(msgspec.structs.replace(SESSION, share="1"), notebook.pid)
        assert session.lease is not None
        stranger.run("buffer = cuda.allocate(2 << 30)")
        await bench.broker.evidence.look()
        await until(lambda: bench.broker.books.devices[bench.device].foreign)
        seen = await bench.client.request("GET", "devices", type=DevicesAnswer)
        assert seen.devices[0].over_committed
        assert bench.lease(session.lease.id).status == "running"
        job = bench.hold(msgspec.structs.replace(JOB, share="0.25"))
        await job.until(lambda lease: lease.status == "queued")
        await never(lambda: job.lease and job.lease.status != "queued")
        said = await bench.client.request("GET", "audit?limit=1000", type=AuditAnswer)
        assert any(entry.verb == "over_committed" and bench.device in entry.devices for entry in said.entries)

    play(story)
