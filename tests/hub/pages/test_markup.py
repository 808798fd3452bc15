"""What the pages' HTML must be, whatever is in it: escaped, well-formed, usable by keyboard and ear, with forms that work."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from jupyter_gpushare.broker import hub_wire
from jupyter_gpushare.broker.wire import MessageModel
from jupyter_gpushare.hub.pages import Asked, Frame, Page, PageName, Waiting, render
from jupyter_gpushare.hub.pages.actions import ACTIONS
from jupyter_gpushare.hub.pages.asked import Notice
from jupyter_gpushare.hub.site import AuditAsked
from jupyter_gpushare.rules.audit import entry
from jupyter_gpushare.rules.change import Entry, Verb
from jupyter_gpushare.rules.pool import Pool
from jupyter_gpushare.rules.project import Project
from jupyter_gpushare.rules.snapshot import Snapshot
from tests.hub.pages.reading import forms_of, read, shown_text
from tests.hub.pages.still import FRAME, StillSite, page_of
from tests.hub.pages.worlds import NOW, crowd, drawing, gpus, hosts, lease, parked

EVIL = "</script><img src=x onerror=alert(1)>'\"{{191*7}}{% raw %}&amp;"

WAITINGS = [
    Waiting(server="gpu", share="2x0.5", project="team-a", state=state, until=NOW + 300, problem="Not now.",
            spawn_url="/hub/spawn/ana", spawn_fields=[("_xsrf", "t"), ("share", "0.5")], cancel_url="/wait/gpu",
            again_url="/hub/spawn")
    for state in ("waiting", "granted", "over", "refused", "cancelled", "away")
]  # fmt: skip


def everything() -> list[Page]:
    """Every page in every state, for those who are shown most of it."""
    site, away, many = drawing(), drawing(is_away=True), crowd(40, 80, 60)
    empty = StillSite(Snapshot.of(), NOW)
    lender = site.view.lease(site.books.leases["id-forms"])

    async def make() -> list[Page]:
        pages = []
        for world in (site, away, many, empty):
            for viewer in (world.viewer("ana"), world.viewer("cy"), world.viewer("root", is_admin=True)):
                pages += [await page_of(name, viewer, world) for name in PageName]
        ana, root = site.viewer("ana"), site.viewer("root", is_admin=True)
        pages += [await page_of("wait", ana, site, waiting=replace(each, lease=lender)) for each in WAITINGS]
        pages += [
            await page_of("overview", ana, site, search="host-1", notice=Notice("Done.")),
            await page_of("overview", ana, many, search="nothing like that"),
            await page_of("admin", root, site, search="climate", notice=Notice("No.", is_good=False)),
            await page_of("admin", root, site, audit=AuditAsked(where={"person": "ana"}, before=60, limit=3)),
            await page_of("admin", root, drawing(source="file")),
            await page_of("project", ana, site, project="team-b"),
        ]
        return pages

    return asyncio.run(make())


@pytest.fixture(name="pages", scope="module")
def _pages() -> list[Page]:
    return everything()


def test_every_element_is_closed_and_no_id_is_there_twice(pages: list[Page]) -> None:
    """A browser must not have to guess, and a fragment has one place."""
    for page in pages:
        ids = Counter(each.attributes["id"] for each in read(page.main).all() if "id" in each.attributes)
        assert [name for name, count in ids.items() if count > 1] == []


def test_every_fragment_has_its_place_and_none_lies_in_another(pages: list[Page]) -> None:
    """What is sent later is written into the element of that id; one in another would be written twice."""
    for page in pages:
        places = {
            each.attributes["id"]: each for each in read(page.main).all() if each.attributes.get("id") in page.fragments
        }
        assert places.keys() == page.fragments.keys()
        for place in places.values():
            assert not [each for each in place.all()[1:] if each.attributes.get("id") in page.fragments]


def test_tables_pictures_and_fields_say_in_words_what_they_are(pages: list[Page]) -> None:
    """Whoever does not see the page is told the same."""
    for page in pages:
        root = read(page.main)
        for table in root.all("table"):
            assert "".join(caption.text for caption in table.all("caption")).strip()
            assert all(cell.attributes.get("scope") for cell in table.all("th"))
        for picture in [each for each in root.all() if each.attributes.get("role") == "img"]:
            assert picture.attributes["aria-label"].strip()
        for control in [*root.all("input"), *root.all("select")]:
            assert control.attributes.get("type") == "hidden" or control.is_in("label")
        for button in root.all("button"):
            assert (button.text + button.attributes.get("aria-label", "")).strip()


def test_what_colours_say_a_pattern_and_words_say_too(pages: list[Page]) -> None:
    """Never colour alone: each coloured piece lies in something that says it, or beside words."""
    for page in pages:
        for piece in [each for each in read(page.main).all("i") if each.attributes.get("class", "").startswith("gs-")]:
            assert piece.attributes.get("aria-hidden") == "true" or (
                piece.parent and piece.parent.attributes.get("role") == "img"
            )


def test_every_form_goes_where_the_service_listens_and_sends_what_it_must(pages: list[Page]) -> None:
    """A form that sends too little, or without the token, would be refused."""
    for page in pages:
        for form in forms_of(page.main):
            if form.method == "get" or not form.action.startswith(f"{FRAME.prefix}actions/"):
                continue
            action = ACTIONS[form.action.removeprefix(f"{FRAME.prefix}actions/")]
            assert {field for field in action.fields if not field.endswith("?")} <= form.fields, form
            assert form.hidden["_xsrf"] == FRAME.xsrf
            assert form.hidden["next"].startswith(FRAME.prefix)


def test_every_action_can_be_asked_for_somewhere(pages: list[Page]) -> None:
    """What the service does for people, people find."""
    offered = {form.action.rpartition("/")[2] for page in pages for form in forms_of(page.main)}
    stopped = drawing()
    books = Snapshot.of(
        projects=stopped.books.projects.values(), hosts=stopped.books.hosts.values(), is_parking_stopped=True
    )
    site = StillSite(books, NOW)
    page = asyncio.run(page_of("admin", site.viewer("root", is_admin=True), site))
    assert offered | {form.action.rpartition("/")[2] for form in forms_of(page.main)} >= ACTIONS.keys()


def test_ending_something_is_never_one_click() -> None:
    """It cannot be undone, so it asks once more; what only waits may be cancelled at once."""
    page = asyncio.run(page_of("sessions", drawing().viewer("ana"), drawing()))
    for form in read(page.main).all("form"):
        if form.attributes["action"].endswith("/end") and form.text.strip() != "Cancel":
            assert form.is_in("details")


def test_enter_in_a_field_never_presses_the_button_of_some_row() -> None:
    """The admin writes a reason and presses Enter: the first lease in the table must not be the one that is meant.

    Nor must whoever writes why not approve by it.
    """
    page = asyncio.run(page_of("admin", drawing().viewer("root", is_admin=True), drawing()))
    root = read(page.main)
    answers = [form for form in root.all("form") if form.attributes["action"].endswith("/approve")]
    assert answers
    assert all("disabled" in form.all("button")[0].attributes for form in answers)
    for name in {each.attributes["form"] for each in root.all("button") if "form" in each.attributes}:
        [form] = [each for each in root.all("form") if each.attributes.get("id") == name]
        assert "disabled" in form.all("button")[0].attributes


def test_nothing_that_anybody_writes_becomes_markup() -> None:
    """Names, reasons and addresses are other people's words."""
    pages = asyncio.run(_evil_pages())
    for page in pages:
        root = read(page.main)
        assert not root.all("img")
        assert not root.all("script")
        assert not [each for each in root.all() if any(name.startswith("on") for name in each.attributes)]
        assert "1337" not in page.main
    assert sum(EVIL in shown_text(page.main) for page in pages) == len(pages)


