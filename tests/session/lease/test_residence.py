"""What of a session is on the devices, from a reading and from what was moved since."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_gpushare.devices.attribution import Attributed, Owner, OwnerUse
from jupyter_gpushare.devices.device import Driver, DriverState, Reading
from jupyter_gpushare.parking.sequence import Parked, Target
from jupyter_gpushare.session.lease.residence import residence_of
from jupyter_gpushare.session.lease.usage import Computed
from jupyter_gpushare.session.meter import Sample
from jupyter_gpushare.session.parking.record import Parking

DRIVER = Driver("simulated", DriverState.READY, "1", "")


def sample(*owners: tuple[str, str], at: float = 100.0, taken: float = 0.0, busy: int | None = 50) -> Sample:
    """A reading in which these owners hold memory on one device."""
    uses = tuple(
        OwnerUse(Owner(kind, key), (number,), Reading.exact(5), Reading.exact(50), {"GPU-0": Reading.exact(5)})  # type: ignore[arg-type]
        for number, (kind, key) in enumerate(owners, 1)
    )
    utilisation = Reading.unavailable("MIG") if busy is None else Reading.exact(busy)
    attributed = Attributed(uses, (), Reading.exact(5 * len(uses)), utilisation, trusted=True)
    return Sample(at, taken, DRIVER, (), (), attributed)


def record(kernel_id: str, **changes: Any) -> Parking:
    """A kernel's parking."""
    parking = Parking(kernel_id)
    for name, value in changes.items():
        setattr(parking, name, value)
    return parking


AWAY = Parked(Target("a", (), {}), 200.0, 1.0)


def test_a_kernel_that_was_parked_after_the_reading_is_away() -> None:
    """An old reading must not keep the share from being handed back."""
    here = residence_of(sample(("kernel", "a")), [record("a", status="parked", parked=AWAY, memory=7)], ["a"])
    assert (here.holds, here.parked) == (False, 7)


def test_a_kernel_that_came_back_after_the_reading_is_here() -> None:
    """An old reading must not say that nothing is held."""
    assert residence_of(sample(at=100.0), [record("a", resumed_at=150.0)], ["a"]).kernels == {"a"}


def test_what_is_on_its_way_counts_as_here() -> None:
    """Between the device and the host nothing is free yet."""
    assert residence_of(sample(), [record("a", status="parking")], ["a"]).holds


def test_a_terminal_counts_too() -> None:
    """A share that a terminal's process still uses is not handed back."""
    here = residence_of(sample(("terminal", "1")), [], [])
    assert (here.others, here.holds) == (("terminal 1",), True)


def test_without_a_reading_nothing_is_known() -> None:
    """Before the first reading nobody may say that nothing is held."""
    assert not residence_of(None, [], ["a"]).is_known


@pytest.mark.parametrize(("busy", "expected"), [(50, 5.0), (0, 0.0), (None, None)])
def test_computing_is_utilisation_over_time(busy: int | None, expected: float | None) -> None:
    """GPU-seconds are what was computed, none while it waits, and unknown where utilisation is."""
    computed = Computed()
    computed.take(sample(("kernel", "a"), taken=10.0, busy=busy))
    computed.take(sample(("kernel", "a"), taken=20.0, busy=busy))
    assert computed.since_last() == expected
    assert computed.since_last() is None


def test_a_long_gap_is_not_counted_whole() -> None:
    """A machine that slept for a night did not compute for a night."""
    computed = Computed()
    computed.take(sample(("kernel", "a"), taken=10.0))
    computed.take(sample(("kernel", "a"), taken=40_000.0))
    assert computed.since_last() == 30.0
