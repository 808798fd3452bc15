"""Small replays whose outcome is worked out by hand, so that what large ones count can be believed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from benchmarks.replay import policy as policies
from benchmarks.replay.costs import Costs
from benchmarks.replay.generator import sessions as drawn
from benchmarks.replay.kept import kept_replay
from benchmarks.replay.run import Conditions, replay
from benchmarks.replay.trace import Execution, Session
from jupyter_gpushare.quantity import Memory

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.replay.account import Account
    from benchmarks.replay.policy import Policy

#: Every state is 8 GB, so that it moves out in 2.25 s and back in 8 / 7 + 0.25 s. Every job saves when it is told to.
COSTS = Costs(sigma_state=0.0, safe_points=0.0, deaf=0.0)
OUT_S, IN_S = 2.25, 8 / 7 + 0.25
GAP_S = 7200.0
#: A cell of a minute, two hours, and another one.
TWICE = Session("twice", 1, (Execution(0.0, 60.0), Execution(60.0 + GAP_S, 60.0)))
CONDITIONS = Conditions(costs=COSTS)


def ran(policy: Policy, conditions: Conditions = CONDITIONS, *sessions: Session) -> Account:
    """What a run counts; every session got to its end."""
    account = replay(sessions or [TWICE], policy, conditions).account
    assert account.unfinished == []
    return account


def test_reservation_gives_nothing_back_and_nobody_waits() -> None:
    """With whole GPUs for as long as servers live, all idle time is kept, and no cell waits."""
    account = ran(policies.reservation())
    hours = account.hours("raw")
    assert hours.reserved * 3600 == pytest.approx(GAP_S + 120)
    assert hours.used * 3600 == pytest.approx(120)
    assert (hours.handed_back, hours.lent, account.waits, account.losses) == (0.0, 0.0, [], [])


def test_parking_gives_back_all_but_the_timeout_and_the_copy() -> None:
    """Idle time counts as handed back from the attested release to the next cell, which then waits for both copies."""
    account = ran(policies.ours(10))
    hours = account.hours("raw")
    assert hours.handed_back * 3600 == pytest.approx(GAP_S - 600 - OUT_S)
    assert account.waits == [pytest.approx(COSTS.job_save_s + IN_S)]
    assert (account.parks, account.losses) == (1, [])


def test_goodput_is_what_survives() -> None:
    """From what was lent, starting, periodic saves and the last save are taken off."""
    hours = ran(policies.ours(10)).hours("raw")
    lent = GAP_S - 600 - OUT_S + COSTS.job_save_s
    assert hours.lent * 3600 == pytest.approx(lent)
    computed = lent - COSTS.job_start_s - COSTS.job_save_s
    saves = computed // COSTS.job_save_every_s * COSTS.job_periodic_save_s
    assert hours.good * 3600 == pytest.approx(computed - saves)


def test_a_job_that_does_not_save_loses_its_last_steps() -> None:
    """Stopped by force at the end of its grace, it loses what it did since its last periodic save, and the cell waits."""
    costs = replace(COSTS, deaf=1.0)
    account = ran(policies.ours(10), replace(CONDITIONS, costs=costs))
    computed = GAP_S - 600 - OUT_S + costs.grace_s - costs.job_start_s
    whole = computed // costs.job_save_every_s
    good = whole * (costs.job_save_every_s - costs.job_periodic_save_s)
    assert account.hours("raw").good * 3600 == pytest.approx(good)
    assert account.waits == [pytest.approx(costs.grace_s + IN_S)]


def test_a_job_with_safe_points_loses_nothing_but_time() -> None:
    """It parks at its next step, and goes on from there: what it computed survives, and its loan begins with a copy."""
    costs = replace(COSTS, safe_points=1.0)
    account = ran(policies.ours(10), replace(CONDITIONS, costs=costs))
    lent = GAP_S - 600 - OUT_S + costs.job_step_s + OUT_S
    computed = lent - IN_S - OUT_S
    hours = account.hours("raw")
    assert hours.lent * 3600 == pytest.approx(lent)
    assert hours.good * 3600 == pytest.approx(computed - computed // 900 * costs.job_periodic_save_s)
    assert account.waits == [pytest.approx(costs.job_step_s + OUT_S + IN_S)]


def test_cullers_lose_state() -> None:
    """The idle culler gives the GPU back, culling kernels does not; both lose the session's state, and it starts anew."""
    culled = ran(policies.culler())
    assert culled.hours("raw").handed_back * 3600 == pytest.approx(GAP_S - 3600)
    assert len(culled.losses) == 1
    assert culled.waits[0] > COSTS.restart_s
    kernels = ran(policies.kernel_culling())
    assert (kernels.hours("raw").handed_back, len(kernels.losses)) == (0.0, 1)
    assert kernels.waits == [pytest.approx(COSTS.restart_s)]


