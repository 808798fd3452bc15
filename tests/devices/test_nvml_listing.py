"""When the processes of an NVIDIA device are listed anew: listing is what costs the driver most."""

# ruff: noqa: N802  # a function has the name of the binding that it stands for
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_gpushare.devices.nvml import NvmlSource
from tests.devices.fake_nvml import GIB, FakeGpu, FakeNvml

if TYPE_CHECKING:
    from collections.abc import Callable

LIST = "nvmlDeviceGetComputeRunningProcesses"


class NvmlListsLate(FakeNvml):
    """A context's memory is in use one reading before its process is listed, as while CUDA starts."""

    def __init__(self, gpus: list[FakeGpu]) -> None:
        super().__init__(gpus)
        self.before: list[Any] = []

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: FakeGpu) -> list[Any]:
        late, self.before = self.before, super().nvmlDeviceGetComputeRunningProcesses(gpu)
        return late


def reader(library: FakeNvml) -> Callable[[], set[int]]:
    """What reads the library once more and gives the listed processes, after some readings at rest."""
    nvml = NvmlSource(library, environ={})

    def read() -> set[int]:
        (use,) = nvml.read()
        assert use.processes is not None
        return {process.pid for process in use.processes}

    for _ in range(7):
        read()
    library.seen.clear()
    return read


def test_a_device_at_rest_is_listed_every_fifth_time_only() -> None:
    """While the memory in use stands still nobody has come or gone: the driver's lock is left to others."""
    library = FakeNvml([FakeGpu("GPU-0", compute={7: GIB})])
    read = reader(library)
    assert [read() for _ in range(10)] == [{7}] * 10
    assert library.seen.count(LIST) == 2


def test_a_process_that_comes_or_goes_is_seen_in_the_next_reading() -> None:
    """Its memory moves the device's, so nobody waits for the fifth reading."""
    gpu = FakeGpu("GPU-0", compute={7: GIB})
    read = reader(FakeNvml([gpu]))
    gpu.compute[8] = GIB
    assert read() == {7, 8}
    del gpu.compute[7]
    assert read() == {8}


def test_a_process_that_is_listed_after_its_memory_moved_is_not_missed() -> None:
    """The list is asked once more after the memory came to rest."""
    gpu = FakeGpu("GPU-0", compute={7: GIB})
    read = reader(NvmlListsLate([gpu]))
    gpu.compute[8] = GIB
    assert read() == {7}
    assert read() == {7, 8}


def test_a_process_that_takes_exactly_the_place_of_another_is_seen_within_five_readings() -> None:
    """When one ends and another holds as much in the same second, the memory in use says nothing."""
    gpu = FakeGpu("GPU-0", compute={7: GIB})
    read = reader(FakeNvml([gpu]))
    gpu.compute = {8: GIB}
    assert {8} in [read() for _ in range(5)]
