"""The replay reads a trace as its readers agreed, and refuses what is none."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from benchmarks.replay import generator
from benchmarks.replay.site import hosts_for, peak_gpus
from benchmarks.replay.trace import Execution, Session, TraceError, read_trace

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n"


def trace(folder: Path, *rows: tuple[int, int, int]) -> Path:
    """A file with GPUs, submit time and duration of each row."""
    lines = [f"{number},{gpus},{at},0,any,{long},0\n" for number, (gpus, at, long) in enumerate(rows)]
    path = folder / "trace.csv"
    path.write_text(HEADER + "".join(lines))
    return path


def test_a_session_ends_where_time_goes_back(tmp_path: Path) -> None:
    """Rows belong to one session until submit_time decreases; minutes become seconds; the most GPUs count."""
    first, second = read_trace(trace(tmp_path, (1, 5, 2), (4, 10, 1), (8, 3, 1)))
    assert (first.gpus, first.executions) == (4, (Execution(300.0, 120.0), Execution(600.0, 60.0)))
    assert (second.gpus, second.begins_s, second.ends_s) == (8, 180.0, 240.0)


def test_gaps_are_the_time_without_any_cell() -> None:
    """Cells that overlap make no gap between them, and a long one hides the gaps inside it."""
    cells = (Execution(0.0, 100.0), Execution(10.0, 20.0), Execution(150.0, 10.0), Execution(160.0, 5.0))
    session = Session("s", 1, cells)
    assert session.gaps() == [(100.0, 150.0)]
    assert session.ends_s == 165.0


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("num_gpu,submit_time\n1,2\n", "duration"),
        (HEADER, "no executions"),
        (HEADER + "0,1,-5,0,any,1,0\n", "submit_time"),
        (HEADER + "0,1,nan,0,any,1,0\n", "submit_time"),
        (HEADER + "0,0,5,0,any,1,0\n", "num_gpu"),
        (HEADER + "0,1,5,0,any\n", "duration"),
        (HEADER + "0,1,99999999999,0,any,1,0\n", "submit_time"),
    ],
)
def test_what_is_no_trace_is_refused(tmp_path: Path, text: str, what: str) -> None:
    """A missing column, no rows, or a value that is no number names itself, and nothing is replayed."""
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(TraceError, match=what):
        read_trace(path)


def test_the_site_can_reserve_everything(tmp_path: Path) -> None:
    """Hosts suffice for all sessions that live at once, each of them on one host."""
    sessions = read_trace(trace(tmp_path, (8, 10, 100), (4, 5, 200), (4, 2, 300), (8, 1, 20), (1, 0, 500)))
    assert (peak_gpus(sessions), hosts_for(sessions)) == (25, 4)
    apart = read_trace(trace(tmp_path, (8, 100, 10), (8, 50, 10), (8, 0, 10)))
    assert (peak_gpus(apart), hosts_for(apart)) == (8, 1)


def test_drawn_values_have_their_percentiles() -> None:
    """The generator gives back the percentiles that it was made from."""
    rng = random.Random(7)  # noqa: S311  # a simulation
    for percentiles in (generator.DURATIONS_MIN, generator.GAPS_MIN):
        values = sorted(generator.drawn(percentiles, rng) for _ in range(20_000))
        for chance, value in percentiles[1:-1]:
            below = sum(each <= value for each in values) / len(values)
            assert below == pytest.approx(chance, abs=0.02)


def test_drawn_sessions_look_like_the_published_month() -> None:
    """Sessions are idle about three quarters of their time, mostly in gaps beyond eight hours; a seed repeats them."""
    sessions = generator.sessions(341, 3)
    assert sessions == generator.sessions(341, 3) != generator.sessions(341, 4)
    gaps = [until - since for session in sessions for since, until in session.gaps()]
    whole = sum(session.ends_s - session.begins_s for session in sessions)
    assert sum(gaps) / whole == pytest.approx(0.73, abs=0.06)
    assert sum(gap for gap in gaps if gap <= 8 * 3600) / sum(gaps) == pytest.approx(0.1, abs=0.05)
