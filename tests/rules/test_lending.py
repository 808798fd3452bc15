"""What parked sessions lend, and who is called back for whom (DESIGN 5, rule 5)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.change import Verb
from jupyter_gpushare.rules.event import ParkingSwitched, Submitted, Wanted
from jupyter_gpushare.rules.lease import Status, Target
from jupyter_gpushare.rules.lending import is_too_short, lendable
from jupyter_gpushare.rules.pool import Pool
from jupyter_gpushare.rules.reason import Reason
from tests.rules.builders import books, device, gpus, job, on_loan, parked, running, session
from tests.rules.story import Story

if TYPE_CHECKING:
    from jupyter_gpushare.rules.snapshot import Snapshot


def offers(snapshot: Snapshot, uuid: str = "h1-0") -> dict[str, str]:
    """Who lends how much."""
    return {loan.lender: str(loan.amount) for loan in lendable(snapshot, uuid)}


def test_only_sessions_that_stay_parked_lend_and_only_what_is_left() -> None:
    """Running ones, those wanted back and parked jobs lend nothing; what is lent already is not lent twice."""
    snapshot = books(
        parked(session("old", "0.4"), "h1-0", since=1.0),
        parked(session("new", "0.2"), "h1-0", since=2.0),
        parked(session("wanted", "0.1"), "h1-0", target=Target.RUNNING),
        running(session("busy", "0.1"), "h1-0"),
        parked(job("parked-job", "0.5"), "h1-0"),
        on_loan(job("borrower"), ("old", "h1-0", "0.3")),
    )
    assert offers(snapshot) == {"old": "0.1", "new": "0.2"}
    assert [loan.lender for loan in lendable(snapshot, "h1-0")] == ["old", "new"]


def test_never_more_is_lent_than_is_free() -> None:
    """Promises may exceed the device in a class, and foreign programs take from it: loans do not."""
    leases = [parked(session(f"s{number}", "0.5"), "h1-0", since=float(number)) for number in range(4)]
    snapshot = books(*leases, resume="best-effort", oversubscribe=Fraction.parse("2"))
    assert offers(snapshot) == {"s0": "0.5", "s1": "0.5"}
    with_foreign = books(*leases, devices=[device("h1-0", foreign=gpus("0.7"))], resume="best-effort")
    assert offers(with_foreign) == {"s0": "0.3"}


@pytest.mark.parametrize(
    "changes", [{"condition": "draining"}, {"condition": "gone"}, {"trespassed": True}, {"pool": "another"}], ids=str
)
def test_a_device_that_takes_nothing_new_is_not_lent(changes: dict[str, str]) -> None:
    """Drained, gone, trespassed, or in a pool that is no more."""
    assert not offers(books(parked(session("s"), "h1-0"), devices=[device("h1-0", **changes)]))


def test_nothing_is_lent_while_parking_is_stopped() -> None:
    """Whoever is parked then is on the way back."""
    story = Story(books(parked(session("s"), "h1-0"), running(session("r"), "h1-0")))
    story.then(ParkingSwitched(is_stopped=True, by="root"))
    assert not offers(story.snapshot)


def test_a_loan_must_last_longer_than_a_start_costs() -> None:
    """A job whose start and park cost more than the lend is expected to last gets none."""
    assert is_too_short(job("slow", start_cost_s=61.0), Pool("main", lend_at_least_s=60.0))
    assert not is_too_short(job("quick", start_cost_s=60.0), Pool("main", lend_at_least_s=60.0))


def test_no_loan_to_a_job_that_takes_very_long_to_leave() -> None:
    """A grace of a day would keep the notebook waiting for a day: such a job runs on what is nobody's."""
    story = Story(books(parked(session("s", "1"), "h1-0"), per_host=2))
    story.then(Submitted(job("own", "1", grace_s=86_400.0)), Submitted(job("slow", "1", grace_s=86_400.0)))
    assert story.lease("slow").reason is Reason.LOAN_TOO_SHORT
    story.then(Submitted(job("quick", "1", grace_s=60.0)))
    assert story.status("own", "slow", "quick") == ["granted", "queued", "granted"]
    assert story.lease("quick").loans


