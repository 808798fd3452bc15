"""What pages look at: a real broker's books, read and never changed, and asked for no more often than needed."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.broker.ledger_records import Ask
from jupyter_gpushare.hub.pages import PageName
from jupyter_gpushare.hub.site import Again, AuditAsked, Site, Viewer
from jupyter_gpushare.rules.change import Change
from jupyter_gpushare.rules.lease import Status
from tests.broker.service.bench import Bench
from tests.hub.pages.still import StillSite, page_of
from tests.hub.pages.worlds import NOW, PROJECTS, drawing, gpus

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from typing import Any


@pytest.fixture(name="play")
def _play() -> Iterator[Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]]:
    """Play a story with a broker that runs."""
    directory = Path(tempfile.mkdtemp(prefix="gs"))

    async def whole(story: Callable[[Bench], Coroutine[Any, Any, None]]) -> None:
        bench = Bench(directory)
        try:
            await bench.start()
            await story(bench)
        finally:
            await bench.close()

    yield lambda story: asyncio.run(whole(story))
    shutil.rmtree(directory)


def test_every_page_can_be_made_of_a_real_broker(play: Any) -> None:
    """All that the pages ask of it is there, and says what the broker says."""

    async def story(bench: Bench) -> None:
        site = Site(bench.broker)
        holding = await bench.running()
        person = holding.lease.person if holding.lease is not None else ""
        ask = Ask("default", person, "quota", gpus("2"), NOW, "please")
        await bench.broker.ask_ledger(lambda ledger: ledger.add_ask(ask))
        viewer = site.viewer(person, is_admin=True)
        pages = {name: await page_of(name, viewer, site) for name in PageName}
        assert "lab" in pages[PageName.SESSIONS].main
        assert "1 notebook server" in pages[PageName.OVERVIEW].fragments["subline"]
        assert "please" in pages[PageName.PROJECT].main
        assert "submitted" in pages[PageName.ADMIN].fragments["audit"]
        assert site.is_simulated
        assert site.trouble == ""
        assert site.source == "default"
        assert site.hardware.keys() == site.books.devices.keys()
        assert [each.project.name for each in await site.projects()] == ["default"]

    play(story)


def test_the_audit_is_read_newest_first_and_page_by_page(play: Any) -> None:
    """Each page begins where the one before ended."""

    async def story(bench: Bench) -> None:
        await bench.running()
        site = Site(bench.broker)
        numbers = [line.number for line in await site.audit(AuditAsked())]
        assert numbers == sorted(numbers, reverse=True)
        second = await site.audit(AuditAsked(before=numbers[0], limit=1))
        assert [line.number for line in second] == numbers[1:2]
        verbs = {line.entry.verb.value for line in await site.audit(AuditAsked(where={"verb": "granted"}))}
        assert verbs == {"granted"}

    play(story)


def test_what_was_asked_for_is_kept_a_while_and_forgotten_when_somebody_changed_something() -> None:
    """Many look at the same; who has just changed it sees it at once."""
    site, asked = drawing(), []

    async def ask() -> int:
        asked.append(1)
        return len(asked)

    async def look() -> list[int]:
        first = [await site.kept("a", ask), await site.kept("a", ask), await site.kept("b", ask)]
        site.forget()
        return [*first, await site.kept("a", ask)]

    assert asyncio.run(look()) == [1, 1, 2, 3]


def test_what_was_made_of_the_same_things_is_not_made_again() -> None:
    """The same, not only equal; what is compared by value is; and what is no more is forgotten."""
    again, made = Again(), []

    def make() -> int:
        made.append(1)
        return len(made)

    one, other = [1], [1]
    assert [again("a", (one,), make), again("a", (one,), make), again("a", (other,), make)] == [1, 1, 2]
    assert [again("a", (other,), make, "x"), again("a", (other,), make, "x")] == [3, 3]
    again.keep_only("a", set())
    assert again("a", (other,), make, "x") == 4


def test_a_bar_is_drawn_anew_as_soon_as_anything_about_a_lease_there_is() -> None:
    """Also where amounts stay what they were: a notebook that begins to be parked."""
    site = drawing()
    viewer = site.viewer("ana")
    before = asyncio.run(page_of("overview", viewer, site)).fragments
    lease = site.books.leases["id-climate"]
    books = site.books.with_change(Change(leases={lease.id: lease.enter(Status.PARKING, NOW)}))
    site._still = StillSite(books, NOW)._still
    after = asyncio.run(page_of("overview", viewer, site)).fragments
    assert {key for key, html in after.items() if before[key] != html} == {"d0-0"}
    assert "about to change" in after["d0-0"]


def test_a_viewer_owns_and_sees_by_name_or_by_group() -> None:
    """And nobody by being called like a group."""
    books = drawing().books
    assert Viewer.of(books, "cy").owned == {"team-a"}
    assert Viewer.of(books, "lea", ["b-leads"]).owned == {"team-b"}
    assert Viewer.of(books, "@b-leads").owned == frozenset()
    assert Viewer.of(books, "gil", ["a"]).projects == {"team-a"}
    assert all(Viewer.of(books, "root", is_admin=True).owns_project(each.name) for each in PROJECTS)
