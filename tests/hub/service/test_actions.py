"""What people do on the pages: done as they, told where they come back to, and in the audit with who and why."""

from __future__ import annotations

import csv
import html
import io
from typing import TYPE_CHECKING, Any

import pytest

from tests.broker.service.bench import until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from .bench import Browser, ServiceBench

    Play = Callable[[Callable[[ServiceBench], Coroutine[Any, Any, None]]], None]


async def audit_of(browser: Browser, **where: str) -> list[dict[str, str]]:
    """Lines of the audit as an admin's file has them."""
    query = "&".join(f"{name}={value}" for name, value in where.items())
    answer = await browser.get(f"audit.csv?{query}")
    assert answer.status == 200, answer.text
    return list(csv.DictReader(io.StringIO(answer.text)))


def test_releasing_and_resuming_ones_own_share(play: Play) -> None:
    """The button asks the session to park, and the same page then offers to resume."""

    async def story(bench: ServiceBench) -> None:
        lease = await bench.running("ana", "team-a")
        ana = bench.browser("ana")
        page = await ana.post("actions/release", follow=True, lease=lease.id)
        assert page.url.endswith("/sessions")
        assert "nothing is lost" in page.text
        assert bench.service.broker.books.leases[lease.id].target.value == "parked"
        assert "nothing is lost" not in (await ana.get("sessions")).text, "it is said once"
        page = await ana.post("actions/resume", follow=True, lease=lease.id)
        assert "wanted back" in page.text
        assert bench.service.broker.books.leases[lease.id].target.value == "running"

    play(story)


def test_ending_a_share(play: Play) -> None:
    """It is wanted ended, by its person."""

    async def story(bench: ServiceBench) -> None:
        lease = await bench.running("ana", "team-a")
        await bench.browser("ana").post("actions/end", lease=lease.id)

        def is_ending() -> bool:
            now = bench.service.broker.books.leases.get(lease.id)
            return now is None or now.target.value == "ended"

        assert await until(is_ending)

    play(story)


def test_what_is_not_ones_own_does_not_exist(play: Play) -> None:
    """A team mate and a stranger hear the same as about a share that never was."""

    async def story(bench: ServiceBench) -> None:
        lease = await bench.running("ana", "team-a")
        heard = set()
        for name in ("ben", "cy", "bo"):
            for meant in (lease.id, "0" * 32):
                page = await bench.browser(name).post("actions/release", follow=True, lease=meant)
                assert "There is no lease" in page.text
                heard.add(page.status)
        assert heard == {200}
        assert bench.service.broker.books.leases[lease.id].target.value == "running"

    play(story)


def test_what_an_admin_does_is_in_the_audit_with_name_and_reason(play: Play) -> None:
    """Reclaim, drain and the one switch: who did it, and why, newest first."""

    async def story(bench: ServiceBench) -> None:
        lease = await bench.running("ana", "team-a")
        admin = bench.browser("root-admin")
        page = await admin.post(
            "actions/reclaim", follow=True, lease=lease.id, why="a course begins", next=bench.prefix + "admin"
        )
        assert page.url.endswith("/admin")
        assert "taken back" in page.text
        await admin.post("actions/drain", host="simulated", why="new driver")
        await admin.post("actions/undrain", host="simulated", why="done")
        await admin.post("actions/stop-parking", why="odd noises")
        assert bench.service.broker.books.is_parking_stopped
        await admin.post("actions/start-parking", why="")
        assert not bench.service.broker.books.is_parking_stopped
        lines = await audit_of(admin, by="root-admin")
        assert [int(line["number"]) for line in lines] == sorted((int(line["number"]) for line in lines), reverse=True)
        said = {(line["verb"], line["why"]) for line in lines}
        assert {("asked_to_park", "a course begins"), ("parking_switched", "odd noises")} <= said
        assert ("device_changed", "new driver") in said
        assert len(await audit_of(admin, lease=lease.id, verb="asked_to_park")) == 1
        assert await audit_of(admin, until="2001-01-01T00:00") == []

    play(story)


