"""The parking benchmark runs to its end and judges what it measured; on the simulated machine, so no figure counts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from benchmarks.parking import moves, sharing
from benchmarks.parking.moves import BARE, BUS, OURS, Moves
from benchmarks.parking.plan import GB, Plan
from benchmarks.parking.sharing import ALL_WORK, OTHERS_IDLE, OTHERS_PARKED, Sharing
from benchmarks.parking.tables import tables, verdicts

if TYPE_CHECKING:
    from tests.gpu.rig import Rig

TINY = Plan(sizes=(GB // 10, 10**15), rounds=1, sessions=(2, 10**6), session_size=GB // 10, work_s=0.1)


@pytest.mark.parametrize("rig", ["simulated"], indirect=True)
def test_all_that_fits_is_measured_in_every_way(rig: Rig) -> None:
    """Each way has its times with the contents intact, and what does not fit is left out with the reason."""
    moved = asyncio.run(moves.measure(rig, TINY))
    assert moved.intact
    assert {way: len(times) for way, times in moved.out[TINY.sizes[0]].items()} == {OURS: 1, BARE: 1, BUS: 1}
    assert "GB of the device are free" in moved.left_out[TINY.sizes[1]]
    shared = asyncio.run(sharing.measure(rig, TINY))
    rates = {situation: len(each) for situation, each in shared.rates[2].items()}
    assert rates == {ALL_WORK: 2, OTHERS_IDLE: 1, OTHERS_PARKED: 1}
    assert "GB of the device are free" in shared.left_out[10**6]
    shown = "\n".join(table.markdown() for table in tables(moved, shared))
    for word in (OURS, BARE, BUS, OTHERS_PARKED, "not measured"):
        assert word in shown


@pytest.mark.parametrize(("ours", "met"), [(1.07, True), (1.3, False)])
def test_a_park_that_is_too_slow_is_said_to_be(ours: float, met: bool) -> None:  # noqa: FBT001  # a parameter
    """Our total of both ways is held against the bare calls of the same run; a size left out is not judged."""
    times = {OURS: [ours], BARE: [1.0], BUS: [0.1]}
    moved = Moves({GB: times}, {GB: times}, {2 * GB: "too large"}, intact=True)
    assert [verdict.met for verdict in verdicts(moved, Sharing())] == [True, met, None]


def test_changed_contents_are_a_missed_target() -> None:
    """However quick it was, a move that damaged contents shows as missed."""
    assert verdicts(Moves(intact=False), Sharing())[0].met is False
