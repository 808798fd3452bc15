"""The REST routes and the stream, as scripts and dashboards use them."""

from __future__ import annotations

import asyncio
import getpass
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from openapi_spec_validator import validate
from prometheus_client.parser import text_string_to_metric_families
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from jupyter_gpushare.broker import admin_wire, wire
from jupyter_gpushare.broker.audit_wire import AuditAnswer, AuditEntryModel
from jupyter_gpushare.broker.availability_wire import AvailabilityAnswer
from jupyter_gpushare.broker.claiming import lease_of_claim
from jupyter_gpushare.broker.client import BrokerError
from jupyter_gpushare.rules.event import Submitted, Wanted
from jupyter_gpushare.rules.lease import Target
from tests.broker.service.bench import JOB, SESSION, Bench, until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Play = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]

WHOLE = msgspec.structs.replace(SESSION, share="1")
POLICY = '[projects.default]\nquota = "unlimited"\n[projects.team]\nquota = "0.5"\n'


def test_the_document_is_valid_and_every_answer_fits_it(play: Play) -> None:
    """OpenAPI 3.1, and what the routes really answer is what it says."""

    async def story(bench: Bench) -> None:
        document: dict[str, Any] = await bench.client.request("GET", "openapi.json")
        validate(document)
        await bench.parked(WHOLE)
        await bench.running(JOB)
        await bench.client.request("GET", "", type=wire.BrokerModel)
        await bench.client.request("GET", "projects", type=wire.ProjectsAnswer)
        devices = await bench.client.request("GET", "devices", type=wire.DevicesAnswer)
        assert (devices.devices[0].parked, devices.devices[0].lent, devices.devices[0].held) == ("1", "1", "1")
        leases = await bench.client.request("GET", "leases?status=parked", type=wire.LeasesAnswer)
        assert [(lease.name, lease.lent_to[0].name) for lease in leases.leases] == [("lab", "train")]
        one = await bench.client.request("GET", f"leases/{leases.leases[0].id}", type=wire.LeaseModel)
        assert one == leases.leases[0]

    play(story)


def test_metrics_say_where_the_capacity_is(play: Play) -> None:
    """Prometheus can read the page; what is parked, lent and waited for is on it, and no name of a person or notebook."""

    async def story(bench: Bench) -> None:
        await bench.parked(WHOLE)
        await bench.running(JOB)
        page = (await bench.client.fetch("GET", "metrics")).decode()
        found = {sample.name: sample for family in text_string_to_metric_families(page) for sample in family.samples}
        uses = {
            sample.labels["use"]: sample.value
            for family in text_string_to_metric_families(page)
            for sample in family.samples
            if sample.name == "gpushare_gpus"
        }
        assert uses == {"held": 0.0, "parked": 1.0, "lent": 1.0, "foreign": 0.0, "free": 0.0}
        assert found["gpushare_parked_bytes"].value == 1 << 30
        assert found["gpushare_decision_seconds_count"].value > 0
        assert found["gpushare_commit_seconds_count"].value > 0
        assert found["gpushare_wait_seconds_count"].value == 1
        assert "lab" not in page
        assert "root" not in page

    play(story)


def test_the_audit_is_read_in_pages(play: Play) -> None:
    """Each line once, oldest first; a page ends where the next begins."""

    async def story(bench: Bench) -> None:
        session = await bench.parked(WHOLE)
        assert session.lease is not None
        whole = await bench.client.request("GET", "audit?limit=1000", type=AuditAnswer)
        paged: list[AuditEntryModel] = []
        while page := await bench.client.request(
            "GET", f"audit?limit=2&after={paged[-1].number if paged else 0}", type=AuditAnswer
        ):
            if not page.entries:
                break
            paged += page.entries
        assert paged == whole.entries
        mine = await bench.client.request("GET", f"audit?lease={session.lease.id}", type=AuditAnswer)
        assert [entry.verb for entry in mine.entries] == ["submitted", "granted", "started", "asked_to_park", "parked"]
        for wrong in ("limit=0", "limit=1001", "limit=x", "after=-1", "after=NaN", "limit=" + "9" * 5000):
            with pytest.raises(BrokerError) as caught:
                await bench.client.request("GET", f"audit?{wrong}")
            assert caught.value.field == wrong.partition("=")[0]

    play(story)


