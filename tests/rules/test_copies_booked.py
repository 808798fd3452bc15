"""What is booked for a parked copy is what there is to copy, as far as the devices show it."""

from __future__ import annotations

from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.event import OverUse, Parkable, Reclaimed, Using, Wanted
from jupyter_gpushare.rules.lease import Target
from jupyter_gpushare.rules.reason import Reason
from tests.rules.builders import NOW, books, gpus, job, on_loan, parked, running, session
from tests.rules.story import Story

GIB = Memory.parse("1GiB")


def test_an_idle_session_makes_room_with_what_it_holds() -> None:
    """A class whose notebooks are small takes turns on a host that could not hold all of their shares."""
    leases = [
        running(session("idle", "1"), "h1-0", idle_since=NOW - 100),
        parked(session("comes", "1"), "h1-0", host_memory=GIB * 4),
    ]
    host = {"parking_budget": GIB * 16}
    story = Story(
        books(*leases, quotas={"team-a": "2"}, resume="best-effort", oversubscribe=gpus("2"), host_changes=host)
    )
    story.then(Using("idle", GIB * 8))
    story.wants("comes", Target.RUNNING)
    assert story.status("idle") == ["parking"]
    assert story.lease("idle").host_memory == GIB * 8


def test_a_job_that_is_called_back_books_what_it_holds() -> None:
    """Its whole share would not fit the budget, and it need not save and start again for that."""
    leases = [
        parked(session("lender", "1"), "h1-0", host_memory=GIB),
        on_loan(job("training", "1", is_parkable=True), ("lender", "h1-0", "1")),
    ]
    for told, way in (((Using("training", GIB * 8),), "parking"), ((), "yielding")):
        story = Story(books(*leases, host_changes={"parking_budget": GIB * 16}))
        story.then(*told)
        story.wants("lender", Target.RUNNING)
        assert story.status("training") == [way]
        assert story.lease("training").host_memory == (GIB * 8 if told else Memory.ZERO)


def test_what_a_holder_says_itself_comes_first() -> None:
    """It asks to be parked with a copy of a size that it has just measured."""
    story = Story(books(running(session("s", "1"), "h1-0")))
    story.then(Using("s", GIB * 8))
    story.then(Wanted("s", Target.PARKED, memory=GIB * 2))
    assert story.lease("s").host_memory == GIB * 2


def test_more_than_its_share_is_booked_for_who_has_more() -> None:
    """A session that is parked for its overuse has all of that to be copied, though never more than its device has."""
    for held, booked in ((48, 48), (800, 80)):
        story = Story(books(running(session("s", "0.5"), "h1-0")))
        story.then(Using("s", GIB * held))
        story.then(OverUse("s"))
        assert story.lease("s").host_memory == GIB * booked


def test_what_comes_or_leaves_is_not_measured() -> None:
    """Half a copy is no size: only of one that runs it is remembered."""
    story = Story(books(running(session("s", "1"), "h1-0")))
    story.wants("s", Target.PARKED)
    story.then(Using("s", GIB))
    assert story.lease("s").uses is None


def test_a_program_that_starts_anew_is_not_known_by_the_one_before() -> None:
    """A job that was small when it was stopped may be large this time: all of its share is booked until it shows."""
    story = Story(books(running(job("j", "1", is_parkable=True), "h1-0")))
    story.then(Using("j", GIB))
    story.then(Parkable("j", is_parkable=False))
    story.then(Reclaimed("j", by="root"))
    assert story.status("j") == ["yielding"]
    story.obeys("j")
    story.passes(10_000)
    assert story.status("j") == ["granted"]
    assert story.lease("j").uses is None
    story.obeys("j")
    story.then(Parkable("j", is_parkable=True))
    story.then(Reclaimed("j", by="root"))
    assert story.status("j") == ["parking"]
    assert story.lease("j").host_memory == GIB * 80


def test_a_session_that_came_after_a_job_parked_runs_on_until_there_is_memory() -> None:
    """Host memory is not kept free for whoever might come: to find none costs a notebook nothing."""
    pausing = parked(job("pausing", "1"), "h1-0", is_parkable=True, host_memory=GIB * 8, not_before=NOW + 60)
    late = running(session("late", "1"), "h1-1")
    story = Story(books(pausing, late, per_host=2, host_changes={"parking_budget": GIB * 16}))
    story.then(Wanted("late", Target.PARKED, memory=GIB * 12))
    assert story.status("late") == ["running"]
    assert story.lease("late").reason is Reason.NO_HOST_MEMORY
    story.passes(60)
    story.obeys("pausing")
    story.then(Wanted("late", Target.PARKED, memory=GIB * 12))
    assert story.status("pausing", "late") == ["running", "parking"]
