"""A session inside its project's quota reclaims what is above other projects' quotas, if nothing else helps (rule 3).

In most stories half of each of two GPUs is used by training of team b, which has no quota and is inside its fair share:
team a deserves one GPU of the two, and b gets the other. A notebook of a wants a whole one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_gpushare.rules.event import Submitted
from jupyter_gpushare.rules.lease import Lease, Status
from jupyter_gpushare.rules.reason import Reason
from tests.rules.builders import NOW, books, job, running, session
from tests.rules.story import Story

if TYPE_CHECKING:
    from collections.abc import Callable

LONG = 1_000.0


def _in_pieces(make: Callable[..., Lease] = session, **changes: Any) -> Story:
    """The claim ``n`` has come."""
    there = [running(job("b0", "0.5", "b"), "h1-0"), running(job("b1", "0.5", "b"), "h1-1", **changes.pop("b1", {}))]
    values: dict[str, Any] = {"per_host": 2, "quotas": {"a": "1", "b": "0"}, **changes}
    return _submitted(Story(books(*there, **values)), make("n", "1", "a"))


def _submitted(story: Story, *claims: Lease) -> Story:
    story.then(*(Submitted(claim) for claim in claims))
    return story


def _called(story: Story) -> dict[str, str]:
    """Who is on its way out, and for whom."""
    leases = (story.snapshot.leases[key] for key in story.snapshot.unsettled)
    return {lease.id: lease.because_of for lease in leases if lease.status is Status.YIELDING or lease.is_called}


def test_a_session_inside_its_quota_does_not_wait_for_training_without_one() -> None:
    """The newer of two equal jobs yields; it goes on beside the other one, and is not called again."""
    story = _in_pieces()
    assert (_called(story), story.lease("n").reason) == ({"b1": "n"}, Reason.WAITING_FOR_CALL_BACK)
    story.obeys("b1", "n")
    assert (story.status("n"), story.lease("n").devices) == (["running"], ("h1-1",))
    story.passes(LONG)
    story.obeys("b1")
    assert (story.status("b0", "b1"), story.lease("b1").devices) == (["running", "running"], ("h1-0",))
    story.passes(LONG)
    assert (_called(story), story.lease("b1").turns_lost) == ({}, 1)


def test_a_job_waits_all_the_same() -> None:
    """A job's claim takes nothing from training inside its fair share, wherever it runs."""
    story = _in_pieces(job)
    assert (_called(story), story.lease("n").reason) == ({}, Reason.BLOCKED_BY_FRAGMENTATION)


def test_training_inside_its_quota_stays() -> None:
    """What a project deserves is not reclaimed, not even for a notebook."""
    story = _in_pieces(quotas={"a": "1", "b": "1"})
    assert (_called(story), story.lease("n").reason) == ({}, Reason.BLOCKED_BY_FRAGMENTATION)


def test_only_what_is_above_the_quota_goes() -> None:
    """Of two jobs, of which one is inside the quota, one may go, and the other one stays for a second notebook too."""
    story = _in_pieces(quotas={"a": "2", "b": "0.5"})
    assert _called(story) == {"b1": "n"}
    story.obeys("b1", "n")
    _submitted(story, session("second", "1", "a"))
    assert (_called(story), story.lease("second").reason) == ({}, Reason.WAITING_FOR_DEVICE)


def test_ones_own_training_above_the_quota_goes_too() -> None:
    """Within a project, notebooks go before training that uses what others leave."""
    own = [running(job(f"j{n}", "0.5", "a"), f"h1-{n}") for n in (0, 1)]
    story = _submitted(Story(books(*own, per_host=2, quotas={"a": "1"})), session("n", "1", "a"))
    assert _called(story) == {"j1": "n"}


