"""What people read of parking: true sentences for every state, what was handed back, notices, and the culling."""

from __future__ import annotations

import logging
import time
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_gpushare.parking.speed import Speed
from jupyter_gpushare.parking.verdict import NotParkable, Parkable
from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.session.idle.policy import BusyButQuiet, Idle
from jupyter_gpushare.session.notices import Notices
from jupyter_gpushare.session.parking.culling import Culling
from jupyter_gpushare.session.parking.record import Parking
from jupyter_gpushare.session.parking.tally import HandedBack
from jupyter_gpushare.session.parking.view import KernelParking, just_resumed, most_pressing, when_nothing_runs
from jupyter_gpushare.session.wire import PolicyModel

GB = 10**9
NOW = 1_700_000_000.0
REFUSED = NotParkable(Message("MIG_DEVICE", "its GPU is a MIG instance."), Message("R", "End the kernel."))


def view(**changes: Any) -> KernelParking:
    """One kernel's parking, idle and parkable unless *changes* say otherwise; some of them are the record's."""
    record = Parking("K", since=NOW - 60)
    for name in [name for name in changes if hasattr(record, name)]:
        setattr(record, name, changes.pop(name))
    values: dict[str, Any] = {
        "verdict": Parkable(6 * GB, 1.75, 1.1),
        "judgement": None,
        "ends_at": None,
        "kept_until": None,
        "held": 0,
        "moved": None,
        "policy": PolicyModel(600.0, "configuration"),
        "speed": Speed(),
        "now": NOW,
    }
    return KernelParking(record=record, **(values | changes))


@pytest.mark.parametrize(
    ("changes", "code", "text"),
    [
        ({}, "PARKABLE", "6.0 GB can be parked in about 1.8 s. Nothing is lost."),
        (
            {"judgement": Idle(NOW - 360, NOW + 250, NOW - 50), "ends_at": NOW + 250},
            "COUNTING_DOWN",
            "Idle for 6 min. Your GPU is handed back in 4:10. Nothing is lost: it comes back with your next cell.",
        ),
        (
            {"status": "asked"},
            "ASKED",
            "6.0 GB move to host memory as soon as the cell has ended. Nothing is lost.",
        ),
        ({"status": "parking"}, "PARKING", "Parking your GPU memory. Nothing is lost."),
        ({"status": "parking", "memory": 7 * GB}, "PARKING", "Parking 7.0 GB. Nothing is lost."),
        (
            {"status": "parking", "memory": 7 * GB, "moved": 3 * GB},
            "PARKING",
            "Parking 3.0 GB of 7.0 GB. Nothing is lost.",
        ),
        (
            {"status": "waiting", "memory": 7 * GB, "why": "1.0 GB of 7.0 GB are free on its GPU"},
            "WAITING_FOR_ROOM",
            (
                "Waiting for room: 1.0 GB of 7.0 GB are free on its GPU. 7.0 GB stay safe in host memory; your cell "
                "waits, nothing to do."
            ),
        ),
        (
            {"status": "resuming", "memory": 7 * GB, "moved": GB},
            "RESUMING",
            "Resuming 1.0 GB of 7.0 GB. Your cell runs next.",
        ),
        (
            {"resumed_at": NOW - 2, "resumed_s": 12.4},
            "RESUMED",
            "Resumed in 12 s; every variable is as it was.",
        ),
        ({"verdict": REFUSED}, "CANNOT_PARK", "Cannot park: its GPU is a MIG instance. End the kernel."),
        (
            {"judgement": BusyButQuiet(NOW - 1800)},
            "BUSY_BUT_QUIET",
            "A cell is running, but the GPU has been quiet for 30 min. It stays yours; end the cell to release it.",
        ),
    ],
)
def test_every_state_has_a_true_sentence(changes: dict[str, Any], code: str, text: str) -> None:
    """The words say how it is, how much, and that nothing is lost."""
    message = view(**changes).message()
    assert (message.code, message.text) == (code, text)


def test_what_is_parked_says_what_a_cell_will_cost() -> None:
    """Since when, how much, and about how long the way back takes."""
    model = view(status="parked", memory=7 * GB, verdict=None).model()
    assert model.message.text.startswith("7.0 GB safe in host memory since ")
    assert model.message.text.endswith("Run any cell and it returns (about 1.2 s).")
    assert model.message.values["since_epoch"] == f"{NOW - 60:.0f}"


