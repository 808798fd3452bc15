"""What becomes of waiting claims in one round: loans, pauses, copies, and coming to an end."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules import counting, displaceable, queue_order
from jupyter_gpushare.rules.change import Verb
from jupyter_gpushare.rules.claims import serve_claims
from jupyter_gpushare.rules.event import Attested, Running, Submitted, TimePassed, Wanted
from jupyter_gpushare.rules.invariants import mistakes
from jupyter_gpushare.rules.lease import Lease, Status, Target
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.snapshot import Snapshot
from jupyter_gpushare.rules.step import step
from jupyter_gpushare.rules.waiting_line import line
from tests.rules.builders import NOW, books, job, on_loan, parked, running, session
from tests.rules.story import Story

if TYPE_CHECKING:
    from jupyter_gpushare.rules.event import Event


def test_nothing_is_done_when_nobody_waits() -> None:
    """Books in which nobody waits are left as they are."""
    assert not serve_claims(books(running(session("s"), "h1-0")), NOW)


def test_a_grant_has_a_new_epoch_a_turn_and_a_line_in_the_audit() -> None:
    """Whoever is granted something may start with an epoch never used before, and its turn begins then."""
    again = job("j", "0.5", epoch=6, reason=Reason.RECLAIMED, because_of="x")
    change = serve_claims(books(again), NOW)
    lease = change.leases["j"]
    assert (lease.status, lease.epoch, lease.turn_began, lease.since) == (Status.GRANTED, 7, NOW, NOW)
    assert (lease.reason, lease.because_of) == (None, "")
    assert [(each.verb, each.lease, each.devices) for each in change.audit] == [(Verb.GRANTED, "j", ("h1-0",))]


def test_a_job_that_costs_more_than_a_loan_gives_gets_none() -> None:
    """A long start is not worth a short loan: the job says so, waits, and takes room of its own at once."""
    there = [parked(session("s", "1", "b"), "h1-0")]
    story = Story(books(*there, per_host=1, quotas={"team-a": "0", "b": "1"}, lend_at_least_s=60.0))
    story.then(Submitted(job("slow", "1", start_cost_s=61.0)), Submitted(job("quick", "0.5", start_cost_s=60.0)))
    assert (story.status("slow", "quick"), story.lease("slow").reason) == (
        ["queued", "granted"],
        Reason.WAITING_FOR_QUOTA,
    )
    alone = Story(books(*there, quotas={"team-a": "0", "b": "1"}))
    alone.then(Submitted(job("slow", "1", start_cost_s=61.0)))
    assert alone.lease("slow").reason is Reason.LOAN_TOO_SHORT
    alone.wants("s", Target.ENDED)
    assert alone.status("slow") == ["granted"]


def test_sessions_never_borrow_where_resumes_are_guaranteed() -> None:
    """What a parked notebook is promised is lent to jobs alone."""
    story = Story(books(parked(session("s", "1", "b"), "h1-0"), quotas={"team-a": "1", "b": "1"}))
    story.then(Submitted(session("n", "0.5")))
    assert (story.status("n"), story.lease("n").loans) == (["queued"], ())


def test_best_effort_admits_more_than_fits_at_once() -> None:
    """In a class promises may exceed the device up to ``oversubscribe``; what runs at once still fits."""
    class_ = {"resume": "best-effort", "oversubscribe": Fraction.parse("2"), "quotas": {"team-a": "9"}}
    there = [parked(session(f"p{n}", "0.5"), "h1-0") for n in range(2)]
    story = Story(books(*there, **class_))  # type: ignore[arg-type]  # a pool's settings and quotas
    story.then(*(Submitted(session(f"n{n}", "0.5")) for n in range(3)))
    assert story.status("n0", "n1", "n2") == ["granted", "granted", "queued"]
    held = story.snapshot.device_books["h1-0"].held
    assert (str(held), str(story.snapshot.device_books["h1-0"].promised)) == ("1", "2")


def test_back_off_is_waited_for() -> None:
    """A job that has just lost its share is granted nothing before its pause is over, however much is free."""
    story = Story(books(job("j", "0.5", not_before=NOW + 40, epoch=1, reason=Reason.CALLED_BACK)))
    story.passes(1)
    assert (story.status("j"), story.lease("j").reason) == (["queued"], Reason.WAITING_FOR_BACK_OFF)
    assert story.look_again == NOW + 40
    story.passes(39)
    assert story.status("j") == ["granted"]


def test_a_job_in_back_off_does_not_keep_others_waiting() -> None:
    """What a job in its pause cannot use yet goes to the next in line."""
    story = Story(books(job("j", "1", not_before=NOW + 40, epoch=1, reason=Reason.CALLED_BACK), job("k", "1")))
    story.passes(1)
    assert story.status("j", "k") == ["queued", "granted"]


def test_parked_jobs_come_back_as_their_host_can_copy() -> None:
    """Parked jobs resume on their own devices with new epochs, no more at once than the host takes."""
    there = [
        parked(job(f"j{n}", "0.5", is_parkable=True, host_memory=Memory.parse("1GiB")), f"h1-{n}") for n in range(3)
    ]
    story = Story(books(*there, per_host=3, host_changes={"copies": 2}))
    story.passes(1)
    assert story.status("j0", "j1", "j2") == ["resuming", "resuming", "parked"]
    assert (story.lease("j2").reason, story.lease("j0").epoch) == (Reason.WAITING_FOR_COPIES, 2)
    story.then(Submitted(job("late", "1")))
    assert story.status("late") == ["queued"], "the room of the third is kept"
    story.obeys("j0")
    assert story.status("j2") == ["resuming"]


def test_one_device_restores_one_job_at_a_time() -> None:
    """Two parked jobs of one device come back one after the other."""
    there = [parked(job(f"j{n}", "0.5", is_parkable=True), "h1-0") for n in range(2)]
    story = Story(books(*there))
    story.passes(1)
    assert story.status("j0", "j1") == ["resuming", "parked"]
    story.obeys("j0")
    assert story.status("j0", "j1") == ["running", "resuming"]


def test_a_parked_job_may_come_back_on_a_loan() -> None:
    """A parked job goes on where it was when that has been promised to a notebook meanwhile, which is parked itself."""
    there = [parked(session("s", "1", "b"), "h1-0"), parked(job("j", "0.5", is_parkable=True), "h1-0")]
    story = Story(books(*there, quotas={"team-a": "0", "b": "1"}))
    story.passes(1)
    assert (story.status("j"), [loan.lender for loan in story.lease("j").loans]) == (["resuming"], ["s"])


def test_a_notebook_that_is_refused_takes_nobodys_place() -> None:
    """Of two notebooks that come together, the one that fits the quota is served although the other was first."""
    story = Story(books(quotas={"team-a": "0.5"}))
    story.then(Submitted(session("big", "1")), Submitted(session("small", "0.5")))
    assert story.status("big", "small") == ["failed", "granted"]


def test_nothing_begins_for_a_claim_that_only_waits() -> None:
    """Serving the same books again changes nothing: reasons are set once, and nobody is called twice."""
    there = [running(job(f"b{n}", "1", "b"), f"h1-{n}") for n in range(2)]
    snapshot = books(*there, job("n", "1", "a"), session("s", "0.5", "a"), per_host=2, quotas={"a": "2", "b": "0"})
    change = serve_claims(snapshot, NOW)
    assert change
    assert not serve_claims(snapshot.with_change(change), NOW)


def _forget() -> None:
    """As in a process that has just started: nothing is known of any snapshot."""
    counting._KNOWN.snapshot = None
    queue_order._KNOWN.queue = queue_order.Queue()
    displaceable._KNOWN.jobs.clear()


@pytest.mark.parametrize("seed", range(6))
def test_decisions_follow_from_the_books_alone(seed: int) -> None:
    """What was remembered from snapshots before changes no decision: anew from the ledger, all come out the same."""
    dice = random.Random(seed)  # noqa: S311  # a small world, not a secret
    snapshot = books(hosts=2, per_host=3, quotas={"a": "2", "b": "2", "c": "0"}, consolidation=True)
    now = NOW
    for number in range(80):
        now += dice.choice([1.0, 30.0, 300.0])
        events = [_something(dice, snapshot, number)]
        done = step(snapshot, events, now)
        _forget()
        anew = step(_read_again(snapshot), events, now)
        assert anew.change == done.change
        assert line(anew.snapshot) == line(done.snapshot)
        assert not list(mistakes(done.snapshot))
        snapshot = done.snapshot


def _read_again(snapshot: Snapshot) -> Snapshot:
    """As from a ledger: the parts, with nothing that follows from them."""
    return Snapshot.of(
        projects=snapshot.projects.values(),
        pools=snapshot.pools.values(),
        hosts=snapshot.hosts.values(),
        devices=snapshot.devices.values(),
        leases=snapshot.leases.values(),
    )


def _something(dice: random.Random, snapshot: Snapshot, number: int) -> Event:
    """Somebody asks, answers, or changes their mind."""
    leases: list[Lease] = list(snapshot.leases.values())
    answers: list[Event] = []
    for lease in leases:
        if lease.status in (Status.GRANTED, Status.RESUMING):
            answers.append(Running(lease.id, lease.epoch))
        elif lease.status in (Status.PARKING, Status.YIELDING):
            answers.append(Attested(lease.id, lease.epoch))
    if answers and dice.random() < 0.6:
        return dice.choice(answers)
    if not leases or dice.random() < 0.5:
        made = job if dice.random() < 0.7 else session
        share = dice.choice(["0.25", "0.5", "1", "2", "2x0.5"])
        return Submitted(made(f"l{number}", share, dice.choice("abc"), is_parkable=dice.random() < 0.5))
    if dice.random() < 0.2:
        return TimePassed()
    lease = dice.choice(leases)
    return Wanted(lease.id, dice.choice([Target.PARKED, Target.RUNNING, Target.ENDED]))


def test_a_borrower_and_its_own_room_are_told_apart() -> None:
    """A job that stands on a loan keeps nobody inside its fair share waiting for room that is nobody's."""
    there = [parked(session("s", "0.5", "b"), "h1-0"), on_loan(job("j", "0.5", "c"), ("s", "h1-0", "0.5"))]
    story = Story(books(*there, quotas={"a": "0.5", "b": "0.5", "c": "0"}))
    story.then(Submitted(session("n", "0.5", "a")))
    assert (story.status("n", "j"), str(story.snapshot.device_books["h1-0"].held)) == (["granted", "running"], "1")
