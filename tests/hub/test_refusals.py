"""How a refused start reads: why, what to do instead, and when it could work."""

from __future__ import annotations

import pytest

from jupyter_gpushare.broker.client import BrokerError
from jupyter_gpushare.hub.admission_words import refused
from jupyter_gpushare.rules.reason import Reason


@pytest.mark.parametrize(
    ("code", "when"),
    [
        (Reason.EXCEEDS_PROJECT_QUOTA, "somebody of team-a ends a server"),
        (Reason.EXCEEDS_PROJECT_LIMIT, "an admin has raised that"),
        (Reason.EXCEEDS_PERSON_LIMIT, "enough of yours have ended, or an owner of team-a has raised your limit"),
        (Reason.NO_SUCH_PROJECT, "an admin has added one of that name"),
        (Reason.NOT_A_MEMBER, "an owner of team-a has added you"),
        (Reason.NO_SUCH_DEVICE, "an admin has added a machine with such GPUs"),
        ("KEY_IN_USE", "that share has ended"),
    ],
)
def test_a_refusal_says_when_it_could_work(code: str, when: str) -> None:
    """Nobody tries again and again what only somebody else can change."""
    message = refused(BrokerError(str(code), "Why it is so"), "0.5", "team-a")
    assert message.code == code
    assert message.text.startswith("Why it is so. ")
    assert f"It can work as soon as {when}" in message.text


def test_a_refusal_that_is_new_to_the_hub() -> None:
    """A newer service's reason is passed on with what always helps."""
    message = refused(BrokerError("EXCEEDS_SOMETHING", "{why} is no field."), "0.5", "team-a")
    assert message.text == "{why} is no field. Take another share, or none: you can ask for one later from Lab."
