"""A deadline of the broker's leaves as long as the broker meant, whatever clocks say."""

from __future__ import annotations

import msgspec
import pytest

from jupyter_gpushare.broker.client_times import in_our_time
from tests.broker.client.scripted_broker import lease_of

CALLED = msgspec.structs.replace(lease_of(), since=1_000.0, deadline=1_030.0)


@pytest.mark.parametrize("ahead", [3600.0, -86400.0, 2.5])
def test_a_grace_is_as_long_on_our_clock(ahead: float) -> None:
    """After a suspend or a clock that was set, thirty seconds are thirty seconds from now, and not over already."""
    ours = in_our_time(CALLED, 1_010.0, clock=lambda: 1_010.0 + ahead)
    assert (ours.since, ours.deadline) == (1_000.0 + ahead, 1_030.0 + ahead)
    assert ours.submitted == CALLED.submitted


@pytest.mark.parametrize(("at", "now"), [(1_010.0, 1_011.5), (None, 99_999.0)])
def test_the_way_of_a_message_is_no_difference(at: float | None, now: float) -> None:
    """A second on the way, or a broker that does not say its time, changes nothing: the lease stays the same."""
    assert in_our_time(CALLED, at, clock=lambda: now) is CALLED


def test_without_a_deadline_there_stays_none() -> None:
    """Nothing is made up."""
    assert in_our_time(lease_of(), 0.0, clock=lambda: 50.0).deadline is None