def test_an_empty_reason_is_asked_for(play: Play) -> None:
    """An admin says why: the form comes back with the field that is missing, and nothing is done."""

    async def story(bench: ServiceBench) -> None:
        page = await bench.browser("root-admin").post("actions/stop-parking", follow=True, why="   ")
        assert "it is empty" in page.text
        assert not bench.service.broker.books.is_parking_stopped

    play(story)


def test_the_file_of_the_audit_runs_no_formula(play: Play) -> None:
    """A name that a spreadsheet would take for a formula is text."""

    async def story(bench: ServiceBench) -> None:
        admin = bench.browser("root-admin")
        await admin.post("actions/stop-parking", why="=1+1")
        lines = await audit_of(admin, verb="parking_switched")
        assert lines[0]["why"] == "'=1+1"

    play(story)


@pytest.mark.parametrize(
    "where", ["since=yesterday", "before=x", "until=nan", "since=" + "9" * 60, "verb=" + "v" * 300]
)
def test_filters_that_make_no_sense_are_named(where: str, bench: ServiceBench, play: Play) -> None:
    """A time or number that cannot be read is said to be one, with an example."""

    async def story(bench: ServiceBench) -> None:
        answer = await bench.browser("root-admin").get(f"admin?{where}")
        assert answer.status == 400
        assert "cannot be read" in answer.text

    play(story)


@pytest.mark.parametrize(
    "evil",
    [
        "https://evil.example/",
        "//evil.example/",
        "/hub/logout",
        "/services/gpushare/..\\evil",
        "javascript:alert(1)",
        "\r\nX: y",
    ],
)
def test_a_form_leads_back_to_pages_of_ours_alone(evil: str, bench: ServiceBench, play: Play) -> None:
    """Where to go on to is a field, which anybody could have written into a link."""

    async def story(bench: ServiceBench) -> None:
        answer = await bench.browser("ana").post("actions/release", lease="x", next=evil)
        assert answer.status == 303
        assert answer.headers["Location"] == "/services/gpushare/sessions"

    play(story)


def test_a_member_asks_an_owner_decides_and_it_holds(play: Play) -> None:
    """Asking for more, on the page of the project; the owner approves, and the limit is there."""

    async def story(bench: ServiceBench) -> None:
        ana, cy = bench.browser("ana"), bench.browser("cy")
        form = {"project": "team-a", "what": "limit", "amount": "1.5", "why": "a paper is due"}
        assert "You asked for 1.5 GPU" in (await ana.post("actions/ask", follow=True, **form)).text
        back = {"next": f"{bench.prefix}project?project=team-a"}
        shown = await cy.get("project?project=team-a")
        assert "a paper is due" in shown.text
        page = await cy.post("actions/approve", follow=True, ask="1", answer="good luck", **back)
        assert "Approved" in page.text
        assert "There is no ask" in (await ana.post("actions/approve", follow=True, ask="99")).text
        mine = await cy.post(
            "actions/limit", follow=True, project="team-a", person="ben", limit="0.5", why="new", **back
        )
        assert "ben may have 0.5 GPU" in mine.text
        refused = await bench.browser("ben").post(
            "actions/limit", follow=True, project="team-a", person="ben", limit="2"
        )
        assert "ben may have" not in refused.text

    play(story)