def test_availability_is_what_a_claim_would_get(play: Play) -> None:
    """Now, later or never with the reason; and asking changes nothing."""

    async def story(bench: Bench) -> None:
        await bench.running()
        before = bench.broker.books
        answer = await bench.client.request(
            "GET", "availability?share=0.5&share=1&share=2&share=0.1@h100", type=AvailabilityAnswer
        )
        assert [each.fits_now for each in answer.shares] == [True, False, False, False]
        reasons = [each.reason.code if each.reason else "" for each in answer.shares]
        assert reasons[0] == ""
        assert reasons[2:] == ["NO_SUCH_DEVICE", "NO_SUCH_DEVICE"]
        assert bench.broker.books is before
        for wrong in ("", "?share=x", "?share=1&kind=holiday", "?" + "&".join(["share=1"] * 33)):
            with pytest.raises(BrokerError) as caught:
                await bench.client.request("GET", f"availability{wrong}")
            assert caught.value.status == 400

    play(story)


def test_a_configuration_is_looked_at_then_applied_and_outlives_the_broker(play: Play) -> None:
    """A dry run changes nothing; applied it holds at once and after a restart; a wrong one changes nothing at all."""

    async def story(bench: Bench) -> None:
        dry = await bench.client.request(
            "POST", "apply", admin_wire.ApplyRequest(POLICY, dry_run=True), type=admin_wire.ApplyAnswer
        )
        assert any("team" in line for line in dry.changes)
        assert "team" not in bench.broker.books.projects
        await bench.client.request("POST", "apply", admin_wire.ApplyRequest(POLICY), type=admin_wire.ApplyAnswer)
        assert str(bench.broker.books.projects["team"].quota) == "0.5"
        with pytest.raises(BrokerError) as caught:
            await bench.client.request("POST", "apply", admin_wire.ApplyRequest("[projects.x]\nquta = 1"))
        assert "quta" in caught.value.text
        await bench.stop()
        await bench.start()
        answer = await bench.client.request("GET", "projects", type=wire.ProjectsAnswer)
        assert {project.name: project.source for project in answer.projects} == {"default": "api", "team": "api"}

    play(story)


def test_what_a_file_sets_is_read_only_and_read_again_on_request(bench: Bench, play: Play) -> None:
    """With a file only the file counts; a reload takes a right one over, and a wrong one leaves all as it was."""
    path = bench.directory / "gpushare.toml"
    path.write_text(POLICY)
    bench.settings = replace(bench.settings, configuration=path)

    async def story(bench: Bench) -> None:
        with pytest.raises(BrokerError) as caught:
            await bench.client.request("POST", "apply", admin_wire.ApplyRequest(POLICY))
        assert caught.value.code == "SET_BY_FILE"
        assert str(path) in caught.value.text
        path.write_text("nonsense")
        with pytest.raises(ValueError, match="TOML"):
            await bench.broker.reload()
        assert "team" in bench.broker.books.projects
        path.write_text(POLICY.replace("0.5", "0.75"))
        await bench.broker.reload()
        assert str(bench.broker.books.projects["team"].quota) == "0.75"

    play(story)


def test_an_admin_reclaims_drains_and_stops_parking(play: Play) -> None:
    """Each does what it says, is in the audit under the admin's name, and can be undone."""

    async def story(bench: Bench) -> None:
        session = await bench.running(WHOLE)
        assert session.lease is not None
        key = session.lease.id
        await bench.client.request("POST", "admin/reclaim", admin_wire.ReclaimRequest(key), type=wire.LeaseModel)
        asked = await session.until(lambda lease: lease.target == "parked")
        await session.until(lambda lease: lease.status == "parking")
        session.did("released", asked.epoch)
        await session.until(lambda lease: lease.status == "parked")
        stopped = await bench.client.request(
            "POST", "admin/stop-parking", admin_wire.StopParkingRequest(stop=True), type=wire.BrokerModel
        )
        assert stopped.is_parking_stopped
        await session.until(lambda lease: lease.status == "resuming")
        await bench.client.request("POST", "admin/stop-parking", admin_wire.StopParkingRequest(stop=False))
        request = admin_wire.DrainRequest(device=bench.device)
        drained = await bench.client.request("POST", "admin/drain", request, type=wire.DevicesAnswer)
        assert drained.devices[0].condition == "draining"
        await bench.broker.evidence.look()
        again = await bench.client.request(
            "POST", "admin/drain", admin_wire.DrainRequest(device=bench.device, undo=True), type=wire.DevicesAnswer
        )
        assert again.devices[0].condition == "ready"
        lines = await bench.client.request("GET", f"audit?by={session.lease.person}", type=AuditAnswer)
        assert {"asked_to_park", "parking_switched"} <= {entry.verb for entry in lines.entries}
        for path, body in {
            "admin/drain": admin_wire.DrainRequest(),
            "admin/reclaim": admin_wire.ReclaimRequest("nobody"),
        }.items():
            with pytest.raises(BrokerError):
                await bench.client.request("POST", path, body)

    play(story)


