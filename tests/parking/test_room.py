"""How much room a device has, and how much of it a claim has to prove."""

from __future__ import annotations

import asyncio

import pytest

from jupyter_gpushare.devices.device import Device, DeviceUse, Driver, DriverState, Reading
from jupyter_gpushare.parking.bring_back import needed
from jupyter_gpushare.parking.room import DeviceRoom, RoomReading
from jupyter_gpushare.quantity import Memory

GPU = Device("GPU-1", 0, "host", "h200", "H200", Memory(100), Memory(90))


class OneDevice:
    """A source with one device, of which *used* is known or not."""

    def __init__(self, used: Reading, vendor: str = "simulated") -> None:
        self._use = DeviceUse("GPU-1", used, Reading.exact(0), ())
        self._vendor = vendor

    def driver(self) -> Driver:
        return Driver(self._vendor, DriverState.READY)

    def devices(self) -> list[Device]:
        return [GPU]

    def read(self) -> list[DeviceUse]:
        return [self._use]

    def has_open(self, _pids: object) -> frozenset[int]:
        return frozenset()

    def close(self) -> None:
        """Nothing is open."""


def test_what_is_free_is_what_nobody_uses() -> None:
    """Free is of the usable memory, and what is not ours is passed on."""
    room = DeviceRoom(OneDevice(Reading.exact(30)), lambda _: 7)
    assert asyncio.run(room("GPU-1")) == RoomReading(60, 90, 7)
    over = asyncio.run(DeviceRoom(OneDevice(Reading.exact(95)))("GPU-1"))
    assert over.free == 0


def test_unknown_is_not_empty() -> None:
    """A reading that is not available, and a device that is gone, are reasons to wait."""
    unread = asyncio.run(DeviceRoom(OneDevice(Reading.unavailable("the driver was lost")))("GPU-1"))
    assert unread.free is None
    assert unread.reason is not None
    assert "the driver was lost" in unread.reason.text
    missing = asyncio.run(DeviceRoom(OneDevice(Reading.exact(0)))("GPU-2"))
    assert missing.reason is not None
    assert missing.reason.code == "DEVICE_MISSING"


def test_a_real_claim_costs_a_context() -> None:
    """CUDA's claim needs room for its own context, the simulated one does not."""
    assert asyncio.run(DeviceRoom(OneDevice(Reading.exact(0), "nvidia"))("GPU-1")).claim_cost == 1 << 30
    assert asyncio.run(DeviceRoom(OneDevice(Reading.exact(0)))("GPU-1")).claim_cost == 0


@pytest.mark.parametrize(("size", "need"), [(10, 15), (85, 90), (88, 90), (90, 90), (95, 95)])
def test_the_margin_shrinks_for_a_kernel_that_had_the_whole_device(size: int, need: int) -> None:
    """A margin on top of all there is would keep a kernel away for ever; less than its own size is never enough."""
    assert needed(size, 5, RoomReading(0, 90)) == need
