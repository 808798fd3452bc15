"""Expected seconds: the defaults, learning from this host, and files that are broken."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpushare.parking.speed import Speed, SpeedRecord

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_gpushare.parking.speed import Direction

GIB = 1 << 30


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the record is kept, in a directory that is not there yet."""
    return tmp_path / "data" / "speed.json"


def test_the_defaults_are_what_others_measured(path: Path) -> None:
    """Before anything was measured here, 4 GB/s out, 7 GB/s in and a quarter of a second are expected."""
    speed = SpeedRecord(path).speed("nvidia 580")
    assert speed.park_s(8_000_000_000) == pytest.approx(2.25)
    assert speed.resume_s(14_000_000_000) == pytest.approx(2.25)


def test_it_learns_from_this_host(path: Path) -> None:
    """After some moves at other speeds those are expected, each direction by itself, also by the next server."""
    for _ in range(20):
        SpeedRecord(path).measured("nvidia 580", "park", 10 * GIB, 0.1 + 10 * GIB / 20e9)
    speed = SpeedRecord(path).speed("nvidia 580")
    assert speed.park_s(20 * GIB) == pytest.approx(0.1 + 20 * GIB / 20e9, rel=0.25)
    assert speed.resume_s(20 * GIB) == Speed().resume_s(20 * GIB)


def test_small_moves_teach_the_fixed_cost(path: Path) -> None:
    """A small move is nearly all fixed cost, and says nothing about the rate."""
    record = SpeedRecord(path)
    for _ in range(20):
        speed = record.measured("nvidia 580", "resume", 16 << 20, 1.0)
    assert speed.resume_s(16 << 20) == pytest.approx(1.0, rel=0.05)
    assert speed.in_bytes_per_s == Speed().in_bytes_per_s


def test_drivers_are_kept_apart(path: Path) -> None:
    """A new driver starts from the defaults: its speed differed fourfold between two versions."""
    SpeedRecord(path).measured("nvidia 580", "park", 10 * GIB, 60)
    assert SpeedRecord(path).speed("nvidia 595") == Speed()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\x00",
        b"[" * 100_000,
        b'{"nvidia 580": 3}',
        b'{"nvidia 580": {"out_bytes_per_s": "fast", "in_fixed_s": null}}',
        b'{"nvidia 580": {"out_bytes_per_s": 0, "in_bytes_per_s": -1, "out_fixed_s": 1e9, "in_fixed_s": true}}',
        b'{"nvidia 580": {"out_bytes_per_s": NaN, "in_fixed_s": Infinity}}',
    ],
)
def test_a_broken_file_is_as_none(path: Path, content: bytes) -> None:
    """Estimates never fail for their file: what is wrong in it counts as not known, and the next move mends it."""
    path.parent.mkdir()
    path.write_bytes(content)
    assert SpeedRecord(path).speed("nvidia 580") == Speed()
    SpeedRecord(path).measured("nvidia 580", "park", GIB, 1)
    assert "nvidia 580" in json.loads(path.read_bytes())


def test_a_directory_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    """Without a place for the record the defaults stay, and no move fails for it."""
    (tmp_path / "file").touch()
    record = SpeedRecord(tmp_path / "file" / "speed.json")
    assert record.measured("nvidia 580", "park", GIB, 1).park_s(GIB) > 0
    assert record.speed("nvidia 580") == Speed()


moves = st.tuples(
    st.sampled_from(["park", "resume"]),
    st.integers(-1, 1 << 50),
    st.floats(allow_nan=True, allow_infinity=True),
)


@given(st.lists(moves, max_size=30))
def test_no_measurement_breaks_the_estimate(measured: list[tuple[Direction, int, float]]) -> None:
    """Whatever clocks say, expected seconds are positive and grow with the size."""
    speed = Speed()
    for direction, size, seconds in measured:
        speed = speed.after(direction, size, seconds)
    assert 0 <= speed.park_s(1) <= speed.park_s(GIB) < float("inf")
    assert 0 <= speed.resume_s(1) <= speed.resume_s(GIB) < float("inf")
