"""Room that was given for a restore, and is taken by somebody who came back alone: who was to restore waits again.

A holder restores only with proof of room, so one that is told to and finds none waits without a word.
"""

from __future__ import annotations

from typing import Any

from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.event import Attested, CouldNot, Inventory, Returned, Running, Vanished
from jupyter_gpushare.rules.lease import Lease, Status, Target
from jupyter_gpushare.rules.reason import Reason
from tests.rules.builders import books, device, gpus, job, on_loan, parked, session
from tests.rules.story import Story


def _class(*leases: Lease, **changes: Any) -> Story:
    """One device, promised up to four times."""
    values: dict[str, Any] = {"resume": "best-effort", "oversubscribe": Fraction.parse("4"), "quotas": {"team-a": "8"}}
    return Story(books(*leases, **values, **changes))


def _comes_back_alone(story: Story, key: str) -> None:
    """Its holder could not hear the broker, and resumed on its own proof of room."""
    lease = story.lease(key)
    story.then(Vanished(key))
    story.then(Returned(lease, lease.epoch, is_resident=True))


def test_in_a_class_it_waits_in_its_place_until_the_other_one_parks() -> None:
    """The device is marked, what was told before counts no more, and the one that waits has its turn next."""
    story = _class(parked(session("alone", "0.75"), "h1-0"), parked(session("told", "0.5"), "h1-0"))
    story.wants("told", Target.RUNNING)
    assert story.status("told") == ["resuming"]
    told = story.lease("told")
    _comes_back_alone(story, "alone")
    assert story.status("alone", "told") == ["running", "parking"]
    assert story.lease("told").epoch == told.epoch + 1
    story.then(Running("told", told.epoch))
    story.obeys("told")
    assert (story.status("told"), story.lease("told").reason) == (["parked"], Reason.WAITING_FOR_DEVICE)
    assert story.lease("told").wanted_since == told.wanted_since
    story.wants("alone", Target.PARKED)
    story.obeys("alone", "told")
    assert story.status("alone", "told") == ["parked", "running"]


def test_a_job_that_was_to_restore_on_its_loan_yields_it() -> None:
    """The lender is there already: its borrower, called back, need not restore only to leave again."""
    borrower = on_loan(
        job("borrower", "1", is_parkable=True), ("alone", "h1-0", "1"), status=Status.RESUMING, epoch=3, deadline=2e6
    )
    story = Story(books(parked(session("alone", "1"), "h1-0"), borrower))
    _comes_back_alone(story, "alone")
    assert (story.status("borrower"), story.lease("borrower").epoch) == (["parking"], 4)
    story.obeys("borrower")
    assert (story.status("alone", "borrower"), story.lease("borrower").loans) == (["running", "parked"], ())


def test_whoever_has_restored_all_the_same_stays() -> None:
    """It found room, as the other one uses less than its share: it says that it cannot leave now, and runs on."""
    story = _class(parked(session("alone", "0.75"), "h1-0"), parked(session("told", "0.5"), "h1-0"))
    story.wants("told", Target.RUNNING)
    _comes_back_alone(story, "alone")
    story.then(CouldNot("told", story.lease("told").epoch, Reason.NOT_PARKABLE))
    assert story.status("alone", "told") == ["running", "running"]


def test_it_goes_on_where_what_is_in_its_way_is_leaving() -> None:
    """A borrower that has been called leaves soon: who restores beside it need not wait in line anew."""
    lender, borrower = parked(session("alone", "0.5"), "h1-0"), on_loan(job("b", "0.5"), ("alone", "h1-0", "0.5"))
    told = parked(session("told", "0.5"), "h1-0", status=Status.RESUMING, target=Target.RUNNING, epoch=2, deadline=2e6)
    story = Story(books(lender, borrower, told))
    _comes_back_alone(story, "alone")
    assert story.status("alone", "b", "told") == ["running", "yielding", "resuming"]
    story.then(Attested("b", story.lease("b").epoch))
    story.obeys("told")
    assert story.status("told") == ["running"]


def test_memory_of_strangers_sends_nobody_away() -> None:
    """It may be gone in a moment; the holder waits for it, or restores with the proof of room that it has."""
    story = Story(books(parked(session("told", "0.5"), "h1-0")))
    story.wants("told", Target.RUNNING)
    story.then(Inventory("h1", (device("h1-0", foreign=gpus("0.75")),)))
    assert story.status("told") == ["resuming"]
