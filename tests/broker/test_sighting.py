"""Processes that end while the devices are looked at."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.broker.sighting import Look
from jupyter_gpushare.devices.device import Device, DeviceUse, Driver, DriverState, ProcessUse, Reading
from jupyter_gpushare.devices.identity import myself
from jupyter_gpushare.quantity import Memory

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

DEVICE = Device("GPU-1", 0, "host", "a100", "one", Memory(1 << 30), Memory(1 << 30))
HELD = 1 << 20
LEASE = {myself(): "job"}


class Listed:
    """A driver with one device that lists what it is told to, look after look; the last of it for ever."""

    def __init__(self, *lists: Sequence[int]) -> None:
        self.lists = [tuple(pids) for pids in lists]

    def driver(self) -> Driver:
        return Driver("listed", DriverState.READY)

    def devices(self) -> Sequence[Device]:
        return (DEVICE,)

    def read(self) -> Sequence[DeviceUse]:
        pids = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
        held, idle = Reading.exact(HELD), Reading.exact(0)
        return (DeviceUse(DEVICE.uuid, held, idle, tuple(ProcessUse(pid, held, idle) for pid in pids)),)

    def has_open(self, pids: Collection[int]) -> frozenset[int]:
        return frozenset(pids)

    def close(self) -> None:
        pass


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process below this one."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process


def ended(process: subprocess.Popen[bytes]) -> int:
    """Its number, once nothing of it is left."""
    process.communicate(b"\n", timeout=60)
    return process.pid


def _look(source: Listed) -> Look:
    return Look(source, time.monotonic, host_pids=True)


def test_a_process_that_ends_between_two_lists_is_no_stranger(child: subprocess.Popen[bytes]) -> None:
    """Else a job that stops would for a moment make the device smaller than what is promised on it."""
    look = _look(Listed([ended(child)], []))
    seen = look.take(LEASE)
    assert not seen.foreign[DEVICE.uuid]
    assert not seen.held


def test_what_an_ended_process_is_still_listed_with_is_its_leases(child: subprocess.Popen[bytes]) -> None:
    """A driver's list lags: as long as it names a process, its lease has not left, and no stranger has come."""
    look = _look(Listed([child.pid]))
    assert look.take(LEASE).held == {"job": {DEVICE.uuid: HELD}}
    ended(child)
    seen = look.take(LEASE)
    assert seen.held == {"job": {DEVICE.uuid: HELD}}
    assert not seen.foreign[DEVICE.uuid]


def test_memory_that_stays_after_its_process_is_foreign(child: subprocess.Popen[bytes]) -> None:
    """What nobody that we can see holds is on no lease's account, and cannot be given to anybody."""
    look = _look(Listed([ended(child)]))
    assert look.take(LEASE).foreign[DEVICE.uuid] == HELD


def test_how_busy_devices_are_is_kept_for_people() -> None:
    """The overview shows it; a device that does not tell is left out, never shown as idle."""
    assert _look(Listed([])).take(LEASE).utilisation == {DEVICE.uuid: 0}
    silent = Listed([])
    silent.read = lambda: (DeviceUse(DEVICE.uuid, Reading.exact(0), Reading.unavailable("MIG"), ()),)  # type: ignore[method-assign]
    assert _look(silent).take(LEASE).utilisation == {}
