"""What a hub's people ask of its broker: availability, limits, asks, the last day, the audit; and crafted requests."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from jupyter_gpushare.broker import hub_wire
from jupyter_gpushare.broker.audit_wire import AuditAnswer
from jupyter_gpushare.broker.availability_wire import AvailabilityAnswer
from jupyter_gpushare.broker.clock import VirtualClock
from jupyter_gpushare.rules.event import Idle
from tests.broker.service.bench import Bench, processes_of, until
from tests.broker.service.hub_town import POLICY, HubTown, session

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Play = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]

NAME = "hub:ana/"
KEY = "hub:ana%2F"


@pytest.fixture(name="town")
def _town(bench: Bench) -> HubTown:
    """A hub's broker with one device."""
    return HubTown(bench)


async def running(town: HubTown, key: str = "lab", who: str = "ana", **words: Any) -> Any:
    """A notebook server of *who* that runs."""
    holding = town.client(who).hold(session(key, **words), processes_of(os.getpid()))
    lease = await asyncio.wait_for(holding.granted(), 60)
    holding.did("running", lease.epoch)
    await holding.until(lambda each: each.status == "running")
    return holding


# Availability


def test_availability_says_all_that_a_picker_shows(town: HubTown, play: Play) -> None:
    """How many there are now, what they mean, whose turn it would be, what is left; for others only to the hub."""

    async def story(bench: Bench) -> None:
        await town.start(KEY)
        path = "availability?share=0.25&share=1&share=4x1&share=2GiB..3GiB&project=team&person=bo"
        answer = (await town.ask("GET", path)).of(AvailabilityAnswer)
        quarter, whole, four, memory = answer.shares
        assert (quarter.fits_now, quarter.free, quarter.is_refused) == (True, 2, False)
        assert (whole.fits_now, whole.free, whole.place) == (False, 0, 1)
        assert (four.is_refused, four.place) == (True, None)
        assert four.reason is not None
        usable = bench.machine.devices[0].usable.bytes
        assert (quarter.memory, quarter.burst, quarter.kinds) == (usable // 4, usable // 4, ["a100"])
        assert (memory.memory or 0) >= 2 << 30
        assert (memory.burst or 0) >= 3 << 30
        assert (answer.project, answer.in_use, answer.quota, answer.left) == ("team", "0.5", "2", "1.5")
        assert answer.is_simulated
        assert answer.is_parking
        assert answer.parks_up_to is not None
        mine = (await town.ask("GET", "availability?share=1&project=other", "ana")).of(AvailabilityAnswer)
        assert mine.shares[0].reason is not None
        assert mine.shares[0].reason.code == "NOT_A_MEMBER"
        by_group = "availability?share=0.25&project=team&person=zoe"
        assert not (await town.ask("GET", by_group)).of(AvailabilityAnswer).shares[0].fits_now
        assert (await town.ask("GET", f"{by_group}&group=team")).of(AvailabilityAnswer).shares[0].fits_now
        assert (await town.ask("GET", by_group, "ana")).status == 403

    play(story)


def test_what_those_in_line_ask_for_is_not_left(town: HubTown, play: Play) -> None:
    """A picker says no more is left than could be had, and the refusal counts the same."""

    async def story(bench: Bench) -> None:
        del bench
        await town.start(KEY)
        assert (await town.put("hub:bo%2F", person="bo", share="1", wait=True)).status == 202
        path = "availability?share=0.5&share=0.75&project=team&person=cy&group=team"
        answer = (await town.ask("GET", path)).of(AvailabilityAnswer)
        half, more = answer.shares
        assert (answer.in_use, answer.left) == ("0.5", "0.5")
        assert (half.is_refused, more.is_refused) == (False, True)
        assert more.reason is not None
        assert "2 GPU for notebooks, and 1.5 is taken or asked for by those in line" in more.reason.text

    play(story)


def test_looking_changes_nothing(town: HubTown, play: Play) -> None:
    """However often a picker asks, nobody is called back, nothing is kept and nobody becomes a member."""

    async def story(bench: Bench) -> None:
        job = await running(town, "job", "bo", kind="training", project="spare", share="1", grace_s=5.0)
        before = bench.broker.books
        for _ in range(20):
            await town.ask("GET", "availability?share=1&project=team&person=zoe&group=team")
        assert bench.broker.books.projects == before.projects
        assert job.lease.status == "running"
        await job.close()

    play(story)


# People


def test_groups_are_learned_with_each_request_and_each_claim(town: HubTown, play: Play) -> None:
    """Whoever the hub says is in a group is a member from then on, also after a restart, and no longer than it says."""
    town.groups["eve"] = frozenset({"team"})

    async def story(bench: Bench) -> None:
        mine = (await town.ask("GET", "memberships", "eve")).of(hub_wire.MembershipModel)
        assert (mine.groups, mine.projects, mine.owns) == (["team"], ["team"], [])
        assert (await town.put("k", "eve", wait=True)).status == 201
        claimed = await town.start("hub:fay%2F", person="fay", groups=["team"], share="0.25")
        assert claimed.status == 201
        assert bench.broker.books.projects["team"].joined == {"eve", "fay"}
        await bench.stop()
        bench.options.pop("ledger", None)
        await bench.start()
        assert bench.broker.books.projects["team"].joined == {"eve", "fay"}
        lines = bench.broker._ledger.audit(where={"verb": "policy_set"})  # type: ignore[union-attr]  # it is open
        assert len(lines) == 1
        refused = await town.start("hub:fay%2Ftwo", person="fay", groups=[], share="0.1")
        assert refused.code == "NOT_A_MEMBER"
        known = (await town.ask("GET", "memberships?person=fay")).of(hub_wire.MembershipModel)
        assert (known.groups, known.projects) == ([], [])

    play(story)


def test_an_owner_sets_limits_and_no_quota(town: HubTown, play: Play) -> None:
    """One person's limit holds at once, within the quota; the quota is the file's, and says where."""
    town.groups["lea"] = frozenset({"leads"})

    async def story(bench: Bench) -> None:
        path = "projects/team/limits"
        said = await town.ask("PUT", path, "lea", {"person": "ana", "limit": "0.25", "why": "fair"})
        [ana] = [each for each in said.of(hub_wire.MembersAnswer).members if each.person == "ana"]
        assert (ana.limit, ana.is_own_limit) == ("0.25", True)
        assert (await town.start(KEY)).code == "EXCEEDS_PERSON_LIMIT"
        assert (await town.ask("PUT", path, "lea", {"person": "ana", "limit": "3"})).code == "EXCEEDS_PROJECT_QUOTA"
        assert (await town.ask("PUT", path, "lea", {"quota": "9"})).code == "NOT_AN_ADMIN"
        by_file = await town.ask("PUT", path, "admin", {"quota": "9"})
        assert (by_file.status, by_file.code) == (409, "CONFIGURED_BY_FILE")
        assert str(town.file) in by_file.body.decode()
        assert (await town.ask("PUT", path, "lea", {"person": "ana", "limit": ""})).status == 200
        assert (await town.start(KEY)).status == 201
        lines = (await town.ask("GET", "audit?by=lea&order=newest", "admin")).of(AuditAnswer).entries
        assert [(line.person, line.why) for line in lines] == [("ana", ""), ("ana", "fair")]

    play(story)


def test_an_owner_adds_and_removes_members(town: HubTown, play: Play) -> None:
    """Whom an owner adds may claim; whom the file names cannot be removed here."""

    async def story(bench: Bench) -> None:
        added = await town.ask("PUT", "projects/team/members/gus?why=new", "cy")
        [gus] = [each for each in added.of(hub_wire.MembersAnswer).members if each.person == "gus"]
        assert gus.via == "owner"
        assert (await town.start("hub:gus%2F", person="gus")).status == 201
        assert (await town.ask("DELETE", "projects/team/members/gus", "cy")).status == 200
        assert (await town.start("hub:gus%2Ftwo", person="gus", share="0.1")).code == "NOT_A_MEMBER"
        kept = await town.ask("DELETE", "projects/team/members/ana", "cy")
        assert (kept.status, kept.code) == (409, "CONFIGURED_BY_FILE")
        for bad in ("@team", "a" * 300, "%00"):
            assert (await town.ask("PUT", f"projects/team/members/{bad}", "cy")).status == 400

    play(story)


# Asks


def test_a_member_asks_and_an_owner_answers(bench: Bench, play: Play) -> None:
    """What is approved holds at once; the asker sees the answer, others see nothing, and nobody decides for himself."""
    town = HubTown(bench, POLICY.replace('quota = "2"', 'quota = "2"\nperson_limit = "0.5"'))
    town.groups["lea"] = frozenset({"leads"})

    async def story(bench: Bench) -> None:
        wish = {"project": "team", "amount": "1", "why": "a <b>paper</b>"}
        asked = await town.ask("POST", "asks", "ana", wish)
        assert asked.status == 201
        ask = asked.of(hub_wire.AskModel)
        assert (ask.person, ask.state, ask.why) == ("ana", "open", "a <b>paper</b>")
        assert (await town.ask("POST", "asks", "ana", wish)).code == "ALREADY_ASKED"
        assert (await town.start(KEY, share="1")).code == "EXCEEDS_PERSON_LIMIT"
        assert await seen(town, "bo") == ([], [])
        assert await seen(town, "ana") == ([1], [])
        assert await seen(town, "lea") == ([1], [1])
        assert (await town.ask("POST", "asks/1", "ana", {"state": "approved"})).status == 403
        assert (await town.ask("POST", "asks/1", "bo", {"state": "approved"})).status == 404
        done = await town.ask("POST", "asks/1", "lea", {"state": "approved", "answer": "good luck"})
        assert done.of(hub_wire.AskModel).decided_by == "lea"
        assert (await town.ask("POST", "asks/1", "lea", {"state": "denied"})).code == "DECIDED_ALREADY"
        assert (await town.start(KEY, share="1")).status == 201
        mine = (await town.ask("GET", "asks?state=approved", "ana")).of(hub_wire.AsksAnswer)
        assert [each.answer for each in mine.asks] == ["good luck"]

    play(story)


async def seen(town: HubTown, who: str) -> tuple[list[int], list[int]]:
    """The asks that *who* sees, and may decide on."""
    answer = (await town.ask("GET", "asks", who)).of(hub_wire.AsksAnswer)
    return [ask.number for ask in answer.asks], answer.may_decide


def test_a_larger_quota_is_the_admins_and_the_files(bench: Bench, play: Play) -> None:
    """An owner does not decide on it; an admin whose file sets it is told to change the file, and then it is approved."""
    town = HubTown(bench)

    async def story(bench: Bench) -> None:
        asked = await town.ask("POST", "asks", "ana", {"project": "team", "amount": "3", "what": "quota"})
        assert asked.status == 201
        assert await seen(town, "cy") == ([1], [])
        assert (await town.ask("POST", "asks/1", "cy", {"state": "approved"})).status == 403
        assert (await town.ask("POST", "asks/1", "admin", {"state": "approved"})).code == "CONFIGURED_BY_FILE"
        town.file.write_text(town.file.read_text().replace('quota = "2"', 'quota = "3"'))
        await bench.broker.reload()
        assert (await town.ask("POST", "asks/1", "admin", {"state": "approved"})).status == 200

    play(story)


def test_an_ask_makes_sense_or_is_refused(town: HubTown, play: Play) -> None:
    """For a project of one's own, for more than one has, for an amount; and it can be withdrawn."""

    async def story(bench: Bench) -> None:
        for body, code in (
            ({"project": "other", "amount": "1"}, "NOT_FOUND"),
            ({"project": "team", "amount": "lots", "what": "quota"}, "BAD_REQUEST"),
            ({"project": "team", "amount": "9" * 31, "what": "quota"}, "BAD_REQUEST"),
            ({"project": "team", "amount": "-1", "what": "quota"}, "BAD_REQUEST"),
            ({"project": "team", "amount": "1", "what": "quota"}, "NO_MORE"),
            ({"project": "team", "amount": "3", "what": "gold"}, "BAD_REQUEST"),
            ({"project": "team", "amount": "3", "why": "x" * 501, "what": "quota"}, "BAD_REQUEST"),
        ):
            assert (await town.ask("POST", "asks", "ana", body)).code == code
        await town.ask("POST", "asks", "ana", {"project": "team", "amount": "3", "what": "quota"})
        assert (await town.ask("POST", "asks/1", "admin", {"state": "withdrawn"})).status == 403
        assert (await town.ask("POST", "asks/1", "ana", {"state": "withdrawn"})).status == 200
        for _ in range(19):
            again = await town.ask("POST", "asks", "ana", {"project": "team", "amount": "3", "what": "quota"})
            await town.ask("POST", f"asks/{again.of(hub_wire.AskModel).number}", "ana", {"state": "withdrawn"})
        flood = await town.ask("POST", "asks", "ana", {"project": "team", "amount": "3", "what": "quota"})
        assert (flood.status, flood.code) == (429, "TOO_MANY_ASKS")

    play(story)


# The past


def test_the_last_day_sums_up_to_all_there_is(town: HubTown, play: Play) -> None:
    """Running, parked and free GPUs are averaged over five minutes, kept in the ledger, and told after a restart too."""
    clock = VirtualClock(1_000_000.0)
    town.bench.options["clock"] = clock

    async def story(bench: Bench) -> None:
        holding = await running(town)
        past = bench.broker.past
        for _ in range(20):
            clock.advance(15.0)
            await past._watch.look(bench.broker.books, clock.now())
        answer = (await town.ask("GET", "day", "ana")).of(hub_wire.DayAnswer)
        assert answer.step_s == 300.0
        assert len(answer.slots) == 2
        for slot in answer.slots:
            assert slot.running == pytest.approx(0.5)
            assert slot.free == pytest.approx(0.5)
            assert slot.parked == slot.lent == slot.training == slot.foreign == 0.0
        await holding.close()
        await bench.stop()
        await bench.start()
        again = (await town.ask("GET", "day", "ana")).of(hub_wire.DayAnswer)
        assert again == answer

    play(story)


def test_the_report_says_what_parking_would_have_won(bench: Bench, play: Play) -> None:
    """A session that is idle beyond its pool's patience counts from then on, once, for its project's people alone."""
    town = HubTown(bench, POLICY.replace('minimum_turn = "0s"', 'parking = "observe"\nidle_timeout = "60s"'))
    clock = VirtualClock(1_000_800.0)
    bench.options["clock"] = clock

    async def story(bench: Bench) -> None:
        holding = await running(town)
        bench.broker.reconciler.tell(Idle(holding.lease.id, clock.now()))
        await until(lambda: bench.lease(holding.lease.id).idle_since)
        for _ in range(10):
            clock.advance(30.0)
            await bench.broker.past._watch.look(bench.broker.books, clock.now())
        report = (await town.ask("GET", "parking-report", "ana")).of(hub_wire.ParkingReport)
        [line] = report.lines
        assert (line.project, line.pool, line.mode, line.parks) == ("team", "default", "observe", 1)
        assert line.idle == pytest.approx(0.5 * 240 / 3600)
        assert not (await town.ask("GET", "parking-report", "dee")).of(hub_wire.ParkingReport).lines
        await holding.close()

    play(story)


# The audit


def test_the_audit_is_filtered_and_newest_first(town: HubTown, play: Play) -> None:
    """By person, project, verb and time; page after page; an owner reads its project, a member only itself."""

    async def story(bench: Bench) -> None:
        began = bench.broker.clock.now()
        await town.start(KEY, share="0.25")
        await town.start("hub:bo%2F", person="bo", share="0.25")
        await town.ask("DELETE", "claims/hub:bo%2F?person=bo")
        newest = await lines(town, "admin", "order=newest&project=team")
        assert [(each.person, each.verb) for each in newest][:2] == [("bo", "ended"), ("bo", "granted")]
        first, second = newest[:2], await lines(town, "admin", f"order=newest&project=team&before={newest[1].number}")
        assert first + second == newest
        assert {each.verb for each in await lines(town, "admin", "verb=granted")} == {"granted"}
        assert {each.person for each in await lines(town, "admin", "person=bo")} == {"bo"}
        assert await lines(town, "admin", f"since={began}&project=team") == newest[::-1]
        assert await lines(town, "admin", f"until={began}&project=team") == []
        assert await lines(town, "cy", "order=newest&project=team") == newest
        assert {each.person for each in await lines(town, "ana", "project=team")} == {"ana"}
        for wrong in ("order=up", "since=now", "until=nan", "before=x", "limit=0"):
            assert (await town.ask("GET", f"audit?{wrong}", "admin")).status == 400

    play(story)


async def lines(town: HubTown, who: str, query: str) -> list[Any]:
    """What *who* reads."""
    return (await town.ask("GET", f"audit?{query}", who)).of(AuditAnswer).entries


def test_what_admins_do_says_who_and_why(town: HubTown, play: Play) -> None:
    """Reclaim, drain and the one switch are in the audit with the admin's name and words."""

    async def story(bench: Bench) -> None:
        job = await running(town, "job", "bo", kind="training", project="spare", share="1", grace_s=5.0)
        await town.ask("POST", "admin/reclaim", "admin", {"lease": job.lease.id, "why": "one"})
        await town.ask("POST", "admin/drain", "admin", {"host": "simulated", "why": "two"})
        await town.ask("POST", "admin/stop-parking", "admin", {"stop": True, "why": "three\n\0"})
        found = {each.verb: each.why for each in await lines(town, "admin", "by=admin") if each.why}
        hidden = "three" + 2 * "\N{REPLACEMENT CHARACTER}"
        assert found == {"reclaimed": "one", "device_changed": "two", "parking_switched": hidden}
        await job.close()

    play(story)


def test_the_audit_is_kept_as_long_as_the_file_says(bench: Bench, play: Play) -> None:
    """What is older is forgotten once a day; without a word of it, nothing ever is."""
    town = HubTown(bench, POLICY + '[broker]\nkeep_audit = "7d"\n')
    clock = VirtualClock(1_000_000.0)
    bench.options["clock"] = clock

    async def story(bench: Bench) -> None:
        await town.start(KEY, reserve_s=86400)
        clock.advance(8 * 86400.0)
        await until(lambda: not bench.broker.books.leases)
        assert len(await lines(town, "admin", "verb=granted")) == 1
        await bench.broker.past.prune()
        assert await lines(town, "admin", "verb=granted") == []
        assert len(await lines(town, "admin", "verb=ended")) == 1

    play(story)


def test_every_answer_fits_the_document(town: HubTown, play: Play) -> None:
    """What the routes really answer is what the document says, for each of the hub's routes."""
    town.groups["lea"] = frozenset({"leads"})

    async def story(bench: Bench) -> None:
        document = msgspec.json.decode((await town.ask("GET", "openapi.json", "ana")).body)
        paths = set(document["paths"])
        assert {"/claims", "/claims/{key}", "/claims/{key}/alive", "/asks", "/asks/{number}", "/day"} <= paths
        assert {"/projects/{project}/members", "/projects/{project}/limits", "/parking-report", "/memberships"} <= paths
        assert set(document["paths"]["/claims/{key}"]["put"]["responses"]) >= {"200", "201", "202", "409", "429"}

    play(story)
