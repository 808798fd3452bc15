"""Timed locks on a session and its kernels."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.session.idle.keep import Keep

if TYPE_CHECKING:
    from tests.session.idle.conftest import Clock

HOUR = 3600.0


def test_a_lock_ends_by_itself(clock: Clock) -> None:
    """What is kept for an hour is kept for that hour and no longer."""
    keep = Keep(8 * HOUR, clock=clock)
    until = keep.keep(HOUR, "a")
    assert until == clock.now + HOUR == keep.until("a")
    clock.now = until
    assert keep.until("a") is None


def test_no_lock_goes_beyond_the_admins_bound(clock: Clock) -> None:
    """A wish for a week is granted for as long as the configuration allows."""
    assert Keep(8 * HOUR, clock=clock).keep(168 * HOUR) == clock.now + 8 * HOUR


def test_a_lock_on_the_session_covers_every_kernel(clock: Clock) -> None:
    """The later of a kernel's own lock and the session's holds."""
    keep = Keep(8 * HOUR, clock=clock)
    keep.keep(2 * HOUR)
    assert keep.keep(HOUR, "a") == keep.until("b") == clock.now + 2 * HOUR
    assert keep.keep(3 * HOUR, "a") == clock.now + 3 * HOUR
    assert keep.until() == clock.now + 2 * HOUR


def test_zero_ends_a_lock(clock: Clock) -> None:
    """For a kernel its own lock ends, for the session every lock."""
    keep = Keep(8 * HOUR, clock=clock)
    keep.keep(HOUR, "a")
    keep.keep(HOUR, "b")
    assert keep.keep(0, "a") is None
    assert keep.until("b") is not None
    assert keep.keep(0) is None
    assert keep.until("b") is None


def test_an_ended_kernels_lock_is_forgotten(clock: Clock) -> None:
    """A later kernel of the same id, as after a restart of the server's manager, is not kept."""
    keep = Keep(8 * HOUR, clock=clock)
    keep.keep(HOUR, "a")
    keep.forget("a")
    assert keep.until("a") is None


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf])
def test_no_time_is_no_lock(clock: Clock, seconds: float) -> None:
    """A length that is none is refused, and named."""
    with pytest.raises(ValueError, match="seconds"):
        Keep(8 * HOUR, clock=clock).keep(seconds)