def test_the_hubs_own_frame_takes_any_name_too() -> None:
    """The hub's template puts the user's name into a script as it is."""
    site = drawing()
    frame = Frame(user=EVIL, xsrf=EVIL, prefix="/services/gpushare/")
    page = asyncio.run(render(PageName.OVERVIEW, site.viewer(EVIL), site, frame=frame))
    root = read(_without_doctype(page.html))
    assert [each.attributes["alt"] for each in root.all("img")] == ["JupyterHub logo"]
    assert len(root.all("script")) == len(read(_without_doctype(_plain_html())).all("script"))
    assert "onerror" not in "".join(name for each in root.all() for name in each.attributes)


def test_a_page_stands_in_the_hubs_own_frame() -> None:
    """Its bar on top, its style, its theme; our pages beside it."""
    site = drawing()
    frame = Frame(user="ana", xsrf="t", scopes=frozenset({"admin-ui"}))
    page = asyncio.run(render(PageName.SESSIONS, site.viewer("ana"), site, frame=frame))
    links = {each.text.strip(): each.attributes["href"] for each in read(_without_doctype(page.html)).all("a")}
    assert links["Home"] == "/hub/home"
    assert links["Admin"] == "/hub/admin"
    assert links["GPU shares"] == "/services/gpushare/"
    assert links["Overview"] == "/services/gpushare/overview"
    assert "/hub/static/css/style.min.css" in page.html
    assert "/hub/static/js/darkmode.js" in page.html


def test_an_announcement_stands_on_our_pages_too() -> None:
    """What the admin gives the hub's templates ours have too; none of it takes the place of what is ours."""
    site = drawing()
    given = {"announcement": "<b>No GPUs</b> on Friday", "main": "gone", "user": "gone", "our_xsrf": "gone"}
    frame = Frame(user="ana", xsrf="the token", template_vars=given)
    page = asyncio.run(render(PageName.SESSIONS, site.viewer("ana"), site, frame=frame))
    (told,) = [
        each
        for each in read(_without_doctype(page.html)).all("div")
        if "announcement" in each.attributes.get("class", "").split()
    ]
    assert "on Friday" in told.text
    assert [each.text for each in told.all("b")] == ["No GPUs"]
    assert page.main in page.html
    assert 'data-xsrf="the token"' in page.html
    assert "gone" not in page.html


