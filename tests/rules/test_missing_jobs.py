"""Jobs whose holders vanish in the middle of what they were asked to do."""

from __future__ import annotations

from typing import Any

from jupyter_gpushare.rules.event import Attested, Returned, Vanished, Wanted
from jupyter_gpushare.rules.lease import Target
from jupyter_gpushare.rules.reason import Reason
from tests.rules.builders import NOW, books, gpus, job, on_loan, parked, session
from tests.rules.story import Story


def called_back(**changes: Any) -> Story:
    """A job that can be parked, and was called back by the session whose share it had; its holder has vanished."""
    lender = parked(session("lender", "1"), "h1-0")
    borrower = job("borrower", "1", is_parkable=True, turn_began=NOW, **changes)
    story = Story(books(lender, on_loan(borrower, ("lender", "h1-0", "1"))))
    story.wants("lender", Target.RUNNING)
    assert story.status("borrower") == ["parking"]
    story.then(Vanished("borrower"))
    story.then(Attested("borrower", 1))
    return story


def test_a_job_that_vanished_while_it_parked_is_parked_and_not_lost() -> None:
    """A cut wire costs it neither its memory nor its place: it goes on where it was as soon as its holder is back."""
    story = called_back()
    assert story.status("borrower", "lender") == ["missing", "resuming"]
    assert story.snapshot.device_books["h1-0"].held == gpus("1")
    assert not story.lease("borrower").because_of
    story.obeys("lender")
    story.then(Returned(story.lease("borrower"), 1, is_resident=False))
    assert story.status("borrower") == ["parked"]
    assert story.lease("borrower").turns_lost == 1
    story.then(Wanted("lender", Target.PARKED))
    story.obeys("lender")
    story.passes(600)
    assert story.status("borrower") == ["resuming"]


def test_a_job_that_vanished_while_it_parked_ends_when_it_is_dead() -> None:
    """Its host memory is booked for as long as there may be something in it, and no longer."""
    story = called_back()
    assert story.lease("borrower").host_memory
    story.then(Vanished("borrower", is_dead=True))
    assert story.status("borrower") == ["ended"]
    assert "h1" not in story.snapshot.host_books or not story.snapshot.host_books["h1"].booked


def test_the_turns_that_a_job_may_lose_count_while_it_is_missing() -> None:
    """One that asked to be ended after so many calls is not kept parked for ever."""
    story = called_back(most_turns_lost=0)
    assert story.status("borrower") == ["ended"]
    assert story.lease("borrower").reason is Reason.HOLDER_GONE
