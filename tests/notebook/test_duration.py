"""Time spans: read strictly, and written as people say them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpushare.notebook.duration import LONGEST_S, DurationError, clock, parse_duration, spoken


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("30m", 1800), ("30min", 1800), ("2h", 7200), ("1h30m", 5400), ("1.5h", 5400), ("1h1m1s", 3661)],
)
def test_what_people_write_is_read(text: str, seconds: float) -> None:
    """Each usual way to write a time span means what it says."""
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2",
        "h",
        "2 h",
        "-2h",
        "2x",
        "2H",
        "30m2h",
        "0h",
        "0.5s",
        "200h",
        "1e3s",
        "nan",
        "٢h",
        "2h2h",
        "9" * 99 + "h",
    ],
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    """Nothing is guessed: a wrong time span would take the GPU away too early, or not at all."""
    with pytest.raises(DurationError, match="Write for example 30m, 2h or 1h30m"):
        parse_duration(text)


@given(st.integers(0, 600) | st.integers(0, 7 * 24 * 60).map(lambda minutes: minutes * 60))
def test_what_is_spoken_can_be_typed_back(seconds: int) -> None:
    """What the card says is what the magic takes, apart from the blanks."""
    typed = spoken(seconds).replace(" ", "")
    if seconds:
        assert parse_duration(typed) == seconds <= LONGEST_S
    else:
        assert typed == "0s"


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0 s"), (45, "45 s"), (90, "1 min 30 s"), (1799, "29 min"), (5400, "1 h 30 min")]
)
def test_a_time_span_is_as_exact_as_people_say_it(seconds: float, words: str) -> None:
    """An idle timeout of 90 seconds is not called a minute; of hours nobody wants the seconds."""
    assert spoken(seconds) == words


@pytest.mark.parametrize(
    ("seconds", "shown"), [(250, "4:10"), (3850, "1:04:10"), (0.2, "0:01"), (0, "0:00"), (-5, "0:00")]
)
def test_a_countdown_is_over_at_its_end_and_not_before(seconds: float, shown: str) -> None:
    """The last second still counts, and nothing goes below zero."""
    assert clock(seconds) == shown
