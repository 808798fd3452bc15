"""Host memory is booked before anything is parked (invariant I6), and jobs leave sessions theirs."""

from __future__ import annotations

from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.event import Wanted
from jupyter_gpushare.rules.lease import Target
from jupyter_gpushare.rules.reason import Reason
from tests.rules.builders import books, job, on_loan, parked, running, session
from tests.rules.story import Story

GIB = Memory.parse("1GiB")


def budget(text: str) -> dict[str, object]:
    """A host with so much for parked state."""
    return {"parking_budget": Memory.parse(text)}


def test_a_park_that_does_not_fit_the_budget_is_refused() -> None:
    """The notebook goes on; one that is smaller is parked."""
    story = Story(
        books(running(session("large"), "h1-0"), running(session("small"), "h1-0"), host_changes=budget("10GiB"))
    )
    story.then(Wanted("large", Target.PARKED, memory=GIB * 11))
    assert story.status("large") == ["running"]
    assert story.lease("large").reason is Reason.NO_HOST_MEMORY
    story.then(Wanted("small", Target.PARKED, memory=GIB * 10))
    assert story.status("small") == ["parking"]


def test_it_is_booked_when_asked_and_not_when_done() -> None:
    """Two that are asked at once cannot both have the last of it."""
    story = Story(
        books(
            running(session("a"), "h1-0"),
            running(session("b"), "h1-0"),
            host_changes={**budget("10GiB"), "copies": 1},
        )
    )
    story.then(Wanted("a", Target.PARKED, memory=GIB * 6), Wanted("b", Target.PARKED, memory=GIB * 6))
    assert story.status("a", "b") == ["parking", "running"]
    assert story.lease("b").target is Target.RUNNING


def test_nobody_books_more_than_its_devices_have() -> None:
    """A holder that lies about its size takes no more than could be true."""
    story = Story(books(running(session("liar"), "h1-0")))
    story.then(Wanted("liar", Target.PARKED, memory=Memory((1 << 62) - 1)))
    assert story.lease("liar").host_memory == Memory.parse("80GiB")


def test_a_job_parks_only_where_every_session_could_still_park() -> None:
    """Otherwise it saves itself: jobs have another way out, sessions have none."""
    leases = [
        parked(session("lender", "0.5"), "h1-0", host_memory=GIB * 10),
        on_loan(job("training", "0.5", is_parkable=True), ("lender", "h1-0", "0.5")),
        running(session("other", "0.5"), "h1-0"),
    ]
    for size, way in (("90GiB", "parking"), ("89GiB", "yielding")):
        story = Story(books(*leases, host_changes=budget(size)))
        story.wants("lender", Target.RUNNING)
        assert story.status("training") == [way]


def test_a_wish_that_is_taken_back_frees_what_it_booked() -> None:
    """Wanted parked, still waiting for a copy, wanted back: nothing stays booked."""
    story = Story(books(running(session("a"), "h1-0"), running(session("b"), "h1-0"), host_changes={"copies": 1}))
    story.then(Wanted("a", Target.PARKED, memory=GIB), Wanted("b", Target.PARKED, memory=GIB))
    assert story.lease("b").reason is Reason.WAITING_FOR_COPIES
    assert story.snapshot.host_books["h1"].booked == GIB * 2
    story.wants("b", Target.RUNNING)
    assert story.snapshot.host_books["h1"].booked == GIB
    assert story.lease("b").reason is None
