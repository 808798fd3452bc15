"""Moving jobs inside their fair share, where a pool allows it (DESIGN 5, rule 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.rules.change import Verb
from jupyter_gpushare.rules.event import Submitted
from jupyter_gpushare.rules.lease import Status
from jupyter_gpushare.rules.reason import Reason
from tests.rules.builders import NOW, books, job, running, session
from tests.rules.story import Story

if TYPE_CHECKING:
    from jupyter_gpushare.rules.lease import Lease

LONG = 1_000.0


def _in_pieces(*leases: Lease, consolidation: bool = True, **changes: object) -> Story:
    """Half of each of two GPUs is free, and a notebook wants a whole one."""
    changes = {"quotas": {"a": "2", "b": "2"}, "per_host": 2, **changes}
    story = Story(books(*leases, consolidation=consolidation, **changes))  # type: ignore[arg-type]  # as `books` has it
    story.then(Submitted(session("n", "1", "a")))
    return story


def _moved(story: Story) -> list[str]:
    leases = (story.snapshot.leases[key] for key in story.snapshot.unsettled)
    return sorted(lease.id for lease in leases if lease.reason is Reason.MOVED)


def test_it_is_off_unless_the_pool_allows_it() -> None:
    """Without consolidation a claim waits in pieces, and no job inside its fair share notices."""
    story = _in_pieces(
        running(job("b1", "0.5", "b"), "h1-0"), running(job("b2", "0.5", "b"), "h1-1"), consolidation=False
    )
    assert (_moved(story), story.lease("n").reason) == ([], Reason.BLOCKED_BY_FRAGMENTATION)


def test_one_job_moves_and_goes_on_at_once() -> None:
    """The newer of two equal jobs saves itself and goes on beside the other, without any pause, as it lost no turn."""
    story = _in_pieces(running(job("b1", "0.5", "b"), "h1-0"), running(job("b2", "0.5", "b"), "h1-1"))
    assert (_moved(story), story.lease("n").reason) == (["b2"], Reason.WAITING_FOR_CALL_BACK)
    assert Verb.MOVED in story.verbs("b2")
    story.obeys("b2")
    assert (story.lease("n").devices, story.lease("b2").devices) == (("h1-1",), ("h1-0",))
    assert story.status("n", "b2") == ["granted", "granted"]
    assert story.lease("b2").turns_lost == 0


def test_the_smallest_move_is_made() -> None:
    """Fewest leases come before least capacity, and that before newest."""
    story = _in_pieces(
        running(job("b1", "0.25", "b"), "h1-0"),
        running(job("b2", "0.5", "b"), "h1-1"),
        running(job("b3", "0.1", "b"), "h1-2"),
        running(job("b4", "0.1", "b"), "h1-2"),
        running(session("s", "0.6", "a"), "h1-3"),
        per_host=4,
        quotas={"a": "2", "b": "2"},
    )
    assert _moved(story) == ["b1"]


def test_sessions_never_move() -> None:
    """A notebook stays where it is: its memory belongs there."""
    story = _in_pieces(running(session("s1", "0.5", "b"), "h1-0"), running(session("s2", "0.5", "b"), "h1-1"))
    assert (_moved(story), story.lease("n").reason) == ([], Reason.BLOCKED_BY_FRAGMENTATION)


def test_jobs_that_park_never_move() -> None:
    """A job that parks can go on only on its own device: it is no use to move it."""
    there = [running(job(f"b{n}", "0.5", "b", is_parkable=True), f"h1-{n}") for n in range(2)]
    assert _moved(_in_pieces(*there)) == []


def test_nobody_moves_within_its_minimum_turn() -> None:
    """A job that has just begun is left alone."""
    there = [running(job(f"b{n}", "0.5", "b"), f"h1-{n}", turn_began=NOW) for n in range(2)]
    assert _moved(_in_pieces(*there)) == []


def test_nobody_moves_without_a_place_to_go() -> None:
    """A job does not yield for a claim when it would have to wait itself."""
    story = _in_pieces(
        running(job("b1", "0.75", "b"), "h1-0"), running(job("b2", "0.5", "b"), "h1-1"), quotas={"a": "1", "b": "1.25"}
    )
    assert _moved(story) == []


def test_reclaiming_comes_before_moving() -> None:
    """Where a set of jobs above their fair share is enough, nobody inside its own is moved."""
    there = [
        running(job("b1", "0.5", "b"), "h1-0"),
        running(session("s", "0.5", "b"), "h1-1"),
        running(job("c", "1", "c"), "h1-2"),
        # What b deserves, and cannot have now, puts c above its fair share.
        job("b2", "1@h100", "b", reason=Reason.WAITING_FOR_DEVICE),
    ]
    story = _in_pieces(*there, per_host=3, quotas={"a": "1", "b": "2", "c": "0"})
    assert (_moved(story), story.lease("c").reason) == ([], Reason.RECLAIMED)


def test_the_moved_jobs_place_is_kept_for_it() -> None:
    """While it saves itself, and after, no other job is given the place that a moved job is to go on in."""
    there = [running(job("b1", "0.5", "b"), "h1-0"), running(job("b2", "0.5", "b"), "h1-1")]
    story = _in_pieces(*there)
    story.then(Submitted(job("late", "0.5", "b")))
    assert (story.status("late"), _moved(story)) == (["queued"], ["b2"])
    story.obeys("b2", "b2")
    assert (story.status("n", "b2", "late"), story.lease("b2").devices) == (["granted", "running", "queued"], ("h1-0",))


def test_a_claim_that_has_gone_stops_the_move() -> None:
    """A job that was to move and has not begun stays where it is when the claim ends."""
    there = [running(job(f"b{n}", "0.5", "b"), f"h1-{n}") for n in range(2)]
    story = _in_pieces(*there, host_changes={"saves": 0})
    assert _moved(story) == ["b1"]
    lease = story.lease("n")
    story.wants("n", type(lease.target).ENDED)
    assert (_moved(story), story.lease("b1").status) == ([], Status.RUNNING)
