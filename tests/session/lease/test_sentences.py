"""What people read about their share, in every state of the drawings."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_gpushare.broker.client import BrokerError
from jupyter_gpushare.broker.pool_policy import PoolPolicy
from jupyter_gpushare.broker.wire import LentModel, MessageModel
from jupyter_gpushare.session.lease.view import Known, clause_of, view_of_lease
from tests.broker.client.scripted_broker import granted, lease_of, sentence

NOW = 1000.0
NO_ROOM = sentence("WAITING_FOR_DEVICE", "Waits for a GPU with 0.5 free.")

DRAINED = MessageModel(
    "WAITING_FOR_DEVICE",
    "Waits for a GPU with {share} free; an admin empties {drained} GPU that could hold it.",
    {"share": "0.5", "drained": "2"},
    "Waits for a GPU with 0.5 free; an admin empties 2 GPU that could hold it.",
)


def known(lease: Any = None, **changes: Any) -> Known:
    """A session that has joined its broker."""
    plain = {
        "lease": lease,
        "connected": True,
        "since": 900.0,
        "refusal": None,
        "wanted_back": None,
        "has_parked": False,
        "grace_s": 30.0,
        "project": "team-a",
    }
    return Known(**(plain | changes))


def test_what_a_pool_decides_is_said_with_its_name() -> None:
    """People see that an admin set it for their pool, and what."""
    policy = PoolPolicy("class", parking="off", isolation="mps", idle_timeout_s=90.0)
    view = view_of_lease(known(lease_of(**granted(status="running")), policy=policy), NOW)
    assert view.policy is not None
    assert view.policy.text == ("Set by pool class: no notebook is parked, idle timeout at most 1 min, isolation mps.")


def test_who_waits_without_a_broker_reads_for_what() -> None:
    """First for the broker, then for training that was asked to leave, then for room; and that nothing is lost."""
    away = {"lease": parked(), "connected": False, "has_parked": True}
    waits, asks = known(**away, since=NOW - 10), known(**away, is_asking=True)
    assert view_of_lease(waits, NOW).message.text.endswith("parked notebooks stay safe and can come back in 20 s.")
    assert view_of_lease(asks, NOW).message.code == "LEASE_ASKS_ALONE"
    assert clause_of(asks, NOW) == (
        "the share lost contact with the broker, and the training that uses your GPU is asked to leave"
    )
    assert view_of_lease(known(**away), NOW).message.text.endswith("stay safe and come back when the GPU has room.")


def parked(**changes: Any) -> Any:
    """A lease whose memory is on the host."""
    return lease_of(**(granted(status="parked", target="parked") | changes))


@pytest.mark.parametrize(
    ("lease", "text"),
    [
        (
            lease_of(place=2, estimate_s=180.0, reason=NO_ROOM),
            "Waiting: 2nd in line, about 3 min (no device has room).",
        ),
        (
            lease_of(reason=DRAINED),
            "Waiting (an admin empties 2 GPU that could hold it).",
        ),
        (lease_of(place=11, estimate_s=20.0), "Waiting: 11th in line, less than a minute."),
        (lease_of(reason=sentence("NEW_REASON", "Something new.")), "Waiting (Something new)."),
        (lease_of(**granted(status="running")), "team-a guarantees your share: ½ GPU guaranteed."),
        (lease_of(**granted(status="parking")), "Your share is being handed back. Nothing is lost."),
        (
            parked(),
            "Your share is handed back and kept for you. Nothing is lost: any cell brings it back.",
        ),
        (
            parked(lent_to=[LentModel("team-b", "llama", "0.5")]),
            "Your share is lent to training (llama of team-b). Nothing is lost: any cell calls it back.",
        ),
        (lease_of(**granted(status="resuming")), "Your share is yours again; your notebooks come back."),
        (
            lease_of(status="ended", reason=sentence("DEVICE_GONE", "Its GPU is gone.")),
            "Your share was ended: Its GPU is gone. Any cell that needs the GPU claims it anew.",
        ),
    ],
)
def test_each_state_has_its_sentence(lease: Any, text: str) -> None:
    """One sentence with true places and times, which reassures where nothing is lost."""
    assert view_of_lease(known(lease), NOW).message.text == text


def test_training_that_leaves_is_counted() -> None:
    """Whoever waits for training to leave sees how long that has, and who it is."""
    lease = parked(target="running", deadline=1022.0, lent_to=[LentModel("team-b", "llama", "0.5")])
    view = view_of_lease(known(lease, wanted_back=992.0), NOW)
    assert view.message.text == "Training is leaving (8 s of 30 s). Nothing is lost."
    assert (view.began, view.deadline, view.lent_to[0].name) == (992.0, 1022.0, "llama")
    assert clause_of(known(lease, wanted_back=992.0), NOW) == "Training is leaving (8 s of 30 s)"


def test_a_broker_that_is_away_changes_nothing_for_what_runs() -> None:
    """People read that nothing changes; those with parked notebooks, when these can come back."""
    lease = lease_of(**granted(status="running"))
    view = view_of_lease(known(lease, connected=False), NOW)
    assert (view.connection, view.since) == ("away", 900.0)
    assert view.message.text == "Share lost contact with the broker; nothing changes for you."
    assert not view.can_request
    away = known(parked(), connected=False, since=990.0, has_parked=True)
    text = "Share lost contact with the broker; parked notebooks stay safe and can come back in 20 s."
    assert view_of_lease(away, NOW).message.text == text
    assert clause_of(away, NOW) == "the share lost contact with the broker, and it looks for room by itself in 20 s"


def test_a_refused_claim_says_the_brokers_reason() -> None:
    """No share, and why, with the broker's own constant."""
    error = BrokerError("NO_SUCH_PROJECT", "There is no project x; ask for another one.")
    view = view_of_lease(known(refusal=error, connected=False), NOW)
    assert (view.connection, view.message.code) == ("refused", "NO_SUCH_PROJECT")
    assert view.message.text == "No share: There is no project x; ask for another one."


def test_the_place_in_line_is_only_told_while_it_is_true() -> None:
    """Without the broker nobody knows the place any more."""
    lease = lease_of(place=2, estimate_s=180.0, reason=NO_ROOM)
    assert view_of_lease(known(lease), NOW).place == 2
    assert view_of_lease(known(lease, connected=False), NOW).place is None