def test_a_refusal_is_shown_before_anything_is_pressed() -> None:
    """Reason and remedy travel apart, so that front ends can set them apart; a parked kernel shows neither."""
    model = view(verdict=REFUSED).model()
    assert (model.refusal and model.refusal.code, model.remedy and model.remedy.text) == (
        "MIG_DEVICE",
        "End the kernel.",
    )
    assert view(verdict=REFUSED, status="parked", memory=GB).model().refusal is None


def test_a_failed_attempt_is_told_until_somebody_has_looked_again() -> None:
    """What failed once is no reason any more when a look that began later finds nothing against it."""
    assert view(refusal=REFUSED, refused_at=NOW, looked_at=NOW - 1).message().code == "CANNOT_PARK"
    assert view(refusal=REFUSED, refused_at=NOW, looked_at=NOW + 1).message().code == "PARKABLE"
    assert view(refusal=REFUSED, refused_at=NOW, looked_at=NOW + 1, verdict=REFUSED).message().code == "CANNOT_PARK"


def test_the_most_pressing_comes_first() -> None:
    """Of several kernels the state tells of the one that somebody waits for."""
    several = [view(status="parking"), view(status="waiting", memory=GB, why="full"), view(status="parked", memory=GB)]
    message = most_pressing(several)
    assert message is not None
    assert message.code == "WAITING_FOR_ROOM"
    assert most_pressing([view(), view(status="parked", memory=GB)]) is None


def test_the_session_is_parked_only_when_it_holds_nothing() -> None:
    """While one kernel still holds a GPU the session has not handed its share back, and must not say so."""
    parked = [view(status="parked", memory=GB), view(status="parked", memory=2 * GB)]
    message = when_nothing_runs(parked, held=0)
    assert message is not None
    assert (message.code, message.values["memory"]) == ("PARKED", "3.0 GB")
    assert when_nothing_runs(parked, held=GB) is None
    assert when_nothing_runs(parked, held=None) is None
    assert just_resumed(parked) is None


def test_what_was_handed_back_adds_up() -> None:
    """Intervals are cut at the chart's beginning and at midnight; the one that goes on ends now."""
    clock = [NOW]
    handed = HandedBack(clock=lambda: clock[0])
    for at, is_back in ((0, True), (10, True), (30, False), (50, True)):
        clock[0] = NOW + at
        handed.look(is_so=is_back)
    clock[0] = NOW + 60
    assert handed.intervals(3600) == [[NOW, NOW + 30], [NOW + 50, NOW + 60]]
    assert handed.intervals(40) == [[NOW + 20, NOW + 30], [NOW + 50, NOW + 60]]
    assert handed.today_s() == 40


def test_notices_are_told_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Good news gets old; a loss is told until tomorrow, to a browser that opens later."""
    notices = Notices()
    notices.add("info", Message("RESUMED", "back"))
    notices.add("loss", Message("GPU_STATE_LOST", "gone"))
    assert [notice.kind for notice in notices.models()] == ["info", "loss"]
    later = time.time() + 3600
    monkeypatch.setattr(time, "time", lambda: later)
    assert [notice.kind for notice in notices.models()] == ["loss"]


async def test_parked_kernels_are_not_culled() -> None:
    """The server's own culling passes parked kernels by, and goes on to end others."""
    culled: list[str] = []

    async def cull(kernel_id: str) -> None:
        culled.append(kernel_id)

    manager = SimpleNamespace(cull_kernel_if_idle=cull, cull_idle_timeout=60)
    culling = Culling(manager, {}, is_parked=lambda each: each == "P", hold_s=60, log=logging.getLogger("test"))
    culling.install()
    for kernel_id in ("P", "R", "P"):
        await manager.cull_kernel_if_idle(kernel_id)
    assert culled == ["R"]


def test_a_parked_kernel_keeps_the_server_for_a_while() -> None:
    """A hub sees activity as long as the hold lasts, and no longer."""
    settings: dict[str, Any] = {}
    culling = Culling(SimpleNamespace(), settings, is_parked=lambda _: True, hold_s=60, log=logging.getLogger("test"))
    culling.look([time.time() - 3600])
    assert settings == {}
    culling.look([time.time() - 5])
    assert list(settings["last_activity_times"]) == ["jupyter_gpushare_parked"]