def test_its_owner_ends_a_lease_through_the_api(play: Play) -> None:
    """DELETE asks the holder to end it; nothing is freed before the device shows it."""

    async def story(bench: Bench) -> None:
        session = await bench.running()
        assert session.lease is not None
        told = await bench.client.request("DELETE", f"leases/{session.lease.id}", type=wire.LeaseModel)
        assert told.target == "ended"
        lease = await session.until(lambda lease: lease.status == "yielding")
        session.did("released", lease.epoch)
        await until(lambda: not bench.broker.books.leases)

    play(story)


def test_a_watcher_sees_the_state_and_then_every_change(play: Play) -> None:
    """The stream begins with everything and goes on with each lease that changes."""

    async def story(bench: Bench) -> None:
        await bench.running()
        endpoint = bench.client.endpoint
        request = HTTPRequest(f"ws{endpoint.url.removeprefix('http')}/stream")
        watching = await websocket_connect(request, resolver=endpoint.resolver())
        state = msgspec.json.decode(await _next(watching), type=wire.StreamMessage)
        assert isinstance(state, wire.StateMessage)
        assert [lease.status for lease in state.leases] == ["running"]
        await bench.running(msgspec.structs.replace(SESSION, key="two"))
        seen = []
        while "running" not in seen:
            message = msgspec.json.decode(await _next(watching), type=wire.StreamMessage)
            assert isinstance(message, wire.LeaseMessage)
            seen.append(message.lease.status)
        assert seen == ["granted", "running"]
        watching.close()

    play(story)


def test_who_begins_to_watch_while_things_change_misses_nothing(play: Play) -> None:
    """The whole state takes several turns to say; what changes meanwhile comes after it."""

    async def story(bench: Bench) -> None:
        now, reconciler = bench.broker.clock.now(), bench.broker.reconciler
        claims = [msgspec.structs.replace(JOB, key=f"job-{number}") for number in range(1000)]
        jobs = [lease_of_claim(claim, getpass.getuser(), now) for claim in claims]
        await reconciler.submit([Submitted(job) for job in jobs])
        watchers = []
        for number, job in enumerate(reversed(jobs[400:])):
            if number % 100 == 0:
                watchers.append(asyncio.ensure_future(_watch(bench, jobs[400].id)))
            await reconciler.submit([Wanted(job.id, Target.ENDED)])
        for begun, left in await asyncio.gather(*watchers):
            assert left == bench.broker.books.leases.keys() < begun

    play(story)


async def _watch(bench: Bench, last: str) -> tuple[set[str], set[str]]:
    """The leases in the whole state, and which of them are left when *last* has ended."""
    endpoint = bench.client.endpoint
    request = HTTPRequest(f"ws{endpoint.url.removeprefix('http')}/stream")
    watching = await websocket_connect(request, resolver=endpoint.resolver())
    state = msgspec.json.decode(await _next(watching), type=wire.StreamMessage)
    assert isinstance(state, wire.StateMessage)
    left = {lease.id for lease in state.leases}
    begun = set(left)
    while last in left:
        message = msgspec.json.decode(await _next(watching), type=wire.StreamMessage)
        assert isinstance(message, wire.LeaseMessage)
        if message.lease.status == "ended":
            left.discard(message.lease.id)
    watching.close()
    return begun, left


async def _next(watching: Any) -> Any:
    said = await asyncio.wait_for(asyncio.ensure_future(watching.read_message()), 60)
    assert said is not None
    return said


def test_a_mistake_of_ours_is_hidden_behind_an_id(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    """What fails inside is a 500 with an id that is in the log, and nothing else of it gets out."""

    async def story(bench: Bench) -> None:
        def broken() -> None:
            raise RuntimeError("secret")

        bench.broker.model = broken  # type: ignore[assignment,method-assign]  # a mistake
        with caplog.at_level(logging.ERROR), pytest.raises(BrokerError) as caught:
            await bench.client.request("GET", "")
        assert caught.value.code == "INTERNAL_ERROR"
        assert "secret" not in caught.value.text
        assert caught.value.text.rsplit(" ", 1)[-1].rstrip(".") in caplog.text

    play(story)
