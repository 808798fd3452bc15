"""The watch under refusals, in mode *observe*, through faults, and asleep while nothing is held."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.session.idle.policy import Idle
from jupyter_gpushare.session.requests import PolicyRequest
from tests.session.idle.conftest import GIB, sample_of, use_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.session.idle.conftest import Watched

A, B = use_of("a"), use_of("b")
REFUSED = Message("BACKGROUND_WORK", "A thread of yours is running.")


async def test_a_refused_park_is_not_tried_at_every_look(one: Watched) -> None:
    """It is tried again after five minutes and a new warning, and no countdown promises what will not come."""
    one.parking.answer = REFUSED
    await one.go(615, A)
    assert one.parking.asked == ["a"]
    assert isinstance(one.watch.judgement("a"), Idle)
    assert one.watch.parks_at("a") is None
    await one.go(285, A)
    assert one.watch.parks_at("a") is None
    await one.go(290, A)
    assert one.watch.parks_at("a") is not None
    assert one.parking.asked == ["a"]
    await one.go(30, A)
    assert one.parking.asked == ["a", "a"]
    assert one.observer.report().refused == {"BACKGROUND_WORK": 2}


@pytest.mark.parametrize("change", ["policy", "memory", "told"])
async def test_a_refused_park_is_tried_again_when_something_changed(one: Watched, change: str) -> None:
    """A new policy, other memory, or a word from those who refused begin a new countdown at once."""
    one.parking.answer = REFUSED
    await one.go(615, A)
    use = use_of("a", 2 * GIB) if change == "memory" else A
    if change == "policy":
        one.overrides.set_owner("a", PolicyRequest(allow_background_work=True))
    if change == "told":
        one.watch.reconsider("a")
    await one.go(5, use)
    assert one.watch.parks_at("a") == one.clock.now + 300


async def test_what_cannot_be_parked_is_not_counted_down(one: Watched) -> None:
    """A refusal that is known beforehand shows no countdown, is counted once, and its end begins a whole warning."""
    one.parking.known_refusals["a"] = REFUSED
    await one.go(1000, A)
    assert one.watch.parks_at("a") is None
    assert one.parking.asked == []
    assert one.observer.report().refused == {"BACKGROUND_WORK": 1}
    del one.parking.known_refusals["a"]
    await one.go(5, A)
    assert one.watch.parks_at("a") == one.clock.now + 300


async def test_a_park_that_fails_is_told_and_survived(one: Watched, caplog: pytest.LogCaptureFixture) -> None:
    """An error of ours goes to the log, and the kernel is watched on."""
    one.parking.answer = RuntimeError("a fault of ours")
    with caplog.at_level(logging.ERROR):
        await one.go(615, A)
    assert "Parking kernel a failed" in caplog.text
    assert one.observer.report().refused == {"PARK_FAILED": 1}
    one.parking.answer = None
    await one.go(900, A)
    assert one.parking.parked == ["a"]


async def test_a_park_that_claims_success_is_not_repeated_at_every_look(one: Watched) -> None:
    """Whatever those who park answer, the next try comes after a whole warning."""

    async def park(kernel_id: str) -> None:
        one.parking.asked.append(kernel_id)

    one.parking.park = park  # type: ignore[method-assign]
    await one.go(615, A)
    await one.go(285, A)
    assert one.parking.asked == ["a"]


async def test_observing_parks_nothing_and_counts(watched: Callable[..., Watched]) -> None:
    """Mode *observe* shows no countdown, and reports what parking would have won until the next cell."""
    one = watched("observe")
    one.kernels.start("a")
    await one.go(4200, A)
    assert (one.watch.parks_at("a"), one.parking.asked) == (None, [])
    one.kernels.begin_cell("a")
    await one.go(5, A)
    one.kernels.end_cell("a")
    await one.go(300, A)
    report = one.observer.report()
    assert (report.mode, report.parked, report.resumed) == ("observe", 1, 1)
    assert 3580 <= report.handed_back_s <= 3610


async def test_observing_counts_what_would_have_been_refused(watched: Callable[..., Watched]) -> None:
    """It claims nothing for kernels that could not have been parked."""
    one = watched("observe")
    one.kernels.start("a")
    one.parking.known_refusals["a"] = REFUSED
    await one.go(4200, A)
    report = one.observer.report()
    assert (report.parked, report.handed_back_s, report.refused) == (0, 0.0, {"BACKGROUND_WORK": 1})


async def test_observing_survives_polls(watched: Callable[..., Watched]) -> None:
    """A poll at the moment of looking does not end what would have been a park."""
    one = watched("observe")
    one.kernels.start("a")
    await one.go(700, A)
    one.kernels.states["a"] = "busy"
    await one.go(5, A)
    one.kernels.states["a"] = "idle"
    await one.go(100, A)
    assert (one.observer.report().parked, one.observer.report().resumed) == (1, 0)


async def test_observing_ends_with_a_real_park(watched: Callable[..., Watched]) -> None:
    """What its owner parks meanwhile is no longer counted among what would have been."""
    one = watched("observe")
    one.kernels.start("a")
    await one.go(1200, A)
    won = one.observer.report().handed_back_s
    one.parking.parked.append("a")
    await one.go(5, A)
    await one.go(3600)
    report = one.observer.report()
    assert (report.parked, report.resumed) == (1, 0)
    assert won <= report.handed_back_s <= won + 5


async def test_one_park_at_a_time_for_a_kernel(one: Watched) -> None:
    """While a park is under way no second one begins, however long it takes."""
    go_on = asyncio.Event()
    begun: list[str] = []

    async def park(kernel_id: str) -> None:
        begun.append(kernel_id)
        await go_on.wait()

    one.parking.park = park  # type: ignore[method-assign]
    await one.go(600, A)
    while not begun:
        one.clock.now += 5
        one.watch.take(sample_of(one.clock.now, A))
        await one.watch.turn()
        await asyncio.sleep(0.01)
    for _ in range(5):
        one.clock.now += 5
        await one.watch.turn()
    assert begun == ["a"]
    go_on.set()
    await one.settle()


async def test_nothing_runs_while_nothing_is_held(watched: Callable[..., Watched], until: Any) -> None:
    """No task, no turn and no look at any process: neither before something is held, nor after it is gone."""
    one = watched(every_s=0.01)
    one.kernels.start("a")
    one.watch.take(sample_of(one.clock.now))
    assert one.watch.sleeps
    before = asyncio.all_tasks()
    one.watch.take(sample_of(one.clock.now, A))
    assert not one.watch.sleeps
    await until(lambda: one.watch.judgement("a") is not None)
    one.watch.take(sample_of(one.clock.now))
    await until(lambda: one.watch.sleeps)
    one.trees_read.clear()
    await asyncio.sleep(0.1)
    assert asyncio.all_tasks() == before
    assert one.trees_read == []


async def test_nothing_runs_while_parking_is_off(watched: Callable[..., Watched], until: Any) -> None:
    """The one switch that stops all parking stops the watch, also when it is turned while a countdown runs."""
    one = watched("off", every_s=0.01)
    one.kernels.start("a")
    one.watch.take(sample_of(one.clock.now, A))
    assert one.watch.sleeps
    one.modes[0] = "park"
    one.watch.take(sample_of(one.clock.now, A))
    await until(lambda: one.watch.judgement("a") is not None)
    one.modes[0] = "off"
    await until(lambda: one.watch.sleeps)
    assert one.watch.judgement("a") is None
    assert one.parking.asked == []


async def test_the_watch_outlives_a_fault(
    watched: Callable[..., Watched], caplog: pytest.LogCaptureFixture, until: Any
) -> None:
    """Something that raises is told once, and judging goes on when it stops."""
    one = watched(every_s=0.01)
    one.kernels.start("a")
    good = one.parking.held
    failures: list[str] = []

    def held(kernel_id: str) -> int:
        failures.append(kernel_id)
        raise RuntimeError("a fault of ours")

    one.parking.held = held  # type: ignore[method-assign]
    with caplog.at_level(logging.ERROR):
        one.watch.take(sample_of(one.clock.now, A))
        await until(lambda: len(failures) >= 3)
    assert len(caplog.records) == 1
    one.parking.held = good  # type: ignore[method-assign]
    await until(lambda: one.watch.judgement("a") is not None)
    one.parking.held = held  # type: ignore[method-assign]
    await until(lambda: len(caplog.records) == 2)
    await one.watch.stop()
    assert one.watch.sleeps
