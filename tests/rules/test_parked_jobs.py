"""Jobs that are parked: bound to the device that their memory belongs to, while everybody else can go anywhere."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_gpushare.rules.event import Attested, CouldNot, Returned, Submitted
from jupyter_gpushare.rules.lease import Target
from jupyter_gpushare.rules.reason import Reason
from tests.rules.builders import NOW, books, job, parked, project, running, session
from tests.rules.story import Story

_PARTS = {"team-a": "1", "team-b": "0"}


def too_large_for_now(*, lends_elsewhere: bool = True, **changes: Any) -> Story:
    """A job waits for more than is free on its device, which is the fullest with room; all else is lent or full."""
    waits = parked(job("waits", "0.75", "team-b"), "h1-0", is_parkable=True, **changes)
    elsewhere = session("elsewhere", "1")
    away = parked(elsewhere, "h1-1") if lends_elsewhere else running(elsewhere, "h1-1")
    lender = parked(session("lender"), "h1-0")
    parts = [project("team-a", "2"), project("team-b", "0", members=frozenset({"ada"}))]
    story = Story(books(lender, running(session("neighbour"), "h1-0"), waits, away, per_host=2, projects=parts))
    story.passes(1)
    return story


def half_full(*others: Any, **changes: Any) -> Story:
    """A job waits for more than is free on its device; the other device is empty."""
    waits = parked(job("waits", "0.75", "team-b"), "h1-0", is_parkable=True, **changes)
    parts = [project("team-a", "2"), project("team-b", "0", members=frozenset({"ada"}))]
    story = Story(books(running(session("neighbour"), "h1-0"), waits, *others, per_host=2, projects=parts))
    story.passes(1)
    return story


def test_a_job_above_its_quota_takes_no_device_that_a_parked_job_waits_for() -> None:
    """Else a job that was called back starves on its full device while others, which fit anywhere, run on."""
    story = too_large_for_now()
    assert story.lease("waits").reason is Reason.WAITING_FOR_SAME_DEVICE
    story.then(Submitted(job("newcomer", project="team-b", submitted=NOW)))
    assert story.lease("newcomer").devices == ("h1-1",)
    story.wants("neighbour", Target.ENDED)
    story.obeys("neighbour")
    assert story.status("waits") == ["resuming"]


def test_a_job_above_its_quota_steps_aside_without_a_loan_too() -> None:
    """What nobody is promised is as good for it on one device as on another."""
    story = half_full()
    story.then(Submitted(job("newcomer", project="team-b", submitted=NOW)))
    assert story.lease("newcomer").devices == ("h1-1",)
    assert not story.lease("newcomer").loans


def test_what_a_parked_job_waits_for_is_used_where_there_is_nothing_else() -> None:
    """A device does not stand idle for somebody who may not have it yet."""
    story = too_large_for_now(lends_elsewhere=False)
    story.then(Submitted(job("newcomer", project="team-b", submitted=NOW)))
    assert story.lease("newcomer").devices == ("h1-0",)


@pytest.mark.parametrize("make", [session, job])
def test_who_is_inside_its_quota_goes_to_the_fullest_device_though_a_parked_job_waits_there(make: Any) -> None:
    """Else it breaks into a whole GPU that its project is promised, and the next notebook waits for one."""
    story = half_full()
    assert story.lease("waits").reason is Reason.WAITING_FOR_SAME_DEVICE
    story.then(Submitted(make("small")))
    assert story.lease("small").devices == ("h1-0",)
    story.obeys("small")
    story.then(Submitted(session("whole", "1")))
    assert story.status("whole") == ["granted"]


@pytest.mark.parametrize("changes", [{"not_before": NOW + 900}, {"person": "left"}])
def test_nobody_steps_aside_for_one_that_would_not_come(changes: dict[str, Any]) -> None:
    """Who is in a pause, or is no member any more, has no use for its device now."""
    story = half_full(**changes)
    story.then(Submitted(job("newcomer", project="team-b", submitted=NOW)))
    assert story.lease("newcomer").devices == ("h1-0",)


def test_a_parked_job_that_says_it_is_on_its_device_waits_anew() -> None:
    """It gives way, and has no device to wait for any more; nobody else's claim may suffer for that."""
    waits = parked(job("waits", "1", "team-b"), "h1-0", is_parkable=True)
    story = Story(books(running(session("notebook", "1"), "h1-0"), waits, quotas=_PARTS))
    story.passes(1)
    assert story.lease("waits").reason is Reason.WAITING_FOR_SAME_DEVICE
    story.then(Returned(story.lease("waits"), 1, is_resident=True))
    assert story.lease("waits").reason is None
    story.obeys("waits")
    assert story.lease("waits").reason is Reason.WAITING_FOR_QUOTA
    story.then(Submitted(job("next", "1", "team-b")))
    assert story.status("waits", "next") == ["queued", "queued"]


