"""Everybody at once, in small: nobody is lost, and no host copies or saves more at once than it may."""

from __future__ import annotations

import pytest

from benchmarks.crowds import classroom, monday
from benchmarks.crowds.peaks import Peaks
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


def test_estimates_are_near_where_jobs_save_alike() -> None:
    """Nine sessions in ten come back within 30 % of what they were told when their cell was sent."""
    found = monday.run(monday.Monday(40, 8))
    assert (found.unknown, len(found.shown)) == (0, 40)
    assert found.near >= 0.9


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
