"""The overview's figures, its projects, its line, its day, and how much of it changes when little does."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.broker import hub_wire
from jupyter_gpushare.broker.ledger import UsageHours
from jupyter_gpushare.hub.pages.asks import asks_of, may_decide
from jupyter_gpushare.hub.pages.day_picture import HEIGHT, WIDTH, picture_of
from jupyter_gpushare.hub.pages.parking_report import report_of
from jupyter_gpushare.hub.pages.queue import queue_of
from jupyter_gpushare.hub.pages.standings import rows_of
from jupyter_gpushare.hub.pages.wording import UNKNOWN
from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.change import Change
from jupyter_gpushare.rules.lease import Status
from tests.hub.pages.reading import read, shown_text
from tests.hub.pages.still import StillSite, page_of
from tests.hub.pages.worlds import ASKS, NOW, crowd, drawing

if TYPE_CHECKING:
    from jupyter_gpushare.hub.pages import Page


def overview(site: StillSite, person: str = "ana", **asked: str) -> Page:
    """The overview for *person*."""
    return asyncio.run(page_of("overview", site.viewer(person), site, **asked))


def test_the_figures_are_those_of_the_books() -> None:
    """What is held or kept, of what can be held; the rest as the drawing has it."""
    terms = read(overview(drawing()).fragments["figures"])
    shown = {each.all("dt")[0].text: each.all("dd")[0].text for each in terms.all("div")}
    assert shown == {
        "GPUs allocated": "6.75 / 7",
        "computing now": "37 %",
        "notebook servers parked": "3",
        "GPU time handed back this week": "149 h",
    }


def test_what_is_not_measured_is_no_zero() -> None:
    """No device tells how busy it is, and the ledger tells no hours."""
    text = shown_text(overview(drawing(busy={}, is_away=True)).fragments["figures"])
    assert "computing now: not measured" in text
    assert "0 h" not in text
    assert "0 %" not in text


def test_a_project_stands_against_its_quota_and_others_are_summed_up() -> None:
    """One's own by name; three others as one row."""
    site = drawing()
    used = {
        "team-b": UsageHours(0, "team-b", "", 1.0, 2.0, 3.0, 4.0),
        "team-c": UsageHours(0, "team-c", "", 1, 1, 1, 1),
    }
    mine, others = rows_of(site.books, used, site.viewer("ana"))
    assert (mine.name, mine.use, mine.over, mine.waiting) == ("team-a", "1.75 / 4", "", "1 claim")
    assert (others.name, others.count, others.handed_back, others.computed) == ("", 3, "3.0 h", "5.0 h")
    assert 0 < mine.sessions_width < (mine.mark or 0) <= 100


def test_a_project_above_its_quota_says_by_how_much_and_one_without_bound_has_no_mark() -> None:
    """Training may go over quota; unlimited is a dash and no number."""
    site = drawing()
    projects = {
        **site.books.projects,
        "team-c": replace(site.books.projects["team-c"], quota=Fraction.parse("0.5")),
        "team-d": replace(site.books.projects["team-d"], quota=Fraction.UNLIMITED),
    }
    books = site.books.with_change(Change(projects=projects))
    rows = {row.name: row for row in rows_of(books, {}, site.viewer("root", is_admin=True))}
    assert rows["team-c"].over == "1.5 GPU"
    assert (rows["team-d"].use.endswith(f"/ {UNKNOWN}"), rows["team-d"].mark) == (True, None)


def test_a_long_line_is_folded_and_ones_own_place_is_always_in_it() -> None:
    """Sixty wait: the first, those of one's project, oneself wherever one is, and how many more."""
    site = crowd()
    [line] = queue_of(site.view, site.viewer("user-3")).groups
    own = [row for row in line.rows if row.is_own]
    assert [(row.who, row.place) for row in own] == [("late-3 (yours)", 57)]
    assert len(line.rows) + line.more == 60
    assert sum(not row.project for row in line.rows) == 5


def test_those_who_come_back_have_a_line_of_their_own() -> None:
    """A parked notebook that is wanted back is not behind claims that wait for a GPU."""
    lines = queue_of(drawing().view, drawing().viewer("ana")).groups
    assert [(line.text, [row.who for row in line.rows]) for line in lines] == [
        ("Parked, and coming back", ["birds (yours)"]),
        ("In line for a GPU", ["forms (yours)", "a training job", "a training job"]),
    ]