def test_whoever_is_above_its_fair_share_goes_first() -> None:
    """A whole GPU of a project above its share is reclaimed, though half a one of b, inside its share, would do."""
    there = [
        running(job("b0", "0.5", "b"), "h1-0"),
        running(job("c0", "0.5", "c"), "h1-0"),
        running(job("c1", "1", "c"), "h1-1"),
        running(job("b1", "0.5", "b"), "h1-2"),
    ]
    story = Story(books(*there, per_host=3, quotas={"a": "1", "b": "0", "c": "0"}))
    assert _called(_submitted(story, session("n", "1", "a"))) == {"c1": "n"}


def test_a_minimum_turn_of_those_above_is_waited_for_before_anybody_else_goes() -> None:
    """While it is only their minimum turn that keeps those above their share, nobody inside its share yields."""
    there = [running(job("c", "1", "c"), "h1-0", turn_began=NOW), running(job("b", "0.5", "b"), "h1-1")]
    story = _submitted(Story(books(*there, per_host=2, quotas={"a": "1", "b": "0", "c": "0"})), session("n", "1", "a"))
    assert (_called(story), story.lease("n").reason) == ({}, Reason.WAITING_FOR_MINIMUM_TURN)
    story.passes(120)
    assert _called(story) == {"c": "n"}


def test_its_minimum_turn_is_left_to_training_inside_its_fair_share_too() -> None:
    """One that has just got its GPU back is not reclaimed at once; until then nobody slips into the other half."""
    story = _in_pieces(b1={"turn_began": NOW}, quotas={"a": "1", "b": "0"})
    assert _called(story) == {"b0": "n"}
    both = [running(job(f"b{n}", "0.5", "b"), f"h1-{n}", turn_began=NOW) for n in (0, 1)]
    story = _submitted(
        Story(books(*both, per_host=2, quotas={"a": "1", "b": "0"})), session("n", "1", "a"), job("late", "0.5", "b")
    )
    assert (_called(story), story.lease("n").reason) == ({}, Reason.WAITING_FOR_MINIMUM_TURN)
    assert story.look_again == NOW + 120
    story.passes(120)
    assert (_called(story), story.status("n")) == ({"b1": "n"}, ["queued"])


def test_a_job_that_can_be_moved_is_not_reclaimed() -> None:
    """With consolidation it saves itself and goes on at once: it loses no turn."""
    story = _in_pieces(consolidation=True)
    assert (_called(story), story.lease("b1").reason) == ({"b1": "n"}, Reason.MOVED)


def test_nobody_waits_for_one_above_its_share_that_ignores_its_call() -> None:
    """I5: where that one's time is over, training inside its share is reclaimed instead."""
    there = [running(job("c", "1", "c"), "h1-0"), running(job("b", "0.5", "b"), "h1-1")]
    story = Story(books(*there, per_host=2, quotas={"a": "1", "b": "0", "c": "0"}))
    _submitted(story, session("n", "1", "a"))
    assert _called(story) == {"c": "n"}
    deadline = story.lease("c").deadline
    assert deadline is not None
    story.passes(deadline - story.now)
    assert _called(story) == {"c": "n", "b": "n"}
    story.obeys("b")
    assert (story.status("n"), story.lease("n").devices) == (["granted"], ("h1-1",))


def test_notebooks_that_come_one_after_the_other_do_not_drive_a_job_around() -> None:
    """A job that was reclaimed and is back has its turn like everybody: the next notebook waits for the end of it."""
    story = _in_pieces(per_host=3, quotas={"a": "3", "b": "0"})
    assert (_called(story), story.lease("n").devices) == ({}, ("h1-2",))
    story.obeys("n")
    _submitted(story, session("second", "1", "a"))
    assert _called(story) == {"b1": "second"}
    story.obeys("b1", "second", "b1")
    assert (story.status("b1"), story.lease("b1").devices) == (["running"], ("h1-0",))
    _submitted(story, session("third", "1", "a"))
    assert (_called(story), story.lease("third").reason) == ({}, Reason.WAITING_FOR_MINIMUM_TURN)
    story.passes(120)
    assert _called(story) == {"b0": "third", "b1": "third"}
    assert [story.lease(key).turns_lost for key in ("b0", "b1")] == [0, 1]
