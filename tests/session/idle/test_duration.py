"""Lengths of time, written and read by people."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpushare.session.idle.duration import LONGEST_TIMEOUT_S, DurationError, parse_timeout, say_seconds


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("30m", 1800.0), ("2h", 7200.0), ("90s", 90.0), ("45", 45.0), (600, 600.0), (1.5, 1.5), ("7d", 604800.0), ("never", None)],
)  # fmt: skip
def test_timeouts_as_people_write_them(written: object, seconds: float | None) -> None:
    """The documented ways to write a timeout mean what they say."""
    assert parse_timeout(written) == seconds


@pytest.mark.parametrize(
    "written",
    ["", "30 m", "1h30m", "-5", "0", 0, -1, True, None, math.nan, math.inf, "8d", [30], {}, "\u0661m", "9" * 400],
)
def test_anything_else_is_refused_with_an_example(written: object) -> None:
    """A wrong value says how to write a right one."""
    with pytest.raises(DurationError, match='"30m"'):
        parse_timeout(written)


@given(st.one_of(st.text(), st.integers(), st.floats(), st.booleans(), st.none(), st.lists(st.text())))
def test_no_text_breaks_the_reading(value: object) -> None:
    """Metadata is anybody's: whatever it holds gives a timeout within bounds, or this one error."""
    try:
        seconds = parse_timeout(value)
    except DurationError:
        return
    assert seconds is None or 1 <= seconds <= LONGEST_TIMEOUT_S


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-1, "0 s"), (0.9, "0 s"), (59.9, "59 s"), (60, "1 min"), (3599, "59 min"), (3600, "1 h"), (11520, "3 h 12 min"), (190800, "2 d 5 h")],
)  # fmt: skip
def test_lengths_are_said_shortly(seconds: float, said: str) -> None:
    """Two figures at most, rounded down."""
    assert say_seconds(seconds) == said