def test_the_day_is_drawn_within_its_frame_with_its_gaps() -> None:
    """An hour without a broker is blank, nothing leaves the frame, and the words say the averages."""
    picture = picture_of(asyncio.run(drawing().day()))
    assert picture is not None
    for area in picture.areas:
        numbers = [float(number) for number in re.findall(r"[-\d.]+", area.path)]
        assert area.path.count("M") == 2
        assert all(0 <= x <= WIDTH for x in numbers[::2])
        assert all(0 <= y <= HEIGHT for y in numbers[1::2])
    assert picture.text.startswith("GPUs on average: notebooks ")
    assert len(picture.hours) == 23


def test_the_first_hours_of_a_new_broker_fill_the_picture() -> None:
    """What is known is drawn as wide as it can be, and an hour is the least."""
    slots = [hub_wire.DayModel(NOW + n * 300.0, 1, 0, 0, 0, 0, 1) for n in range(24)]
    for count, first in ((24, 0), (6, WIDTH / 2)):
        picture = picture_of(hub_wire.DayAnswer(300.0, slots[:count]))
        assert picture is not None
        [area] = picture.areas
        numbers = [float(number) for number in re.findall(r"[-\d.]+", area.path)]
        assert (min(numbers[::2]), max(numbers[::2])) == (first, WIDTH)


@pytest.mark.parametrize("slots", [[], [hub_wire.DayModel(NOW, 0, 0, 0, 0, 0, 0)]], ids=["nothing", "no devices"])
def test_without_a_past_there_is_no_picture(slots: list[hub_wire.DayModel]) -> None:
    """A new broker knows nothing yet, and says so."""
    day = hub_wire.DayAnswer(300.0, slots)
    assert picture_of(day) is None
    assert "no history yet" in shown_text(overview(drawing(day=day)).fragments["day"])


def test_the_report_says_what_parking_would_win_without_naming_others() -> None:
    """Sums of all, rows of one's own projects."""
    site = drawing()
    report = report_of(asyncio.run(site.report(7)), site.viewer("ana"))
    assert report.text.startswith("Parking would have handed back 76 h of GPU time in the last 7 days")
    assert [row.project for row in report.rows] == ["team-a"]


def test_who_may_decide_on_an_ask_sees_it_so() -> None:
    """A person's limit its project's owners; a quota admins alone; one's own ask only oneself withdraws."""
    site = drawing()
    owner, admin, ana, ali = (
        site.viewer("cy"),
        site.viewer("root", is_admin=True),
        site.viewer("ana"),
        site.viewer("ali"),
    )
    assert [ask.number for ask in asks_of(ASKS, owner, "team-a").open] == [7]
    assert [ask.number for ask in asks_of(ASKS, admin).open] == [9, 8, 7]
    assert [ask.number for ask in asks_of(ASKS, ana, "team-a").own] == [7]
    assert [ask.number for ask in asks_of(ASKS, ali, "team-a").done] == [3]
    assert asks_of(ASKS, site.viewer("zoe")) == asks_of([], site.viewer("zoe"))
    assert not any(may_decide(ana, ask) for ask in ASKS)


def test_when_one_lease_changes_little_is_sent() -> None:
    """Of a thousand, one is parked: its device's row, its host's, and the figures; a few kilobytes."""
    before = crowd()
    changed = before.books.leases["id-notebook-1"]
    books = before.books.with_change(Change(leases={changed.id: changed.enter(Status.PARKING, NOW)}))
    after = StillSite(books, NOW, day=asyncio.run(before.day()), hardware=before.hardware, busy=before.busy)
    old, new = overview(before, "user-3").fragments, overview(after, "user-3").fragments
    different = {key: html for key, html in new.items() if old[key] != html}
    assert different.keys() <= {"d0-1", "h0", "figures"}
    assert len(json.dumps(different)) < 4000


def test_a_hundred_devices_are_there_for_those_who_open_their_host() -> None:
    """Folded, and all in the page: no host's devices have to be fetched."""
    root = read(overview(crowd(), "user-3").main)
    assert len([each for each in root.all("details") if "gs-host" in each.attributes.get("class", "")]) == 13
    assert sum(each.attributes.get("id", "").startswith("d") and each.tag == "tr" for each in root.all()) == 100


def test_a_search_leaves_what_was_searched_for_and_opens_it() -> None:
    """One host of thirteen."""
    root = read(overview(crowd(), "user-3", search="host-7").main)
    [group] = [each for each in root.all("details") if "gs-host" in each.attributes.get("class", "")]
    assert "open" in group.attributes
