"""Jobs that are parked: bound to the device that their memory belongs to, while everybody else can go anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.rules.event import Submitted
from jupyter_gpushare.rules.reason import Reason
from tests.rules.builders import NOW, books, job, parked, running, session
from tests.rules.story import Story

if TYPE_CHECKING:
    from jupyter_gpushare.rules.snapshot import Snapshot


def in_back_off(*, lends_elsewhere: bool) -> Snapshot:
    """A job is parked from a device with room for one, which is the fullest that fits; all else is lent or full."""
    pausing = parked(job("pausing", project="team-b"), "h1-0", is_parkable=True, not_before=NOW + 60)
    elsewhere = session("elsewhere", "1")
    return books(
        parked(session("lender"), "h1-0"),
        running(job("neighbour"), "h1-0"),
        pausing,
        parked(elsewhere, "h1-1") if lends_elsewhere else running(elsewhere, "h1-1"),
        per_host=2,
        quotas={"team-a": "2", "team-b": "0"},
    )


def test_a_newcomer_takes_no_device_that_a_parked_job_waits_for() -> None:
    """Else a job that was called back starves on its full device while others, which fit anywhere, run on."""
    story = Story(in_back_off(lends_elsewhere=True))
    story.then(Submitted(job("newcomer", project="team-b", submitted=NOW)))
    assert story.lease("newcomer").devices == ("h1-1",)
    story.passes(60)
    assert story.status("pausing") == ["resuming"]


def test_what_a_parked_job_waits_for_is_used_where_there_is_nothing_else() -> None:
    """A device does not stand idle for somebody who may not have it yet."""
    story = Story(in_back_off(lends_elsewhere=False))
    story.then(Submitted(job("newcomer", project="team-b", submitted=NOW)))
    assert story.lease("newcomer").devices == ("h1-0",)
    story.passes(60)
    assert story.lease("pausing").reason is Reason.WAITING_FOR_SAME_DEVICE


def test_one_for_whom_loans_are_too_short_is_told_so() -> None:
    """Its device is there, and lent to others: that it waits for its device would send people to look for the wrong thing."""
    slow = parked(job("slow", "1", start_cost_s=1e6), "h1-0", is_parkable=True)
    story = Story(books(parked(session("lender", "1"), "h1-0"), slow))
    story.passes(1)
    assert story.lease("slow").reason is Reason.LOAN_TOO_SHORT
