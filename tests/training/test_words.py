"""What ``run`` says of its lease."""

from __future__ import annotations

import pytest

from jupyter_gpushare.broker.wire import GrantModel
from jupyter_gpushare.training.words import about, announcement, ordinal, state_line, waiting_line
from tests.training.fake_broker import lease_model, reason

WHY = reason("WAITING_FOR_DEVICE", "Waits for a GPU with 0.5 free.")


def test_the_waiting_line_has_place_estimate_and_reason() -> None:
    """The three things that somebody who waits wants to know, in one line."""
    line = waiting_line(lease_model(place=2, estimate_s=170.0, reason=WHY))
    assert line == "Waiting: 2nd in line, about 3 min (waits for a GPU with 0.5 free)"


def test_what_is_unknown_is_left_out() -> None:
    """No place, estimate or reason is made up."""
    assert waiting_line(lease_model()) == "Waiting"
    assert waiting_line(lease_model(reason=WHY)) == "Waiting (waits for a GPU with 0.5 free)"


def test_a_parked_job_hears_first_that_nothing_is_lost() -> None:
    """Reassurance comes before the place in line."""
    assert state_line(lease_model(status="parked", place=1)) == "Parked, nothing is lost. Waiting: 1st in line"


def test_a_loan_is_named_as_one() -> None:
    """Who runs on what a notebook lends knows that it will be called back."""
    grants = [GrantModel("GPU-0", "host", "0.5", 10**9, "0.5")]
    line = state_line(lease_model(status="running", grants=grants, lent="0.5"))
    assert line == "Running on 1.0 GB of GPU-0, lent by parked notebooks"


@pytest.mark.parametrize(
    "status", ["granted", "running", "parking", "resuming", "yielding", "missing", "ended", "failed"]
)
def test_every_state_has_its_line(status: str) -> None:
    """No state is without words, with a reason and without."""
    assert state_line(lease_model(status=status))
    if status in ("parking", "yielding", "ended", "failed"):
        assert WHY.text in state_line(lease_model(status=status, reason=WHY))


def test_the_announcement_names_the_loss() -> None:
    """Before it starts, its owner reads that the job is ended if it still runs after its grace."""
    assert "30 s" in announcement(30.0, parks=True)
    assert "is ended if it still runs" in announcement(None, parks=False)
    assert "parked" not in announcement(None, parks=False)


@pytest.mark.parametrize(("number", "word"), [(1, "1st"), (2, "2nd"), (3, "3rd"), (4, "4th"), (11, "11th"),
                                              (12, "12th"), (21, "21st"), (112, "112th")])  # fmt: skip
def test_ordinals(number: int, word: str) -> None:
    """Places read as people write them."""
    assert ordinal(number) == word


@pytest.mark.parametrize(("seconds", "text"), [(1, "about 5 s"), (22, "about 20 s"), (100, "about 2 min"),
                                               (5400, "about 90 min"), (9000, "about 2 h")])  # fmt: skip
def test_estimates_are_rounded(seconds: float, text: str) -> None:
    """An estimate does not pretend to know seconds."""
    assert about(seconds) == text
