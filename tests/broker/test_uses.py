"""How much each lease holds, as the devices show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.broker.sighting import Sighting
from jupyter_gpushare.broker.uses import uses
from jupyter_gpushare.devices.device import Driver, DriverState
from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.event import Using
from jupyter_gpushare.rules.lease import Status
from tests.rules.builders import books, running, session

if TYPE_CHECKING:
    from collections.abc import Collection

MIB = 1 << 20
DEVICES = ("h1-0", "h1-1")


def told(
    held: dict[str, int | None],
    known: int | None = None,
    status: Status = Status.RUNNING,
    readable: Collection[str] = DEVICES,
) -> list[Using]:
    """What is told of a session of which *known* bytes are known, and *held* are seen on its devices."""
    lease = running(session("s", "2x1"), *DEVICES, status=status, uses=None if known is None else Memory(known))
    driver = Driver("simulated", DriverState.READY)
    seen = Sighting(0.0, driver, readable=frozenset(readable), held={"s": held, "stranger": held})
    return list(uses(seen, books(lease, per_host=2)))


def test_all_devices_count_together_and_are_rounded_up() -> None:
    """Of a lease that is known and runs; a copy of it never needs more than is told."""
    assert told({"h1-0": 200 * MIB, "h1-1": 100 * MIB}) == [Using("s", Memory(512 * MIB))]
    assert not told({"h1-0": 200 * MIB}, status=Status.PARKING)


@pytest.mark.parametrize(("now", "is_told"), [(1024, False), (900, False), (512, False), (1025, True), (256, True)])
def test_only_what_grows_or_falls_far_is_told_again(now: int, is_told: bool) -> None:  # noqa: FBT001  # a parameter
    """Programs take and give back all the time: that is not worth a commit each."""
    assert bool(told({"h1-0": now * MIB}, known=1024 * MIB)) is is_told


def test_where_the_driver_gives_no_number_nothing_is_told() -> None:
    """Part of a sum is not what it holds."""
    assert not told({"h1-0": 900 * MIB, "h1-1": None})


def test_a_device_that_cannot_be_read_is_no_device_without_memory() -> None:
    """A job on two devices of which one is not shown for a while is not taken for one of half the size."""
    assert not told({"h1-0": 400 * MIB}, known=2048 * MIB, readable=("h1-0",))
    assert told({"h1-0": 400 * MIB}, known=2048 * MIB) == [Using("s", Memory(512 * MIB))]