def test_an_owner_adds_and_removes_members(play: Play) -> None:
    """Who is added may claim at once; what they run goes on when they are taken out; the audit has both, with why."""

    async def story(bench: ServiceBench) -> None:
        cy = bench.browser("cy")
        project = {"project": "team-a", "next": f"{bench.prefix}project?project=team-a"}
        for person in ("bo", "d'Arc & söhne/x%2Fy"):
            page = await cy.post("actions/add-member", follow=True, person=person, why="joins us", **project)
            assert f"{html.escape(person, quote=False)} is a member of team-a." in page.text.replace("&#39;", "'")
            assert bench.service.broker.books.projects["team-a"].has(person)
            assert page.text.count('form="remove-form"') == 1, "whom the file names an owner cannot take out"
            if person == "bo":
                lease = await bench.running("bo", "team-a")
            page = await cy.post("actions/remove-member", follow=True, person=person, **project)
            assert "is no member of team-a any more. What runs goes on." in page.text
            assert not bench.service.broker.books.projects["team-a"].has(person)
        assert bench.service.broker.books.leases[lease.id].target.value == "running"
        lines = await audit_of(bench.browser("root-admin"), by="cy")
        assert [line["why"] for line in lines if line["person"] == "bo"] == ["", "joins us"]

    play(story)


def test_who_may_not_be_added_or_removed(play: Play) -> None:
    """A group is no person, whom the file names stays, and neither members nor strangers change who is in a team."""

    async def story(bench: ServiceBench) -> None:
        cy, ana, bo = (bench.browser(name) for name in ("cy", "ana", "bo"))
        before = bench.service.broker.books.projects["team-a"]
        for browser, name, person, said in [
            (cy, "add-member", "@team-b", "a person&#39;s name has"),
            (cy, "add-member", "  ", "it is empty"),
            (cy, "remove-member", "ana", "by the admin&#39;s file or by a group"),
            (ana, "add-member", "bo", "You may not do this here"),
            (ana, "remove-member", "ben", "You may not do this here"),
            (bo, "add-member", "bo", "There is no project"),
        ]:
            page = await browser.post(f"actions/{name}", follow=True, project="team-a", person=person)
            assert said in page.text, (name, person)
        assert bench.service.broker.books.projects["team-a"] == before
        await cy.post("actions/add-member", project="team-a", person="ben")
        page = await cy.post("actions/remove-member", follow=True, project="team-a", person="ben")
        assert "still one by the admin&#39;s file or by a group" in page.text

    play(story)


def test_a_quota_that_the_file_sets_is_the_files(play: Play) -> None:
    """The page says so, and nothing is changed."""

    async def story(bench: ServiceBench) -> None:
        admin = bench.browser("root-admin")
        page = await admin.post("actions/quota", follow=True, project="team-a", quota="1", why="less")
        assert "file" in page.text
        assert str(bench.service.broker.books.projects["team-a"].quota) == "2"

    play(story)


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "'\"><b>", "{{ 7 * 7 }}", "\u202egpj", "n" * 400])
def test_text_that_somebody_sends_is_shown_as_text(name: str, bench: ServiceBench, play: Play) -> None:
    """Nothing that is sent becomes part of a page but as text."""

    async def story(bench: ServiceBench) -> None:
        page = await bench.browser("root-admin").post("actions/reclaim", follow=True, lease=name, why=name)
        assert "<script>alert" not in page.text
        assert "'\"><b>" not in page.text
        assert ">49<" not in page.text
        assert page.status == 200

    play(story)


def test_bodies_that_are_no_form_are_refused_in_words(play: Play) -> None:
    """Bytes that are no text, fields of the wrong kind, far too much."""

    async def story(bench: ServiceBench) -> None:
        token = bench.hub.token_of("root-admin", "tokens!user=root-admin")
        asked = {"Authorization": f"token {token}", "Accept": "application/json"}
        form = {**asked, "Content-Type": "application/x-www-form-urlencoded"}
        for body in ("lease=%FF%FE&why=x", "lease=", "", "x" * 1000, "ask=1e9&why=x", "lease=a&why=" + "w" * 501):
            answer = await bench.fetch("POST", "actions/reclaim", form, body)
            assert answer.status in (400, 404), body[:50]
            assert answer.json()["is_good"] is False
        for number in ("-1", "1.0", "٣", "9" * 40, "x"):
            answer = await bench.fetch("POST", "actions/approve", form, f"ask={number}")
            assert answer.status in (400, 404), number

    play(story)
