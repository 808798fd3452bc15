"""What a lease cost and what became of it, told by the audit."""

from __future__ import annotations

import asyncio

import pytest

from jupyter_gpushare.hub.pages.history import stories_of
from jupyter_gpushare.rules.audit import entry
from jupyter_gpushare.rules.change import Verb
from jupyter_gpushare.rules.lease import Loan
from jupyter_gpushare.rules.reason import Reason
from tests.hub.pages.reading import shown_text
from tests.hub.pages.still import StillSite, page_of
from tests.hub.pages.worlds import NOW, drawing, gpus, job, lease

HOUR = 3600.0
NOTEBOOK = lease("n", "ana", "team-a", ("GPU-1-0", "0.5"))


def test_used_and_handed_back_hours_are_those_on_the_gpu_and_those_parked() -> None:
    """Half a GPU: an hour on it, four hours parked, two hours on it again."""
    lines = [
        entry(NOTEBOOK, Verb.SUBMITTED, 0, details={"share": "0.5"}),
        entry(NOTEBOOK, Verb.GRANTED, 60),
        entry(NOTEBOOK, Verb.STARTED, 90),
        entry(NOTEBOOK, Verb.PARKED, 60 + HOUR),
        entry(NOTEBOOK, Verb.WANTED_BACK, 60 + 4 * HOUR),
        entry(NOTEBOOK, Verb.RESUMING, 60 + 5 * HOUR),
        entry(NOTEBOOK, Verb.RESUMED, 65 + 5 * HOUR),
        entry(NOTEBOOK, Verb.ENDED, 60 + 6 * HOUR, details={"asked": "yes"}),
        entry(NOTEBOOK, Verb.ENDED, 60 + 7 * HOUR),
    ]
    [story] = stories_of(lines, NOW)
    assert (story.share, story.parks, story.began, story.ended) == ("0.5", 1, 0, 60 + 7 * HOUR)
    assert story.held == pytest.approx(1.5)
    assert story.handed_back == pytest.approx(2.0)
    assert not story.has_failed


def test_what_goes_on_is_counted_up_to_now() -> None:
    """A lease that runs costs more each minute."""
    [story] = stories_of([entry(NOTEBOOK, Verb.GRANTED, NOW - 2 * HOUR)], NOW)
    assert story.ended is None
    assert story.held == pytest.approx(1.0)


def test_what_is_lent_to_a_job_costs_it_nothing_and_waiting_neither() -> None:
    """Loans count for nobody, and a job that yielded has nothing."""
    borrower = job("j", "bo", "team-b", ("GPU-1-0", "1"), loans=(Loan("id-p", "GPU-1-0", gpus("0.75")),))
    lines = [
        entry(borrower, Verb.GRANTED, 0),
        entry(borrower, Verb.YIELDED, 4 * HOUR),
        entry(borrower, Verb.GRANTED, 8 * HOUR),
        entry(borrower, Verb.FAILED, 12 * HOUR, reason=Reason.TOO_MANY_RECLAIMS),
    ]
    [story] = stories_of(lines, NOW)
    assert story.held == pytest.approx(2.0)
    assert (story.has_failed, story.reason) == (True, "TOO_MANY_RECLAIMS")


def test_another_share_costs_another_amount_from_then_on() -> None:
    """A share that grows while it runs."""
    larger = NOTEBOOK.evolve(grants=lease("n", "ana", "team-a", ("GPU-1-0", "1")).grants)
    lines = [
        entry(NOTEBOOK, Verb.GRANTED, 0),
        entry(larger, Verb.SHARE_CHANGED, 2 * HOUR),
        entry(larger, Verb.ENDED, 3 * HOUR),
    ]
    assert stories_of(lines, NOW)[0].held == pytest.approx(2.0)


def test_a_clock_that_was_set_back_costs_nothing() -> None:
    """Nobody gets hours back for it."""
    lines = [entry(NOTEBOOK, Verb.GRANTED, 2 * HOUR), entry(NOTEBOOK, Verb.ENDED, HOUR)]
    assert stories_of(lines, NOW)[0].held == 0


def test_my_shares_shows_ones_own_costs_and_past_and_nobody_elses() -> None:
    """The newest first, with what each cost."""
    text = shown_text(asyncio.run(page_of("sessions", drawing().viewer("ana"), drawing())).fragments["past"])
    assert "1.5 h" in text
    assert "2.0 h" in text
    assert "1 time" in text


def test_a_claim_that_was_refused_is_in_the_past_with_its_reason() -> None:
    """It never had anything, and one wants to know why."""
    line = entry(NOTEBOOK.evolve(id="no"), Verb.REFUSED, NOW - 60, reason=Reason.EXCEEDS_PROJECT_QUOTA)
    site = StillSite(drawing().books, NOW, audit=[line])
    text = shown_text(asyncio.run(page_of("sessions", site.viewer("ana"), site)).fragments["past"])
    assert "exceeds project quota" in text
