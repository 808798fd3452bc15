"""docs/fairness.md: its example is what the rules do, and its figures are those of the newest results."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from benchmarks.crowds.classroom import Classroom
from benchmarks.crowds.monday import Monday
from benchmarks.results import percentile
from jupyter_gpushare.rules.change import Verb
from jupyter_gpushare.rules.event import Submitted
from jupyter_gpushare.rules.fair_share import fair_share
from jupyter_gpushare.rules.lease import Status, Target
from jupyter_gpushare.rules.reason import Reason
from tests.rules.builders import books, gpus, job, session
from tests.rules.story import Story

from .guide import DOCS, Guide

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_gpushare.rules.lease import Lease

_RESULTS: Final = DOCS.parent / "benchmarks" / "results"
_TRACES: Final = ("tiresias", "sensei_june_60sec")
_MONDAY: Final = "Monday, "
_QUOTAS: Final = {"team-a": "4", "team-b": "3", "team-c": "1"}
#: Longer than any minimum turn.
_LONG: Final = 1_000.0


@pytest.fixture(scope="module")
def page() -> Guide:
    """The page."""
    return Guide.read("fairness.md")


class _Town(Story):
    """The ten GPUs of the example, with everybody who is there at its beginning."""

    def __init__(self) -> None:
        super().__init__(books(per_host=10, quotas=_QUOTAS))
        for number in range(1, 7):
            self.claims(job(f"a-{number}", "1", "team-a"))
        self.claims(session("b-notebook", "1", "team-b"))
        self.claims(job("b-job", "1", "team-b"))
        for number in range(1, 9):
            self.claims(job(f"c-{number}", "1", "team-c"))
        self.passes(_LONG)

    def claims(self, lease: Lease) -> None:
        """Submit it; everybody does what is asked."""
        self.then(Submitted(lease.evolve(submitted=self.now)))
        self.settle()

    def settle(self) -> None:
        """Everybody does what is asked, until nothing is."""
        while busy := sorted(self.snapshot.unsettled):
            self.obeys(*busy)

    def running(self) -> set[str]:
        """Who runs."""
        return {key for key, lease in self.snapshot.leases.items() if lease.status is Status.RUNNING}

    def row(self) -> list[str]:
        """Fair shares, then what is in use, as the page's table has them."""
        shares = fair_share(self.snapshot)
        used = {team: self.snapshot.project_books[team].counted for team in _QUOTAS}
        return [", ".join(str(part[team]) for team in _QUOTAS) for part in (shares, used)]


