"""GPU-hours are what was really held, handed back, lent and computed, whatever clocks and holders do."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest

from jupyter_gpushare.broker.accounting import Accountant
from jupyter_gpushare.broker.ledger import UsageHours
from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.lease import Grant, Kind, Lease, Loan, Status
from jupyter_gpushare.rules.snapshot import EMPTY, Snapshot
from tests.broker.ledger.books import HALF, a_lease, keep, random_change

#: The beginning of an hour.
T = 1_000_000 * 3600


def running(lease_id: str = "lease-1", **changes: Any) -> Lease:
    """A session that holds half a GPU."""
    return a_lease(lease_id, **{"status": Status.RUNNING, "grants": (Grant("GPU-1", HALF),), **changes})


def books(*leases: Lease) -> Snapshot:
    """Books with these leases."""
    return Snapshot.of(leases=leases)


def pass_time(accountant: Accountant, snapshot: Snapshot, start: float, seconds: float) -> None:
    """Look every five minutes for so long."""
    for at in range(0, int(seconds), 300):
        accountant.advance(snapshot, start + at)
    accountant.advance(snapshot, start + seconds)


def test_what_runs_is_held_and_what_is_parked_is_handed_back() -> None:
    """Half a GPU for an hour is half a GPU-hour: held while it runs, handed back while it is parked."""
    accountant, session = Accountant(), running()
    pass_time(accountant, books(session), T, 3600)
    pass_time(accountant, books(session.evolve(status=Status.PARKED)), T + 3600, 3600)
    assert accountant.take() == [
        UsageHours(T, "team-a", "ana", held=0.5),
        UsageHours(T + 3600, "team-a", "ana", handed_back=0.5),
    ]


def test_what_is_lent_is_not_held() -> None:
    """A job's own part counts as held and the rest as lent to it: nobody's GPU is counted twice."""
    job = running("job", person="bo", loans=(Loan("other", "GPU-1", Fraction(200_000)),))
    accountant = Accountant()
    pass_time(accountant, books(job), T, 3600)
    (hours,) = accountant.take()
    assert [hours.held, hours.lent] == pytest.approx([0.3, 0.2])


def test_what_waits_or_was_parked_without_a_promise_counts_nothing() -> None:
    """Only a session's kept promise is handed back: a job in the queue, or parked, keeps nothing from others."""
    job = running("job", kind=Kind.TRAINING, status=Status.PARKED)
    accountant = Accountant()
    pass_time(accountant, books(a_lease("waiting"), job), T, 3600)
    assert accountant.take() == []


def test_hours_are_split_where_they_end() -> None:
    """Use over a full hour goes to both hours, each with its part."""
    accountant = Accountant()
    accountant.advance(books(running()), T + 3000)
    accountant.advance(books(running()), T + 3840)
    assert accountant.take() == [
        UsageHours(T, "team-a", "ana", held=0.5 * 600 / 3600),
        UsageHours(T + 3600, "team-a", "ana", held=0.5 * 240 / 3600),
    ]


def test_taking_twice_gives_nothing_twice() -> None:
    """What was taken once does not come again, and what goes on running goes on counting."""
    accountant = Accountant()
    pass_time(accountant, books(running()), T, 1800)
    assert accountant.take() == [UsageHours(T, "team-a", "ana", held=0.25)]
    assert accountant.take() == []
    pass_time(accountant, books(running()), T + 1800, 1800)
    assert accountant.take() == [UsageHours(T, "team-a", "ana", held=0.25)]


def test_what_could_not_be_kept_comes_again() -> None:
    """Hours that the ledger refused for now are in the next ones, with what came since."""
    accountant = Accountant()
    pass_time(accountant, books(running()), T, 1800)
    accountant.put_back(accountant.take())
    pass_time(accountant, books(running()), T + 1800, 1800)
    assert accountant.take() == [UsageHours(T, "team-a", "ana", held=0.5)]


@pytest.mark.parametrize("jump_s", [-86400, -1, 86400 * 365])
def test_a_clock_that_jumps_counts_nothing_for_it(jump_s: float) -> None:
    """A year ahead is no year of use, and a day back takes nothing away; then counting goes on."""
    accountant = Accountant()
    accountant.advance(books(running()), T)
    accountant.advance(books(running()), T + 600)
    accountant.advance(books(running()), T + 600 + jump_s)
    accountant.advance(books(running()), T + 900 + jump_s)
    assert sum(each.held for each in accountant.take()) == pytest.approx(0.5 * 900 / 3600)


def test_computed_seconds_are_believed_as_far_as_they_can_be() -> None:
    """Two devices compute at most two seconds in one: a holder that says more is cut, and nonsense counts nothing."""
    accountant = Accountant()
    two = running(grants=(Grant("GPU-1", HALF), Grant("GPU-2", HALF)))
    accountant.advance(books(two), T)
    accountant.computed("lease-1", 9.0, T + 10)
    accountant.computed("lease-1", 1e9, T + 20)
    for nonsense in (-5.0, math.nan, math.inf):
        accountant.computed("lease-1", nonsense, T + 30)
    accountant.computed("a-stranger", 10.0, T + 40)
    assert sum(each.computed for each in accountant.take()) * 3600 == pytest.approx(9.0 + 20.0)


def test_any_history_adds_up_to_what_a_slow_count_says() -> None:
    """However leases come, change and go, the incremental sums are those of a look at every lease each second.

    They are the same for one who is told which leases changed as for one who has to find out.
    """
    random = Random(48)  # noqa: S311  # a history, no secret
    accountant, told, snapshot, at = Accountant(), Accountant(), EMPTY, float(T)
    slow: dict[tuple[str, str], float] = {}
    accountant.advance(snapshot, at)
    told.advance(snapshot, at)
    for _ in range(200):
        change = random_change(random, snapshot, at)
        among = set(change.leases)
        snapshot = snapshot.with_change(change)
        if moved := next((each for each in snapshot.leases.values() if random.random() < 0.05), None):
            snapshot = snapshot.with_change(keep(moved.evolve(project=f"team-{random.randint(0, 3)}")))
            among.add(moved.id)
        accountant.advance(snapshot, at)
        told.advance(snapshot, at, among)
        seconds = random.randint(1, 400)
        for lease in snapshot.leases.values():
            if lease.is_resident or lease.is_promised:
                who = (lease.project, lease.person)
                slow[who] = slow.get(who, 0.0) + lease.amount.gpus * seconds / 3600
        at += seconds
    accountant.advance(snapshot, at)
    told.advance(snapshot, at, ())
    found: dict[tuple[str, str], float] = {}
    taken = accountant.take()
    for each in taken:
        who = (each.project, each.person)
        found[who] = found.get(who, 0.0) + each.held + each.handed_back + each.lent
    assert found == pytest.approx(slow)
    assert sorted(told.take(), key=repr) == sorted(taken, key=repr)