def test_exactly_the_borrowers_of_who_comes_back_are_called() -> None:
    """Whatever their project; those on other loans, and on no loan, go on."""
    story = Story(
        books(
            parked(session("a", "0.4"), "h1-0"),
            parked(session("b", "0.4"), "h1-0"),
            on_loan(job("of-a", "0.4", "team-b"), ("a", "h1-0", "0.4")),
            on_loan(job("of-b", "0.4"), ("b", "h1-0", "0.4")),
            running(job("own", "0.2"), "h1-0"),
            quotas={"team-a": "1", "team-b": "0"},
        )
    )
    story.wants("a", Target.RUNNING)
    assert story.status("of-a", "of-b", "own") == ["yielding", "running", "running"]
    assert story.lease("of-a").because_of == "a"
    assert story.verbs("of-a") == [Verb.CALLED_BACK]


def test_a_borrower_yields_whole_though_it_stands_only_partly_on_the_loan() -> None:
    """Half a job does not compute."""
    mixed = on_loan(job("mixed", "0.6"), ("a", "h1-0", "0.4"))
    mixed = mixed.evolve(grants=(replace(mixed.grants[0], amount=gpus("0.6")),))
    story = Story(books(parked(session("a", "0.4"), "h1-0"), mixed, running(session("rest", "0.2"), "h1-0")))
    story.wants("a", Target.RUNNING)
    assert story.status("mixed") == ["yielding"]
    story.obeys("mixed")
    assert story.status("a") == ["resuming"]


def test_a_call_that_has_not_begun_is_taken_back_when_the_lender_parks_again() -> None:
    """With no save free the job was not asked yet: it just goes on."""
    story = Story(
        books(
            parked(session("a", "0.4"), "h1-0"),
            parked(session("b", "0.4"), "h1-0"),
            on_loan(job("of-a", "0.4"), ("a", "h1-0", "0.4")),
            on_loan(job("of-b", "0.4"), ("b", "h1-0", "0.4")),
            host_changes={"saves": 1},
        )
    )
    story.then(Wanted("a", Target.RUNNING), Wanted("b", Target.RUNNING))
    assert sorted(story.status("of-a", "of-b")) == ["running", "yielding"]
    waiting = next(key for key in ("of-a", "of-b") if story.status(key) == ["running"])
    assert story.lease(waiting).is_called
    story.wants(waiting.removeprefix("of-"), Target.PARKED)
    assert not story.lease(waiting).is_called
    assert story.status(waiting) == ["running"]


def test_a_lender_that_ends_leaves_the_room_to_its_borrower() -> None:
    """Nothing is promised there any more: the job keeps running, and now counts for its project."""
    story = Story(books(parked(session("a"), "h1-0"), on_loan(job("training"), ("a", "h1-0", "0.5"))))
    story.wants("a", Target.ENDED)
    assert story.status("training") == ["running"]
    assert not story.lease("training").loans
    assert story.snapshot.project_books["team-a"].counted == gpus("0.5")


def test_a_parked_job_has_no_claim_on_its_device() -> None:
    """It remembers where its memory belongs, holds nothing there, and its loans are over."""
    borrower = on_loan(job("training", is_parkable=True), ("a", "h1-0", "0.5"))
    story = Story(books(parked(session("a"), "h1-0"), borrower, running(session("rest"), "h1-0")))
    story.wants("a", Target.RUNNING)
    story.obeys("training")
    lease = story.lease("training")
    assert (lease.status, lease.devices, lease.loans) == (Status.PARKED, ("h1-0",), ())
    assert story.status("a") == ["resuming"]
    story.passes(15)
    story.then(Submitted(session("late", "0.5")))
    assert story.lease("training").status in (Status.PARKED, Status.RESUMING)


def test_a_resume_waits_for_no_turn_under_guaranteed() -> None:
    """The minimum turn protects from everybody but the owner of the promise."""
    story = Story(
        books(
            parked(session("a"), "h1-0"),
            on_loan(job("training"), ("a", "h1-0", "0.5")).evolve(turn_began=1_000_000.0),
            running(session("rest"), "h1-0"),
            minimum_turn_s=600.0,
        )
    )
    story.wants("a", Target.RUNNING)
    assert story.status("training") == ["yielding"]
    assert story.lease("a").reason is Reason.WAITING_FOR_CALL_BACK
