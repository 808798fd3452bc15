"""Memory above the request: lent from what nobody is promised, called back whenever it is needed (rule 6, I7)."""

from __future__ import annotations

import pytest

from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules.change import Verb
from jupyter_gpushare.rules.event import Inventory, ParkingSwitched, Submitted, Wanted
from jupyter_gpushare.rules.lease import Target
from tests.rules.builders import books, device, gpus, job, on_loan, parked, running, session
from tests.rules.story import Story


def bursts(story: Story, key: str) -> str:
    """How much above its request a lease may use now."""
    return str(Fraction.total(burst.amount for burst in story.lease(key).bursts))


def test_a_burst_fills_what_is_free_up_to_the_limit() -> None:
    """Up to its limit, and up to what others leave: first come, first served."""
    story = Story(books())
    story.then(Submitted(session("a", "0.2..0.6")))
    story.obeys("a")
    assert bursts(story, "a") == "0.4"
    assert story.verbs("a")[-1] is Verb.BURST_GRANTED
    story.then(Submitted(session("b", "0.2..1")))
    story.obeys("b")
    assert (bursts(story, "a"), bursts(story, "b")) == ("0.4", "0.2")


def test_a_claim_takes_the_room_and_the_burst_is_called_back() -> None:
    """Newest first, and no more than is needed."""
    story = Story(
        books(
            running(session("old", "0.1..0.5"), "h1-0", turn_began=1.0),
            running(session("new", "0.1..0.5"), "h1-0", turn_began=2.0),
        )
    )
    story.then(Submitted(session("claim", "0.1")))
    assert (bursts(story, "old"), bursts(story, "new")) == ("0.4", "0.3")
    story.then(Submitted(session("second", "0.4")))
    assert (bursts(story, "old"), bursts(story, "new")) == ("0.3", "0")
    assert Verb.BURST_CALLED_BACK in story.verbs("new")


def test_promises_of_parked_sessions_are_no_room_for_bursts() -> None:
    """Under ``guaranteed`` a resume must find its memory at once; in a class whoever computes may use it meanwhile."""
    leases = [running(session("a", "0.2..1"), "h1-0"), parked(session("s", "0.5"), "h1-0")]
    for resume, expected in (("guaranteed", "0.3"), ("best-effort", "0.8")):
        story = Story(books(*leases, resume=resume))
        story.then(Inventory("h1", (device("h1-0", usable=Memory.parse("79GiB")),)))
        assert bursts(story, "a") == expected
    story.wants("s", Target.RUNNING)
    assert bursts(story, "a") == "0.3"


@pytest.mark.parametrize(
    ("lease", "pool"),
    [
        (session("a", "0.2..1", is_parkable=False), {}),
        (job("a", "0.2..1"), {}),
        (session("a", "0.2..1"), {"parking": "observe"}),
        (session("a", "0.2..1"), {"parking": "off"}),
    ],
    ids=["a session that cannot be parked", "a job without safe points", "a pool that observes", "a pool without"],
)
def test_who_cannot_be_parked_gets_no_burst(lease: object, pool: dict[str, str]) -> None:
    """There would be no way to call it back."""
    story = Story(books(**pool))  # type: ignore[arg-type]  # keyword arguments of a pool
    story.then(Submitted(lease))  # type: ignore[arg-type]  # a lease
    story.obeys("a")
    assert story.status("a") == ["running"]
    assert bursts(story, "a") == "0"


def test_a_burst_is_given_only_where_parking_it_would_find_host_memory() -> None:
    """And what that takes is kept free from others' parks."""
    story = Story(books(per_host=2, host_changes={"parking_budget": Memory.parse("50GiB")}))
    story.then(Submitted(session("a", "0.5..0.6")))
    story.obeys("a")
    assert bursts(story, "a") == "0.1"
    story.then(Submitted(session("b", "0.25")))
    story.obeys("b")
    story.then(Wanted("b", Target.PARKED, memory=Memory.parse("5GiB")))
    assert story.status("b") == ["running"]
    story.then(Submitted(session("c", "0.5..1")))
    story.obeys("c")
    assert bursts(story, "c") == "0"


def test_with_parking_stopped_all_bursts_end() -> None:
    """What can be called back only by parking is called back while that is still possible."""
    story = Story(books())
    story.then(Submitted(session("a", "0.2..1")))
    story.obeys("a")
    assert bursts(story, "a") == "0.8"
    story.then(ParkingSwitched(is_stopped=True, by="root"))
    assert bursts(story, "a") == "0"


def test_who_leaves_the_device_leaves_its_burst() -> None:
    """Parked or yielding, it uses nothing above its request; and what it booked covered the burst."""
    story = Story(books())
    story.then(Submitted(session("a", "0.5..1")))
    story.obeys("a")
    story.wants("a", Target.PARKED)
    assert bursts(story, "a") == "0"
    assert story.lease("a").host_memory == Memory.parse("80GiB")


def test_a_job_on_loan_bursts_like_any_other() -> None:
    """Its burst stands on room of its own, not on the loan."""
    lender = parked(session("s", "0.5"), "h1-0")
    story = Story(books(lender, on_loan(job("j", "0.5..1", is_parkable=True), ("s", "h1-0", "0.5"))))
    story.then(Inventory("h1", (device("h1-0", foreign=gpus("0.2")),)))
    assert bursts(story, "j") == "0.3"
