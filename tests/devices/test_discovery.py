"""Which source a machine gets, and that choosing costs nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.devices.device import DriverState
from jupyter_gpushare.devices.discovery import FirstPresent, open_source
from jupyter_gpushare.devices.nvml import NvmlSource
from tests.devices import fake_nvml as fake

if TYPE_CHECKING:
    from pathlib import Path


def nvml(library: fake.FakeNvml) -> NvmlSource:
    """A source whose time stands still."""
    return NvmlSource(library, environ={}, clock=lambda: 0.0)


def test_the_first_driver_that_is_there_is_taken() -> None:
    """A machine without NVIDIA but with AMD shows AMD's devices, and the other way round."""
    second = fake.FakeNvml(2)
    source = FirstPresent([nvml(fake.NvmlAbsent()), nvml(second)])
    assert len(source.devices()) == len(source.read()) == 2
    assert source.driver().state is DriverState.READY


def test_choosing_calls_no_driver() -> None:
    """An unwatched server makes no driver call at all, and the count proves it."""
    libraries = [fake.FakeNvml(1), fake.FakeNvml(1)]
    source = FirstPresent([nvml(library) for library in libraries])
    source.has_open([1])
    assert (source.calls, libraries[0].seen, libraries[1].seen) == (0, [], [])
    source.read()
    assert source.calls > 0
    assert libraries[1].seen == []


def test_without_any_driver_people_learn_what_to_do() -> None:
    """On a laptop without a GPU the source says so and gives the next step; nothing raises."""
    source = FirstPresent([nvml(fake.NvmlAbsent()), nvml(fake.NvmlAbsent())])
    driver = source.driver()
    assert (driver.vendor, driver.state) == ("none", DriverState.ABSENT)
    assert "docker run --gpus all" in driver.reason
    assert (source.devices(), source.read()) == ((), ())


def test_a_broken_driver_is_named_rather_than_called_missing() -> None:
    """If NVIDIA's library is there but its driver is not loaded, that is what people are told."""
    source = FirstPresent([nvml(fake.NvmlAbsent(fake.DRIVER_NOT_LOADED)), nvml(fake.NvmlAbsent())])
    assert source.driver().vendor == "nvidia"
    assert "modprobe nvidia" in source.driver().reason


def test_a_driver_that_appears_later_is_found() -> None:
    """A driver loaded after the server started is found within a minute, without a restart."""
    now = [0.0]
    library = fake.NvmlAbsent(fake.DRIVER_NOT_LOADED)
    source = FirstPresent([NvmlSource(library, environ={}, clock=lambda: now[0])])
    source.read()
    source.read()
    assert library.inits == 1
    library.code, now[0] = 0, 61.0
    assert source.driver().state is DriverState.READY


def test_a_lost_driver_stays_the_chosen_one() -> None:
    """A driver that is lost is not exchanged for another: people see that it is lost."""
    library = fake.NvmlLost(1)
    source = FirstPresent([nvml(library), nvml(fake.FakeNvml(1))])
    source.read()
    library.is_lost = True
    source.read()
    assert source.driver().state is DriverState.LOST
    source.close()
    assert library.users == 0


def test_the_simulated_machine_wins_where_it_is_named(tmp_path: Path) -> None:
    """With GPUSHARE_SIMULATED_MACHINE set, real devices are never touched."""
    source = open_source({"GPUSHARE_SIMULATED_MACHINE": str(tmp_path)})
    assert type(source).__name__ == "SimulatedSource"
    source.close()