@pytest.mark.parametrize("reason", Reason)
def test_no_word_of_a_holder_stops_the_rules(reason: Reason) -> None:
    """A job that could not start names a reason of its own choice, and takes longer than its pause to leave."""
    lender = parked(session("lender", "1"), "h1-0")
    story = Story(books(lender, projects=[project(name, quota) for name, quota in _PARTS.items()]))
    story.then(Submitted(job("liar", "1", "team-b")))
    story.then(CouldNot("liar", story.lease("liar").epoch, reason))
    story.wants("lender", Target.RUNNING)
    story.passes(600)
    story.then(Attested("liar", story.lease("liar").epoch))
    story.then(Submitted(job("next", "1", "team-b")))
    assert story.status("liar", "next") == ["queued", "queued"]


def test_one_that_lost_its_device_is_no_parked_job_whatever_its_reason() -> None:
    """A ledger may have kept a claim with the reason of a time when it was parked."""
    claim = job("claim", "1", "team-b", reason=Reason.WAITING_FOR_SAME_DEVICE, epoch=3)
    story = Story(books(running(session("notebook", "1"), "h1-0"), claim, quotas=_PARTS))
    story.passes(1)
    assert story.lease("claim").reason is Reason.WAITING_FOR_QUOTA


def test_one_for_whom_loans_are_too_short_is_told_so() -> None:
    """Its device is there, and lent to others: that it waits for its device would send people to look for the wrong thing."""
    slow = parked(job("slow", "1", start_cost_s=1e6), "h1-0", is_parkable=True)
    story = Story(books(parked(session("lender", "1"), "h1-0"), slow))
    story.passes(1)
    assert story.lease("slow").reason is Reason.LOAN_TOO_SHORT


def test_a_parked_job_inside_its_fair_share_waits_for_no_more_than_a_minimum_turn() -> None:
    """Its device is given back to it by jobs of those above theirs, however many of them come and go there."""
    waits = parked(job("waits", "1", "team-a"), "h1-0", is_parkable=True)
    others = [running(job(f"b{n}", "0.25", "team-b"), "h1-0", turn_began=NOW - n) for n in range(4)]
    story = Story(books(waits, *others, quotas=_PARTS))
    story.passes(1)
    assert story.lease("waits").reason is Reason.WAITING_FOR_MINIMUM_TURN
    story.wants("b3", Target.ENDED)
    story.obeys("b3")
    story.then(Submitted(job("next", "0.25", "team-b")))
    assert story.status("next") == ["queued"]
    story.passes(120)
    while asked := [key for key in story.snapshot.unsettled if story.status(key) == ["yielding"]]:
        story.obeys(*asked)
    assert story.status("waits", "next") == ["resuming", "queued"]


def test_jobs_above_their_fair_share_take_nothing_from_each_other() -> None:
    """Reclaiming is for claims inside theirs (DESIGN 5, rule 3): no work is lost for somebody with no better right."""
    waits = parked(job("waits", "1", "team-b"), "h1-0", is_parkable=True)
    there = running(job("there", "1", "team-b"), "h1-0")
    story = Story(books(waits, there, quotas={"team-b": "0"}))
    story.passes(10 * 120)
    assert story.status("waits", "there") == ["parked", "running"]
    assert story.lease("waits").reason is Reason.WAITING_FOR_SAME_DEVICE
    story.wants("there", Target.ENDED)
    story.obeys("there")
    assert story.status("waits") == ["resuming"]