def test_foresight_parks_at_once_and_comes_back_in_time() -> None:
    """The oracle acts at the beginning of long gaps only; told to be back in time, it keeps nobody waiting."""
    at_once = ran(policies.oracle(10))
    assert at_once.hours("raw").handed_back * 3600 == pytest.approx(GAP_S - OUT_S)
    assert ran(policies.oracle(300)).parks == 0
    in_time = ran(policies.oracle(10, ahead_s=60.0))
    assert in_time.waits == []
    assert in_time.hours("raw").handed_back * 3600 == pytest.approx(GAP_S - OUT_S - 60.0)


def test_weights_and_short_gaps_are_counted_apart() -> None:
    """Weighted figures count a session's GPUs; a gap beyond eight hours is left out of the third counting alone."""
    long = Session("long", 4, (Execution(0.0, 60.0), Execution(10 * 3600.0, 60.0)))
    account = ran(policies.ours(10), CONDITIONS, TWICE, long)
    raw, weighted, short = (account.hours(counting) for counting in ("raw", "weighted", "gaps to 8 h"))
    assert raw.idle * 3600 == pytest.approx(GAP_S + 10 * 3600 - 60)
    assert weighted.idle * 3600 == pytest.approx(GAP_S + 4 * (10 * 3600 - 60))
    assert short.idle * 3600 == pytest.approx(GAP_S)
    assert short.handed_back * 3600 == pytest.approx(GAP_S - 600 - OUT_S)
    assert weighted.lent > raw.lent > short.lent > 0


@pytest.mark.parametrize("policy", [policies.ours(10), policies.culler(), policies.oracle(10, ahead_s=180.0)])
def test_the_reconciler_decides_as_the_rules_do(policy: Policy) -> None:
    """Kept and published by the broker's reconciler, a run comes out as with the rules alone, to the last second."""
    sessions = drawn(4, 5)
    kept = ran(policy, Conditions(seed=5, is_kept=True), *sessions)
    alone = ran(policy, Conditions(seed=5, is_kept=False), *sessions)
    assert kept == alone


@pytest.mark.long
def test_bad_luck_loses_nobody() -> None:
    """With failing parks and host memory for a few, sessions stay where they are, and every one of them ends well."""
    sessions = drawn(6, 2)
    hostile = replace(Conditions(seed=2), fails=0.2, budget=Memory(40 * 10**9))
    account = ran(policies.ours(5), hostile, *sessions)
    assert account.losses == []
    assert account.not_parked > 0
    assert account.parks > 0


def test_a_kept_run_is_not_repeated(tmp_path: Path) -> None:
    """What was kept is what a run gave, to the last figure; other conditions are another run."""
    said: list[str] = []
    first = kept_replay(tmp_path, [TWICE], policies.ours(10), CONDITIONS, say=said.append)
    assert "kept from before" not in said
    assert kept_replay(tmp_path, [TWICE], policies.ours(10), CONDITIONS, say=said.append) == first
    assert said[-1] == "kept from before"
    other = kept_replay(tmp_path, [TWICE], policies.ours(10), CONDITIONS.hostile(), say=said.append)
    assert said[-1] != "kept from before"
    assert other.policy == first.policy