def test_a_hub_with_templates_of_its_own_frames_our_pages_too(tmp_path: Any) -> None:
    """An admin's ``page.html`` that extends the hub's is used, as the hub itself does."""
    from jupyter_gpushare.hub.pages import Templates

    own = '{% extends "templates/page.html" %}{% block footer %}<footer>Our university</footer>{% endblock %}'
    (tmp_path / "page.html").write_text(own, encoding="utf-8")
    site = drawing()
    page = asyncio.run(
        render(
            PageName.SESSIONS,
            site.viewer("ana"),
            site,
            frame=FRAME,
            asked=Asked(),
            templates=Templates([str(tmp_path)]),
        )
    )
    footers = read(_without_doctype(page.html)).all("footer")
    assert [footer.text.strip() for footer in footers] == ["Our university"]


def test_a_page_is_the_same_as_long_as_nothing_changes() -> None:
    """Else every open page would be sent all of it each second."""
    for name in PageName:
        site = drawing()
        first, second = (asyncio.run(page_of(name, site.viewer("ana"), site)) for _ in range(2))
        assert first.fragments == second.fragments


def test_pages_say_what_the_ledger_cannot_tell_now() -> None:
    """Without it there is still a page: what is in the books, and why the rest is missing."""
    site = drawing(is_away=True)
    for name in (PageName.OVERVIEW, PageName.SESSIONS, PageName.PROJECT, PageName.ADMIN):
        page = asyncio.run(page_of(name, site.viewer("root", is_admin=True), site))
        assert "The database is gone." in page.fragments["trouble"]
    assert "cannot say this now" in page.fragments["audit"]


async def _evil_pages() -> list[Page]:
    made, devices, _ = hosts(1, 1)
    device = replace(devices[0], host=EVIL, kind=EVIL)
    project = Project(EVIL, gpus("1"), members=frozenset({EVIL}), owners=frozenset({"cy", EVIL}))
    leases = [
        lease(EVIL, EVIL, EVIL, (device.uuid, "0.5"), id="evil"),
        parked("other", EVIL, EVIL, (device.uuid, "0.25")),
    ]
    books = Snapshot.of(
        projects=[project], pools=[Pool("main")], hosts=[replace(made[0], name=EVIL)], devices=[device], leases=leases
    )
    ask = hub_wire.AskModel(1, EVIL, "someone", "limit", EVIL, EVIL, NOW, "open")
    done = hub_wire.AskModel(2, EVIL, EVIL, "limit", EVIL, EVIL, NOW, "denied", EVIL, NOW, EVIL)
    report = hub_wire.ParkingReport(NOW - 9, NOW, [hub_wire.ParkingReportLine(EVIL, EVIL, "observe", 1.0, 1, 1.0)])
    member = hub_wire.MemberModel(EVIL, "1", "1", is_own_limit=True, via=EVIL, is_owner=True)
    added = hub_wire.MemberModel(f"{EVIL} too", "0", "1", is_own_limit=False, via="owner", is_owner=False)
    people = hub_wire.MembersAnswer(EVIL, [EVIL], [EVIL], [member, added])
    audit = [
        entry(leases[0], Verb.SUBMITTED, NOW - 9, by=EVIL, details={"share": EVIL, EVIL: EVIL, "why": EVIL}),
        entry(leases[0], Verb.ENDED, NOW - 8, by=EVIL),
        Entry(NOW - 7, Verb.POLICY_SET, by=EVIL, details={EVIL: EVIL}),
    ]
    site = StillSite(books, NOW, audit=audit, report=report, asks=[ask, done], people={EVIL: people})
    viewer = site.viewer(EVIL, is_admin=True)
    reason = MessageModel("CODE", EVIL, {}, EVIL)
    model = site.view.lease(leases[0])
    model = type(model)(**{**{name: getattr(model, name) for name in model.__struct_fields__}, "reason": reason})
    waiting = replace(WAITINGS[0], server=EVIL, project=EVIL, lease=model, problem=EVIL, cancel_url=EVIL)
    granted = replace(WAITINGS[1], server=EVIL, project=EVIL, spawn_url=EVIL, spawn_fields=[(EVIL, EVIL)])
    notice = Notice(EVIL)
    return [
        await page_of("sessions", viewer, site, notice=notice),
        await page_of("overview", viewer, site, notice=notice, search=EVIL),
        await page_of("overview", viewer, site),
        await page_of("project", viewer, site, project=EVIL),
        await page_of("project", viewer, site, project=f"no {EVIL}"),
        await page_of("admin", viewer, site, search=EVIL, audit=AuditAsked(where={"person": EVIL})),
        await page_of("admin", viewer, site),
        await page_of("wait", viewer, site, waiting=waiting),
        await page_of("wait", viewer, site, waiting=granted),
    ]


def _plain_html() -> str:
    site = drawing()
    return asyncio.run(render(PageName.OVERVIEW, site.viewer("ana"), site, frame=Frame(user="ana", xsrf="t"))).html


def _without_doctype(html: str) -> str:
    return html.replace("<!DOCTYPE HTML>", "", 1)
