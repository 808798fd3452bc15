"""Everybody at once, in small: nobody is lost, and no host copies or saves more at once than it may."""

from __future__ import annotations

import pytest

from benchmarks.crowds import classroom, monday
from benchmarks.crowds.peaks import Peaks
from benchmarks.crowds.tables import morning_table, morning_verdicts
from benchmarks.replay.account import Account
from benchmarks.replay.costs import Costs
from benchmarks.replay.site import site
from benchmarks.replay.world import World
from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules.pool import Pool


@pytest.mark.parametrize("part", ["0.2", "1"])
@pytest.mark.parametrize("safe_points", [0.0, 0.5])
def test_monday_at_nine_brings_everybody_back(part: str, safe_points: float) -> None:
    """All devices are lent, everybody runs a cell within a minute, and all come back within the hosts' limits."""
    plan = monday.Monday(40, 8, Fraction.parse(part), copies=1, saves=2, safe_points=safe_points)
    found = monday.run(plan)
    assert (found.account.losses, found.account.unfinished) == ([], [])
    assert found.lent == 8.0
    assert len(found.account.waits) == found.account.executions == 40
    assert 0 < found.peaks.most_copies <= 1
    assert found.peaks.most_saves <= 2


@pytest.mark.parametrize("safe_points", [0.0, 0.5, 1.0])
def test_estimates_learned_by_watching_are_near(safe_points: float) -> None:
    """Nine sessions in ten come back within 30 % of what they were first told, however the jobs in the way leave."""
    found = monday.run(monday.Monday(80, 16, safe_points=safe_points, seed=2))
    assert (found.unknown, len(found.shown)) == (0, 80)
    assert found.near >= 0.9


def test_a_table_has_a_column_for_each_seed_and_the_verdict_is_of_all() -> None:
    """One good seed hides no bad one: the worst is named, and a miss in the mean is a miss."""
    plan = monday.Monday()
    good, bad = (monday.Morning(Account(), Peaks(), 40.0, [(1.0, took)], 0) for took in (1.1, 3.0))
    shown = {row[0]: row[1:] for row in morning_table("Monday", {1: good, 2: bad}).rows}
    assert shown["estimates within 30 %"] == ["100.0%", "0.0%"]
    assert shown["estimates: told less / more by over 30 %"] == ["0 / 0", "1 / 0"]
    verdict = morning_verdicts("Monday", plan, [good, bad])[-1]
    assert (verdict.measured, verdict.met) == ("50.0% (worst seed 0.0%)", False)


def test_a_class_with_five_times_as_many_students_as_fit() -> None:
    """Everybody is admitted, and takes turns with nobody's state lost."""
    found = classroom.run(classroom.Classroom(20, 2))
    assert (found.admitted, found.refused) == (20, [])
    assert (found.account.losses, found.account.unfinished) == ([], [])
    assert found.account.parks > 20


def test_peaks_count_what_holders_are_told() -> None:
    """Several copies at once on one host are seen as such: the watch itself can fail."""
    found = monday.run(monday.Monday(40, 8, copies=5, saves=8))
    assert found.peaks.most_copies > 1
    assert found.peaks.most_saves > 2


def test_nothing_happens_without_a_reason() -> None:
    """A world without holders comes to rest, and decides nothing."""
    world = World(site(1, Pool("gpus"), budget=Memory(10**9), copies=1, saves=1))
    world.run()
    assert (world.decision_s, Peaks().most_copies, Account().waits) == ([], 0, [])
    assert Costs().out_s(Memory(4 * 10**9)) == pytest.approx(1.25)
