"""Another share, live: whole on the devices that it has, or refused with a reason."""

from __future__ import annotations

import pytest

from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.change import Verb
from jupyter_gpushare.rules.event import ShareChanged, Submitted, Vanished
from jupyter_gpushare.rules.lease import Lease, Target
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.share import Share
from tests.rules.builders import books, gpus, job, on_loan, parked, project, running, session
from tests.rules.story import Story


def asks(story: Story, key: str, share: str) -> Reason | None:
    """The lease *key* asks for *share*: why it does not get it, None if it does."""
    change = story.then(ShareChanged(key, Share.parse(share)))
    return next((line.reason for line in change.audit if line.verb is Verb.REFUSED), None)


@pytest.mark.parametrize(
    ("share", "others", "quota", "reason"),
    [
        ("0.8", (), "1", None),
        ("1", (), "1", None),
        ("0.25", (), "0.5", None),
        ("0.8", (), "0.6", Reason.EXCEEDS_PROJECT_QUOTA),
        ("0.8", (running(job("other", "0.4"), "h1-0"),), "2", Reason.WAITING_FOR_DEVICE),
        ("0.8", (parked(session("other", "0.4"), "h1-0"),), "2", Reason.WAITING_FOR_DEVICE),
        ("0.6", (parked(session("other", "0.4"), "h1-0"),), "2", None),
        ("2", (), "4", Reason.NO_SUCH_DEVICE),
        ("0.5@h100", (), "4", Reason.NO_SUCH_DEVICE),
        ("90GiB", (), "4", Reason.NO_SUCH_DEVICE),
        ("20GiB", (), "4", None),
    ],
)
def test_a_session_grows_into_what_nobody_is_promised(
    share: str, others: tuple[Lease, ...], quota: str, reason: Reason | None
) -> None:
    """Within its quota, on its own device, and never at anybody's cost."""
    story = Story(books(running(session("s", "0.5"), "h1-0"), *others, quotas={"team-a": quota}))
    assert asks(story, "s", share) is reason
    assert str(story.lease("s").share) == ("0.5" if reason else share)
    assert story.status("s") == ["running"]


def test_it_grows_beside_a_loan_that_stands_on_anothers_promise() -> None:
    """What is lent is promised to somebody, and no less free for that: the free quarter is still there."""
    lender = parked(session("lender", "0.5"), "h1-0")
    story = Story(books(lender, on_loan(job("j"), ("lender", "h1-0", "0.5")), running(session("s", "0.25"), "h1-0")))
    assert asks(story, "s", "0.5") is None
    assert story.status("j") == ["running"]


def test_what_it_gives_up_is_there_for_the_next() -> None:
    """At once."""
    story = Story(books(running(session("s", "1"), "h1-0")))
    story.then(Submitted(job("next", "0.5")))
    assert story.status("next") == ["queued"]
    assert asks(story, "s", "0.5") is None
    assert story.status("next") == ["granted"]


def test_limits_of_person_and_project_hold() -> None:
    """A live change is no way around them; loans count for a project's limit."""
    team = project("team-a", "4", limit="0.6", person_limit=gpus("0.5"))
    story = Story(books(running(session("s", "0.4"), "h1-0"), projects=[team], per_host=4))
    assert asks(story, "s", "0.55") is Reason.EXCEEDS_PERSON_LIMIT
    story = Story(books(running(job("j", "0.4"), "h1-0"), projects=[team], per_host=4))
    assert asks(story, "j", "0.7") is Reason.EXCEEDS_PROJECT_LIMIT
    assert asks(story, "j", "0.6") is None


def test_a_lender_that_shrinks_leaves_the_rest_to_its_borrower() -> None:
    """What is promised to nobody any more is the borrower's own; a loan is never larger than the promise."""
    there = [parked(session("s", "0.5"), "h1-0"), on_loan(job("j"), ("s", "h1-0", "0.5"))]
    story = Story(books(*there, running(session("rest", "0.4"), "h1-0")))
    assert asks(story, "s", "0.2") is None
    assert str(story.lease("j").lent) == "0.2"
    story.wants("s", Target.RUNNING)
    assert story.status("j") == ["yielding"]


def test_a_borrower_that_shrinks_gives_back_what_it_borrowed() -> None:
    """Its loans are never more than what it has."""
    story = Story(books(parked(session("s", "0.5"), "h1-0"), on_loan(job("j"), ("s", "h1-0", "0.5"))))
    assert asks(story, "j", "0.2") is None
    assert str(story.lease("j").lent) == "0.2"


def test_a_claim_that_waits_just_asks_for_something_else() -> None:
    """And may fit then."""
    story = Story(books(running(job("other", "0.6"), "h1-0")))
    story.then(Submitted(job("j", "0.5")))
    assert story.status("j") == ["queued"]
    assert asks(story, "j", "0.4") is None
    assert story.status("j") == ["granted"]


def test_who_is_missing_or_leaving_changes_nothing() -> None:
    """There is nobody to whom it would matter."""
    story = Story(books(running(session("s"), "h1-0")))
    story.then(Vanished("s"))
    story.then(ShareChanged("s", Share.parse("0.2")))
    assert not story.change


def test_what_is_parked_keeps_room_to_come_back_to() -> None:
    """A parked notebook's share never shrinks below its parked memory: it could not be brought back into that."""
    story = Story(books(parked(session("s", "0.5"), "h1-0", host_memory=Memory.parse("30GiB"))))
    assert asks(story, "s", "0.25") is Reason.PARKED_MEMORY_IS_LARGER
    assert str(story.lease("s").amount) == "0.5"
    assert asks(story, "s", "0.4") is None
    assert asks(story, "s", "0.5") is None


@pytest.mark.parametrize(
    ("share", "reason"),
    [("2x1", Reason.EXCEEDS_PROJECT_QUOTA), ("9", Reason.NO_SUCH_DEVICE), ("0.75", None), ("0.25", None)],
)
def test_a_claim_that_waits_changes_to_nothing_that_could_never_be(share: str, reason: Reason | None) -> None:
    """As when it was first asked for: over quota it is refused at once, and goes on waiting with what it had."""
    there = [running(session(f"s{n}", "1", "b"), f"h1-{n}") for n in range(2)]
    story = Story(books(*there, per_host=2, quotas={"a": "1", "b": "2"}))
    story.then(Submitted(session("claim", "0.5", "a")))
    assert asks(story, "claim", share) is reason
    assert story.status("claim") == ["queued"]
    assert str(story.lease("claim").share) == ("0.5" if reason else share)
