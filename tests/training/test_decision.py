"""What a supervisor does next, as a table."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_gpushare.broker.wire import GrantModel
from jupyter_gpushare.training.decision import Act, Job, leave, next_act
from tests.training.fake_broker import lease_model

NOW = 1000.0
GRANTS = [GrantModel("GPU-0", "host", "0.5", 1, "0")]
RUNNING: dict[str, Any] = {"place": "running", "epoch": 3, "devices": ("GPU-0",)}
OFFERS = RUNNING | {"offers": True, "can_park": True}
ASKED_TO_PARK = OFFERS | {"asked": "park", "asked_at": NOW}
ASKED_TO_STOP = OFFERS | {"asked": "stop", "asked_at": NOW}
PARKED = OFFERS | {"place": "parked", "asked": "park"}
STOPPING = RUNNING | {"place": "stopping", "kill_at": NOW + 5}
MINE = {"lease": "lease-1"}
LATE = RUNNING | {"place": "stopping", "kill_at": NOW - 1}

TABLE: list[tuple[str, dict[str, Any], dict[str, Any], Act]] = [
    # Nothing runs.
    ("a new grant starts it", {"status": "granted"}, {}, Act.START),
    ("a queued claim waits", {"status": "queued"}, {}, Act.WAIT),
    ("a lease that runs without a job starts one", {"status": "running"}, {}, Act.START),
    ("what never started is released", {"status": "yielding"}, {}, Act.SAY_RELEASED),
    ("a lease that is over is left", {"status": "ended"}, {}, Act.LEAVE),
    ("a refused one too", {"status": "failed"}, {}, Act.LEAVE),
    # It runs.
    ("all is well", {"status": "running"}, RUNNING, Act.WAIT),
    ("a grant that was not confirmed is", {"status": "granted"}, RUNNING, Act.SAY_RUNNING),
    ("a newer epoch is confirmed", {"status": "running", "epoch": 4}, RUNNING, Act.SAY_RUNNING),
    ("a grant of other devices stops it first", {"status": "granted", "epoch": 4}, RUNNING | {"devices": ("GPU-1",)},
     Act.STOP),
    ("without safe points it is stopped", {"status": "yielding"}, RUNNING, Act.STOP),
    ("without safe points it cannot be parked", {"status": "parking"}, RUNNING, Act.SAY_NOT_PARKED),
    ("with safe points it is asked to come to one", {"status": "parking"}, OFFERS, Act.ASK_TO_PARK),
    ("to stop, too", {"status": "yielding"}, OFFERS, Act.ASK_TO_STOP),
    ("a missing lease changes nothing", {"status": "missing"}, RUNNING, Act.WAIT),
    ("a lease that is over stops it", {"status": "ended"}, RUNNING, Act.STOP),
    # It was asked for a safe point.
    ("it gets time", {"status": "parking", "deadline": NOW + 10}, ASKED_TO_PARK, Act.WAIT),
    ("a deadline that comes near is answered", {"status": "parking", "deadline": NOW + 0.5}, ASKED_TO_PARK,
     Act.SAY_NOT_PARKED),
    ("there it is parked", {"status": "parking"}, ASKED_TO_PARK | {"is_reached": True}, Act.PARK),
    ("a call back that is withdrawn lets it go on", {"status": "running"}, ASKED_TO_PARK, Act.LET_GO_ON),
    ("who must stop instead is asked for that", {"status": "yielding", "deadline": NOW + 9}, ASKED_TO_PARK,
     Act.ASK_TO_STOP),
    ("half of the grace is kept for SIGTERM", {"status": "yielding", "deadline": NOW + 10}, ASKED_TO_STOP, Act.WAIT),
    ("and used when the first is over", {"status": "yielding", "deadline": NOW}, ASKED_TO_STOP, Act.STOP),
    ("there it is stopped at once", {"status": "yielding", "deadline": NOW + 10},
     ASKED_TO_STOP | {"is_reached": True}, Act.STOP),
    # It is parked.
    ("a park is told", {"status": "parking"}, PARKED, Act.SAY_RELEASED),
    ("a parked job waits", {"status": "parked"}, PARKED, Act.WAIT),
    ("a new epoch brings it back", {"status": "resuming", "epoch": 4}, PARKED, Act.RESUME),
    ("the epoch of its park does not", {"status": "resuming"}, PARKED, Act.WAIT),
    ("an older one does not", {"status": "resuming", "epoch": 2}, PARKED, Act.WAIT),
    ("a park that was withdrawn is undone", {"status": "running"}, PARKED, Act.RESUME),
    ("on other devices it starts anew", {"status": "granted", "epoch": 4}, PARKED | {"devices": ("GPU-1",)}, Act.KILL),
    ("it holds nothing to yield", {"status": "yielding"}, PARKED, Act.SAY_RELEASED),
    ("its owner ended it", {"status": "yielding", "target": "ended"}, PARKED, Act.KILL),
    ("nobody wants it", {"status": "failed"}, PARKED, Act.KILL),
    # It was told to end.
    ("it gets its grace", {"status": "yielding"}, STOPPING, Act.WAIT),
    ("and no more", {"status": "yielding"}, LATE, Act.KILL),
    ("whatever the broker wants meanwhile", {"status": "granted", "epoch": 4}, LATE, Act.KILL),
    ("a park is no way back", {"status": "parking"}, STOPPING, Act.WAIT),
    # The broker counted it as gone, and forgot its lease or made it another one.
    ("without a share it is stopped", {"status": "queued"}, RUNNING, Act.STOP),
    ("at a safe point where it offers one", {"status": "queued"}, OFFERS, Act.ASK_TO_STOP),
    ("for which it has its own grace", {"status": "queued"}, ASKED_TO_STOP, Act.WAIT),
    ("and no more", {"status": "queued"}, ASKED_TO_STOP | {"asked_at": NOW - 16}, Act.STOP),
    ("then it is ended", {"status": "queued"}, LATE, Act.KILL),
    ("what is parked uses no device, and waits", {"status": "queued"}, PARKED, Act.WAIT),
    ("another lease is no older one", {"status": "queued", "id": "another", "epoch": 0}, RUNNING | MINE, Act.STOP),
    ("one of the same devices is taken", {"status": "granted", "id": "another", "epoch": 1}, RUNNING | MINE,
     Act.SAY_RUNNING),
    ("one of other devices is not", {"status": "granted", "id": "another", "epoch": 1},
     RUNNING | MINE | {"devices": ("GPU-1",)}, Act.STOP),
    ("what is parked comes back with it", {"status": "granted", "id": "another", "epoch": 1}, PARKED | MINE,
     Act.RESUME),
    # An old message.
    ("what is older than the job starts nothing", {"status": "granted", "epoch": 2}, {"epoch": 3}, Act.WAIT),
    ("and stops nothing", {"status": "yielding", "epoch": 2}, RUNNING, Act.WAIT),
]  # fmt: skip


@pytest.mark.parametrize(("lease", "job", "act"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_the_next_act(lease: dict[str, Any], job: dict[str, Any], act: Act) -> None:
    """Each pair of a lease and a job has one answer, and asking again gives the same."""
    told = lease_model(**{"epoch": 3, "grants": GRANTS} | lease)
    assert next_act(told, Job(**job), NOW) is act
    assert next_act(told, Job(**job), NOW) is act


@pytest.mark.parametrize(
    ("job", "act"),
    [({}, Act.LEAVE), (RUNNING, Act.STOP), (STOPPING, Act.WAIT), (LATE, Act.KILL), (PARKED, Act.KILL)],
)
def test_an_owner_who_ends_the_job_needs_no_broker(job: dict[str, Any], act: Act) -> None:
    """The way out is the same without a lease: SIGTERM, the grace, the end."""
    assert leave(Job(**job), NOW) is act
