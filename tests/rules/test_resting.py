"""Parked jobs that wait for their devices are left alone in most rounds, and miss nothing by it."""

from __future__ import annotations

from jupyter_gpushare.rules.event import PolicySet, Submitted
from jupyter_gpushare.rules.lease import Target
from jupyter_gpushare.rules.pool import Pool
from jupyter_gpushare.rules.queue_order import queue_of
from jupyter_gpushare.rules.reason import Reason
from tests.rules.builders import books, job, parked, project, running, session
from tests.rules.story import Story


def resting(*others: object, **world: object) -> Story:
    """A job of team-b is parked from ``h1-0``, which a notebook of team-a has, and has been told why it waits."""
    waits = parked(job("waits", "1", "team-b"), "h1-0", is_parkable=True)
    quotas = {"team-a": "1", "team-b": "0"}
    leases = others or (running(session("notebook", "1"), "h1-0"),)
    story = Story(books(*leases, waits, **{"quotas": quotas, **world}))  # type: ignore[arg-type]  # of `books`
    story.passes(1)
    assert story.lease("waits").reason is Reason.WAITING_FOR_SAME_DEVICE
    return story


def test_it_is_not_looked_at_in_every_round() -> None:
    """With a hundred parked jobs a decision must not take a hundred looks that find nothing."""
    story = resting()
    queue = queue_of(story.snapshot)
    assert not queue.awake
    assert [len(each.groups) for each in queue.resting.values()] == [1]
    story.passes(1000)
    assert not story.change


def test_it_goes_on_when_its_device_is_free() -> None:
    """Room on its device wakes it."""
    story = resting()
    story.wants("notebook", Target.ENDED)
    story.obeys("notebook")
    assert story.status("waits") == ["resuming"]


def test_it_goes_on_when_its_device_is_lent() -> None:
    """A notebook there that parks wakes it, too."""
    story = resting()
    story.wants("notebook", Target.PARKED)
    story.obeys("notebook")
    assert story.status("waits") == ["resuming"]
    assert [loan.lender for loan in story.lease("waits").loans] == ["notebook"]


def test_it_reclaims_when_it_comes_inside_its_fair_share() -> None:
    """Its project's part grows as somebody else goes, though nothing happens on its own device."""
    there = [running(job(f"a{n}", "1"), f"h1-{n}") for n in range(3)]
    there += [running(job(f"c{n}", "1", "team-c"), f"h1-{n}") for n in (3, 4)]
    more = [job(f"more{n}", "1") for n in range(3)]
    parts = [project("team-a", "0", weight="5"), project("team-b", "0", weight="2"), project("team-c", "2")]
    story = resting(*there, *more, per_host=5, quotas=None, projects=parts)
    for key in ("c3", "c4"):
        story.wants(key, Target.ENDED)
        story.obeys(key)
    assert story.lease("waits").reason is Reason.WAITING_FOR_CALL_BACK
    assert story.status("a0") == ["yielding"]


def test_it_is_told_when_the_policy_is_another() -> None:
    """Who is no member any more would otherwise wait for a device that it cannot have."""
    story = resting()
    left = project("team-b", "0", members=frozenset({"bo"}))
    story.then(PolicySet((project("team-a", "1"), left), (Pool("main"),)))
    assert story.lease("waits").reason is Reason.NOT_A_MEMBER
    story.then(PolicySet((project("team-a", "1"), project("team-b", "0")), (Pool("main"),)))
    assert story.lease("waits").reason is Reason.WAITING_FOR_SAME_DEVICE


def test_it_is_told_when_its_project_reaches_its_limit() -> None:
    """A limit is the reason from the moment on at which the project has all that it may."""
    parts = [project("team-a", "1"), project("team-b", "0", limit="1")]
    notebook = running(session("notebook", "1"), "h1-0")
    story = resting(notebook, per_host=2, quotas=None, projects=parts)
    story.then(Submitted(job("other", "1", "team-b")))
    assert story.status("other") == ["granted"]
    assert story.lease("waits").reason is Reason.EXCEEDS_PROJECT_LIMIT


def test_two_that_wait_for_one_device_come_one_after_the_other() -> None:
    """Claims that are alike rest and wake together, and keep their order."""
    twin = parked(job("second", "1", "team-b"), "h1-0", is_parkable=True)
    story = resting(running(session("notebook", "1"), "h1-0"), twin.evolve(submitted=1e9))
    story.wants("notebook", Target.ENDED)
    story.obeys("notebook")
    assert story.status("waits", "second") == ["resuming", "parked"]
