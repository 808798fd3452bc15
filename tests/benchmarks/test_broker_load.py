"""The load generator speaks as holders do, and the books that decisions are timed on are books that can be."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from benchmarks.broker import load
from benchmarks.broker.books import LEASES_PER_DEVICE, books
from benchmarks.broker.decisions import Sample, measure, slope
from jupyter_gpushare.rules.invariants import violations

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("leases", [60, 600])
def test_timed_books_hold_the_invariants(leases: int) -> None:
    """Decisions are timed on books without violations, with as many leases as they say and some that wait."""
    made = books(leases, 1_000_000.0)
    assert violations(made) == []
    assert len(made.leases) == leases + len(made.waiting)
    assert len(made.devices) == leases // LEASES_PER_DEVICE


def test_every_wish_is_decided() -> None:
    """Sessions that want to park or come back lead to decisions, which are all timed."""
    sample = measure(60, 40)
    assert sample.decisions >= 40
    assert 0 < sample.median_ms <= sample.p99_ms <= sample.longest_ms


def test_the_slope_is_that_of_the_logarithms() -> None:
    """Twice as long for twice as many leases is a slope of 1; always as long is 0."""
    sample = Sample(100, 2.0, 2.0, 2.0, 10, 0.0)
    linear = [dataclasses.replace(sample, leases=100 * times, median_ms=2.0 * times) for times in (1, 10, 100)]
    assert slope(linear) == pytest.approx(1.0)
    assert slope([dataclasses.replace(each, median_ms=3.0) for each in linear]) == pytest.approx(0.0)


@pytest.mark.skipif(shutil.which("taskset") is None, reason="pins the broker to one core with taskset (util-linux)")
def test_a_fleet_joins_and_comes_back_after_a_kill(tmp_path: Path) -> None:
    """Every holder is welcome, reports and moves under load, and is welcome again when its broker was killed."""
    folder = tmp_path / "b"
    folder.mkdir(mode=0o700)
    found = asyncio.run(
        load.measure(folder, load.Plan(holders=12, seconds=2.0, moves_per_s=5.0, core=min(os.sched_getaffinity(0))))
    )
    assert found.refused == []
    assert found.decisions > 0
    assert found.memory > 0
    assert all(times for times in found.asked_ms.values())
    assert 0 < found.first_s <= found.rejoined_s
