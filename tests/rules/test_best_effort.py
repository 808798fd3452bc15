"""A class: more is promised than there is, and idle sessions make room for those that compute (rule 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules.event import CouldNot, Idle, Submitted
from jupyter_gpushare.rules.lease import Status, Target
from jupyter_gpushare.rules.reason import Reason
from tests.rules.builders import NOW, books, parked, running, session
from tests.rules.story import Story

if TYPE_CHECKING:
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot


def classroom(*leases: Lease, **changes: Any) -> Snapshot:
    """One device, promised up to four times, to a project that may have it all."""
    values: dict[str, Any] = {
        "resume": "best-effort",
        "oversubscribe": Fraction.parse("4"),
        "quotas": {"team-a": "8"},
    } | changes
    return books(*leases, **values)


def test_the_longest_idle_makes_room_and_nobody_else() -> None:
    """Who computes goes on, and so does who is idle for a shorter time."""
    story = Story(
        classroom(
            running(session("computes", "0.3"), "h1-0"),
            running(session("short", "0.3"), "h1-0", idle_since=NOW - 10),
            running(session("long", "0.3"), "h1-0", idle_since=NOW - 100),
            parked(session("comes", "0.3"), "h1-0"),
        )
    )
    story.wants("comes", Target.RUNNING)
    assert story.status("computes", "short", "long") == ["running", "running", "parking"]
    assert (story.lease("long").reason, story.lease("long").because_of) == (Reason.TURN_IS_OVER, "comes")
    story.obeys("long")
    assert story.status("comes", "long") == ["resuming", "parked"]


def test_with_room_nobody_is_asked() -> None:
    """Free room is used first."""
    story = Story(classroom(running(session("idle"), "h1-0", idle_since=1.0), parked(session("comes"), "h1-0")))
    story.wants("comes", Target.RUNNING)
    assert story.status("idle", "comes") == ["running", "resuming"]


def test_a_turn_is_respected_and_its_end_is_waited_for() -> None:
    """Nobody is asked before its minimum turn is over; the books say when to look again."""
    story = Story(
        classroom(
            running(session("idle", "1"), "h1-0", idle_since=NOW - 1, turn_began=NOW),
            parked(session("comes", "1"), "h1-0"),
            minimum_turn_s=120.0,
        )
    )
    story.wants("comes", Target.RUNNING)
    assert story.status("idle") == ["running"]
    assert story.look_again == NOW + 120
    story.passes(120)
    assert story.status("idle") == ["parking"]


def test_first_come_first_served() -> None:
    """A smaller one that came later does not overtake on the same device."""
    story = Story(
        classroom(
            running(session("busy", "0.7"), "h1-0"),
            parked(session("first", "0.5"), "h1-0"),
            parked(session("second", "0.2"), "h1-0"),
        )
    )
    story.wants("first", Target.RUNNING)
    story.wants("second", Target.RUNNING)
    assert story.status("first", "second") == ["parked", "parked"]
    story.then(Idle("busy", story.now - 500))
    story.obeys("busy")
    assert story.status("first", "second") == ["resuming", "parked"]
    story.obeys("first")
    assert story.status("second") == ["resuming"]


def test_one_that_leaves_is_counted_once() -> None:
    """Two wait, one leaves: the second one's room has to come from somebody else."""
    idle = [running(session(f"idle-{n}", "0.5"), "h1-0", idle_since=NOW - 100 + n) for n in range(2)]
    wait = [parked(session(f"comes-{n}", "0.5"), "h1-0") for n in range(2)]
    story = Story(classroom(*idle, *wait))
    story.wants("comes-0", Target.RUNNING)
    assert story.status("idle-0", "idle-1") == ["parking", "running"]
    story.wants("comes-1", Target.RUNNING)
    assert story.status("idle-0", "idle-1") == ["parking", "parking"]


def test_a_new_session_gets_its_first_turn_like_a_resume() -> None:
    """It is admitted within quota and oversubscription, and an idle one makes room."""
    story = Story(classroom(running(session("idle", "1"), "h1-0", idle_since=NOW - 100)))
    story.then(Submitted(session("new", "1")))
    assert story.status("idle", "new") == ["parking", "queued"]
    story.obeys("idle")
    assert story.status("new") == ["granted"]


def test_one_that_cannot_park_is_left_alone_for_a_while() -> None:
    """It is asked again after a pause, not at once; another idle one is asked instead."""
    story = Story(
        classroom(
            running(session("cannot", "0.5"), "h1-0", idle_since=NOW - 200),
            running(session("can", "0.5"), "h1-0", idle_since=NOW - 100),
            parked(session("comes", "0.5"), "h1-0"),
        )
    )
    story.wants("comes", Target.RUNNING)
    assert story.status("cannot", "can") == ["parking", "running"]
    story.then(CouldNot("cannot", 1, Reason.NOT_PARKABLE))
    assert story.status("cannot", "can") == ["running", "parking"]


def test_without_host_memory_nobody_is_asked() -> None:
    """A park that would be refused is not begun, and the books come to rest."""
    story = Story(
        classroom(
            running(session("idle", "1"), "h1-0", idle_since=NOW - 100),
            parked(session("comes", "1"), "h1-0"),
            host_changes={"parking_budget": Memory.parse("1GiB")},
        )
    )
    story.wants("comes", Target.RUNNING)
    assert story.status("idle", "comes") == ["running", "parked"]
    assert story.lease("comes").reason is Reason.WAITING_FOR_DEVICE


def test_a_class_of_sixty_on_six_devices() -> None:
    """Half a GPU each, one in five active: all are admitted in turn, and each cell gets its device."""
    snapshot = classroom(
        hosts=2,
        per_host=3,
        quotas={"team-a": "30"},
        oversubscribe=Fraction.parse("5"),
        minimum_turn_s=0.0,
        host_changes={"copies": 4},
    )
    story = Story(snapshot)
    for number in range(60):
        key = f"student-{number}"
        story.then(Submitted(session(key, "0.5", person=key)))
        story.obeys(*[each.id for each in story.snapshot.leases.values() if each.status is Status.PARKING])
        assert story.status(key) == ["granted"]
        story.obeys(key)
        story.then(Idle(key, story.now))
    assert len(story.snapshot.leases) == 60
    waiting = {f"student-{number}" for number in range(0, 60, 5)}
    for key in sorted(waiting):
        story.wants(key, Target.RUNNING)
    for _ in range(20):
        story.obeys(*[each.id for each in story.snapshot.leases.values() if each.deadline is not None])
        done = {key for key in waiting if story.status(key) == ["running"]}
        for key in sorted(done):  # its cell has run
            story.then(Idle(key, story.now))
        waiting -= done
    assert not waiting