def _rows(text: str, heading: str) -> list[list[str]]:
    """The table below the line that holds *heading*, without its head."""
    lines = text[text.index(heading) :].splitlines()
    rows = [line for line in lines[: _end(lines)] if line.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


def _end(lines: list[str]) -> int:
    begun = next(at for at, line in enumerate(lines) if line.startswith("|"))
    return next((at for at in range(begun, len(lines)) if not lines[at].startswith("|")), len(lines))


def test_the_division_is_worked_out_right(page: Guide) -> None:
    """Each step of the division by hand, and the rules come to the same shares."""
    town = _Town()
    rows = _rows(page.text, "Ten GPUs")
    for team, quota, wants, deserves, more, fair in rows:
        assert quota == _QUOTAS[team]
        assert gpus(deserves) == min(gpus(quota), gpus(wants))
        assert gpus(fair).millionths == gpus(deserves).millionths + gpus(more.removeprefix("+")).millionths
        assert gpus(wants) == town.snapshot.project_books[team].demand
        assert gpus(fair) == fair_share(town.snapshot)[team]
    assert [row[0] for row in rows] == list(_QUOTAS)


def test_the_day_is_what_the_rules_make_of_it(page: Guide) -> None:
    """Each row of the example's day: what happens, what is fair then, who has what afterwards."""
    town, rows = _Town(), _rows(page.text, "What happens then")
    seen = [town.row()]
    before = town.running()
    town.claims(session("b-second", "1", "team-b"))
    assert (before - town.running(), town.running() - before) == ({"c-2"}, {"b-second"})
    seen.append(town.row())

    town.wants("b-notebook", Target.PARKED)
    town.settle()
    borrowers = [each for each in town.snapshot.leases.values() if each.loans]
    assert [(each.project, [loan.lender for loan in each.loans]) for each in borrowers] == [("team-c", ["b-notebook"])]
    seen.append(town.row())

    town.passes(_LONG)
    town.wants("b-notebook", Target.RUNNING)
    called = [key for key in town.change.leases if Verb.CALLED_BACK in town.verbs(key)]
    assert called == [borrowers[0].id]
    town.settle()
    assert town.lease("b-notebook").status is Status.RUNNING
    seen.append(town.row())

    town.claims(session("b-third", "2", "team-b"))
    assert town.lease("b-third").reason is Reason.EXCEEDS_PROJECT_QUOTA
    seen.append(town.row())
    town.claims(job("b-more", "1", "team-b"))
    assert town.lease("b-more").status is Status.QUEUED
    seen.append(town.row())
    assert [row[1:3] for row in rows] == seen


@pytest.mark.parametrize("trace", _TRACES)
def test_the_replays_figures_are_the_newest_ones(page: Guide, trace: str) -> None:
    """The table of the replay says what its newest results say, to the last digit."""
    rows = {row[0]: row[1:] for row in _rows(page.text, f"**{trace}**")}
    plain = {run["policy"]["name"]: run for run in _newest("replay")["figures"][trace]["plain"]}
    for name, cells in rows.items():
        assert cells == _row_of(plain[name]), name
    assert set(rows) == {"whole GPUs kept", "culled at 1 h", "parked 10 min", "parked 40 min", "parked 60 min"}


def _row_of(run: dict[str, Any]) -> list[str]:
    hours, waits = run["hours"]["raw"], run["waits"]
    good = f"{hours['good']:,.0f}"
    waited = f"{waits['noticed'] / waits['executions']:.1%}"
    return [
        f"{hours['handed_back'] / hours['idle']:.1%}",
        good,
        waited,
        f"{waits['p99_s']:.0f} s",
        f"{run['losses']:,}",
    ]


def test_the_sentences_about_the_replay_hold(page: Guide) -> None:
    """What is said in words has its figure in the results, too."""
    prose, long_gaps, short = page.prose(), [], []
    for trace in _TRACES:
        runs = {run["policy"]["name"]: run for run in _newest("replay")["figures"][trace]["plain"]}
        hours, cells = runs["whole GPUs kept"]["hours"], runs["whole GPUs kept"]["waits"]["executions"]
        idle = f"{hours['raw']['idle'] / hours['raw']['reserved']:.0%}"
        assert f"**{trace}**: {cells:,} cells. {idle} of the GPU time that sessions held, nothing computed." in prose
        long_gaps.append(f"{1 - hours['gaps to 8 h']['idle'] / hours['raw']['idle']:.0%}")
        parked = runs["parked 10 min"]["hours"]["gaps to 8 h"]
        short.append(f"{parked['handed_back'] / parked['idle']:.1%}")
        assert all(run["waits"]["longest_s"] > 60 for run in runs.values() if run["policy"]["ahead_s"] == 0)
    assert f"{' and '.join(long_gaps)} of the idle time lie in gaps of more than eight hours" in prose
    assert f"hands back {' and '.join(short)} of what is idle" in prose


def test_what_was_assumed_is_said(page: Guide) -> None:
    """Speeds of copies, sizes of states and how many there were are those of the runs."""
    prose = page.prose()
    for trace in _TRACES:
        costs = _newest("replay")["figures"][trace]["conditions"]["costs"]
        assert f"{costs['out_bytes_per_s'] / 1e9:g} GB/s out of a GPU" in prose
        assert f"{costs['in_bytes_per_s'] / 1e9:g} GB/s back" in prose
        assert f"state to be {costs['median_state'] / 1e9:g} GB at the median" in prose
    monday, classroom = Monday(), Classroom()
    copies = f"({monday.costs.out_bytes_per_s / 1e9:g} and {monday.costs.in_bytes_per_s / 1e9:g} on Monday)"
    assert copies in prose
    assert f"On {monday.devices} GPUs {monday.sessions} notebooks are parked" in prose
    assert f"{classroom.students} students, {classroom.gpus} GPUs, half a GPU promised to each" in prose
    assert (classroom.part, classroom.one_in) == (gpus("0.5"), 5)


def test_mondays_figures_are_the_newest_ones(page: Guide) -> None:
    """Each row has the worst of the runs with other seeds."""
    mornings = {name: runs for name, runs in _newest("crowds")["figures"].items() if name.startswith(_MONDAY)}
    waits = {name: [run["waits"] for run in runs.values()] for name, runs in mornings.items()}
    expected = [
        [
            name.removeprefix(_MONDAY),
            f"{max(percentile(each, 50) for each in runs):.1f} s",
            f"{max(percentile(each, 95) for each in runs):.1f} s",
            f"{max(max(each) for each in runs):.1f} s",
        ]
        for name, runs in waits.items()
    ]
    assert _rows(page.text, "The worst case is Monday") == expected
    assert {len(runs) for runs in waits.values()} == {3}, "the worst of three"
    assert all(verdict["met"] for verdict in _newest("crowds")["verdicts"])


def test_the_class_is_the_newest_one(page: Guide) -> None:
    """Its figures are those of the newest report, whose table counts every cell."""
    report = _file_of("crowds").with_suffix(".md").read_text(encoding="utf-8")
    table = dict(row[:2] for row in _rows(report, "## the class"))
    _, share = table["cells that waited over 2 s"].removesuffix(")").split(" (")
    half, _ = table["wait of those that waited, p50 / p95"].split(" / ")
    longest = table["wait of all cells, p50 / p95 / p99 / longest"].rpartition(" / ")[2]
    assert table["lost; not finished"] == "0; 0"
    expected = (
        f"Of {table['cells']} cells {share} waited over 2 s; half of those that waited did so for at most {half} s"
    )
    assert expected in page.prose()
    assert f"the longest for {longest}." in page.prose()


def test_its_pictures_are_the_newest_ones(page: Guide) -> None:
    """A picture of older results beside newer figures would mislead."""
    shown = re.findall(r"\((\.\./benchmarks/results/[^)]+\.svg)\)", page.text)
    assert shown
    for each in shown:
        assert (DOCS / each).is_file()
        kind = each.rpartition("/")[2].partition("-")[0]
        assert _file_of(kind).stem.removeprefix(f"{kind}-") in each


def _file_of(kind: str) -> Path:
    return max(_RESULTS.glob(f"{kind}-*.json"))


def _newest(kind: str) -> dict[str, Any]:
    results: dict[str, Any] = json.loads(_file_of(kind).read_text(encoding="utf-8"))
    return results
