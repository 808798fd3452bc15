"""NVIDIA's driver, healthy and hostile."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from jupyter_gpushare.devices.device import Attribution, DriverState
from jupyter_gpushare.devices.nvml import NvmlSource
from tests.devices import fake_nvml as fake
from tests.devices.fake_nvml import GIB, FakeGpu, FakeNvml, NVMLError

EVERY_CALL_OF_A_READING = [
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetProcessUtilization",
]


@dataclass
class Clock:
    at: float = 1_000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock() -> Clock:
    """A time that only the test moves."""
    return Clock()


def source(library: object, clock: Clock | None = None, **environ: str) -> NvmlSource:
    """A source of *library* in that environment and at that time."""
    clock = clock or Clock()
    return NvmlSource(library, environ=environ, clock=clock, now=clock)


def test_a_healthy_device_is_read_whole(clock: Clock) -> None:
    """Memory, utilisation and each process's part come out as the driver gives them."""
    gpu = FakeGpu("GPU-0", utilisation=55, compute={7: 3 * GIB, 8: GIB})
    gpu.samples = [fake.sample(7, 1_000_000_000, 50)]
    nvml = source(FakeNvml([gpu]), clock)

    (device,) = nvml.devices()
    (use,) = nvml.read()

    assert (device.uuid, device.kind, device.total.bytes) == ("GPU-0", "a100", 40 * GIB)
    assert device.usable.bytes == 40 * GIB - fake.RESERVE
    assert (use.memory.value, use.utilisation.value) == (4 * GIB, 55)
    assert use.processes is not None
    assert {p.pid: (p.memory.value, p.utilisation.value) for p in use.processes} == {7: (3 * GIB, 50), 8: (GIB, 0)}
    assert nvml.driver().state is DriverState.READY
    assert nvml.driver().version == "580.95.05"


def test_nothing_is_imported_or_called_before_the_first_question() -> None:
    """A server without anybody looking touches no driver: not even the binding is imported."""
    code = (
        "import sys; from jupyter_gpushare.devices.discovery import open_source; s = open_source({});"
        "print('pynvml' in sys.modules, 'amdsmi' in sys.modules, s.calls)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["False", "False", "0"]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (fake.LIBRARY_NOT_FOUND, "Install the NVIDIA driver"),
        (fake.DRIVER_NOT_LOADED, "modprobe nvidia"),
        (fake.NO_PERMISSION, "Ask the administrator"),
        (fake.VERSION_MISMATCH, "Restart the machine"),
        (fake.FUNCTION_NOT_FOUND, "update it"),
        (fake.UNKNOWN, "dmesg"),
        (77, "error 77"),
    ],
)
def test_each_reason_for_an_absent_driver_says_what_to_do(code: int, words: str) -> None:
    """A person without a working driver learns which of its parts is missing and the next step."""
    nvml = source(fake.NvmlAbsent(code))
    assert nvml.driver().state is DriverState.ABSENT
    assert words in nvml.driver().reason
    assert nvml.devices() == ()
    assert nvml.read() == ()
    assert nvml.installed == (code != fake.LIBRARY_NOT_FOUND)


def test_an_absent_driver_is_looked_for_again_but_not_at_every_question(clock: Clock) -> None:
    """A driver that is loaded later is found without a restart, and one that never comes costs next to nothing."""
    library = fake.NvmlAbsent(fake.DRIVER_NOT_LOADED)
    nvml = source(library, clock)
    for _ in range(20):
        nvml.read()
    assert library.inits == 1
    library.code, clock.at = 0, clock.at + 60
    assert nvml.driver().state is DriverState.READY


@pytest.mark.parametrize("code", [fake.GPU_IS_LOST, fake.UNINITIALIZED, fake.UNKNOWN, fake.TIMEOUT])
def test_a_driver_lost_in_mid_run_is_lost_and_comes_back_by_itself(code: int, clock: Clock) -> None:
    """After an XID or a driver restart people see why nothing shows, and the devices return without a restart."""
    library = fake.NvmlLost(2, code)
    nvml = source(library, clock)
    nvml.read()

    library.is_lost = True
    uses = nvml.read()

    assert [use.memory.attribution for use in uses] == [Attribution.UNAVAILABLE] * 2
    assert all(use.processes is None and use.processes_reason for use in uses)
    assert nvml.driver().state is DriverState.LOST
    assert "tried again" in nvml.driver().reason
    assert len(nvml.devices()) == 2

    library.is_lost, library.gpus = False, library.gpus[:1]
    clock.at += 1
    assert [use.memory.value for use in nvml.read()] == [0]
    assert nvml.driver().state is DriverState.READY
    assert library.users == 1


def test_a_lost_driver_is_tried_less_and_less_often(clock: Clock) -> None:
    """A dead driver is not hammered: ten minutes of reading every second try it a dozen times, not 600."""
    library = fake.NvmlLost(1)
    nvml = source(library, clock)
    nvml.read()
    library.is_lost = True
    for _ in range(600):
        clock.at += 1
        nvml.read()
    assert 8 <= library.inits <= 20
    assert nvml.driver().state is DriverState.LOST


def test_one_lost_gpu_does_not_take_the_others_with_it(clock: Clock) -> None:
    """When one of several GPUs falls off the bus, the others are read on, and it returns when it answers again."""
    library = FakeNvml(3)
    nvml = source(library, clock)
    nvml.read()
    library.gpus[1].lost = fake.GPU_IS_LOST

    before = nvml.read()
    after = nvml.read()

    assert [use.memory.value for use in before] == [0, None, 0]
    assert "fallen off the bus" in before[1].memory.reason
    assert [use.uuid for use in after] == ["GPU-00000000", "GPU-00000002"]
    assert nvml.driver().state is DriverState.READY


@pytest.mark.parametrize("call", EVERY_CALL_OF_A_READING)
@pytest.mark.parametrize("error", [NVMLError(fake.NOT_SUPPORTED), NVMLError(77), OSError("binding"), ValueError()])
def test_one_failing_call_takes_away_one_reading_only(call: str, error: Exception) -> None:
    """Whatever one call raises, the rest of the device is still shown, and the missing part says why."""
    nvml = source(fake.NvmlRaisesOn(call, error))
    (use,) = nvml.read()
    parts = {
        "nvmlDeviceGetMemoryInfo": use.memory,
        "nvmlDeviceGetUtilizationRates": use.utilisation,
        "nvmlDeviceGetProcessUtilization": use.processes[0].utilisation if use.processes else None,
    }
    for name, reading in parts.items():
        if reading is not None:
            assert (reading.value is None) == (name == call)
            assert bool(reading.reason) == (name == call)
    lists_nobody = call == "nvmlDeviceGetComputeRunningProcesses" or (
        call == "nvmlDeviceGetGraphicsRunningProcesses" and getattr(error, "value", None) != fake.NOT_SUPPORTED
    )
    assert (use.processes is None) == lists_nobody
    assert bool(use.processes_reason) == lists_nobody


def test_impossible_numbers_are_not_available_rather_than_shown() -> None:
    """A driver bug that reports 4294967295 per cent or more memory than the device has is never passed on."""
    (use,) = source(fake.NvmlAnswersNonsense([FakeGpu("GPU-0")])).read()
    assert use.utilisation.value is None
    assert use.processes is not None
    assert use.processes[0].memory.value is None
    assert use.processes[0].utilisation.value is None


def test_memory_that_the_driver_does_not_give_is_not_zero() -> None:
    """A process whose memory reads N/A, as under WDDM and in some containers, is listed without a number."""
    (use,) = source(FakeNvml([FakeGpu("GPU-0", compute={7: None})])).read()
    assert use.processes is not None
    assert (use.processes[0].memory.value, use.processes[0].memory.attribution) == (None, Attribution.UNAVAILABLE)


def test_mig_instances_are_the_devices() -> None:
    """Of a divided GPU people see the instances, of their own kind and size, and why they have no utilisation."""
    nvml = source(fake.NvmlMig())
    devices = nvml.devices()
    assert [(d.uuid, d.kind, d.is_mig, d.index) for d in devices] == [
        ("MIG-aaaa", "a100-3g.20gb", True, 0),
        ("MIG-bbbb", "a100-1g.5gb", True, 0),
        ("GPU-1", "a100", False, 1),
    ]
    first = nvml.read()[0]
    assert (first.memory.value, first.utilisation.value) == (GIB, None)
    assert "MIG" in first.utilisation.reason
    assert first.processes is not None
    assert first.processes[0].utilisation.value is None


def test_a_process_with_compute_and_graphics_is_counted_once() -> None:
    """A process that draws and computes appears in both lists with its full memory; it is one holder."""
    gpu = FakeGpu("GPU-0", compute={7: GIB}, graphics={7: GIB, 9: GIB})
    (use,) = source(FakeNvml([gpu])).read()
    assert use.processes is not None
    assert {p.pid: p.memory.value for p in use.processes} == {7: GIB, 9: GIB}


def test_process_samples_are_asked_for_since_the_last_one(clock: Clock) -> None:
    """Utilisation is of now: stamps go on in microseconds, and the driver's old buffer never counts."""
    gpu = FakeGpu("GPU-0", compute={7: GIB})
    library = FakeNvml([gpu])
    nvml = source(library, clock)
    gpu.samples = [fake.sample(7, 900_000_000, 99), fake.sample(7, 999_900_000, 30)]
    assert process_utilisation(nvml) == 30
    assert process_utilisation(nvml) == 0
    gpu.samples.append(fake.sample(7, 1_000_500_000, 60))
    assert process_utilisation(nvml) == 60
    assert library.stamps == [999_000_000, 999_900_000, 999_900_000]


def process_utilisation(nvml: NvmlSource) -> int | None:
    """What the first process used since the last reading."""
    (use,) = nvml.read()
    assert use.processes is not None
    return use.processes[0].utilisation.value


def test_an_old_driver_counts_its_reserve_as_used_and_we_do_not() -> None:
    """Without version 2 of the memory information the reserve is what nobody holds; use comes out the same."""
    nvml = source(FakeNvml([FakeGpu("GPU-0", compute={7: GIB})], has_v2=False))
    (device,) = nvml.devices()
    assert device.usable.bytes == 40 * GIB - fake.RESERVE
    assert nvml.read()[0].memory.value == GIB


def test_an_old_driver_with_hidden_holders_does_not_shrink_the_device() -> None:
    """Memory that unlisted processes hold is not taken for the driver's reserve."""
    nvml = source(fake.NvmlHidesProcesses([FakeGpu("GPU-0", compute={7: 30 * GIB})], has_v2=False))
    (device,) = nvml.devices()
    assert device.usable == device.total


@pytest.mark.parametrize("count", [0, 64])
def test_no_device_and_sixty_four_devices_are_both_fine(count: int) -> None:
    """A driver without GPUs is ready and empty; a large machine is read whole."""
    nvml = source(FakeNvml(count))
    assert (len(nvml.devices()), len(nvml.read())) == (count, count)
    assert nvml.driver().state is DriverState.READY


def test_a_gpu_that_may_not_be_opened_leaves_the_others() -> None:
    """Where a container's rules forbid one GPU, the others show; where they forbid all, the reason does."""
    library = FakeNvml(2)
    library.gpus[0].lost = fake.NO_PERMISSION
    assert [device.uuid for device in source(library).devices()] == ["GPU-00000001"]
    library.gpus[1].lost = fake.NO_PERMISSION
    forbidden = source(library)
    assert forbidden.driver().state is DriverState.ABSENT
    assert "Ask the administrator" in forbidden.driver().reason


def test_the_environment_restricts_what_is_seen() -> None:
    """A session with CUDA_VISIBLE_DEVICES shows the GPUs that its kernels can use and no others."""
    nvml = source(FakeNvml(4), CUDA_VISIBLE_DEVICES="2,GPU-00000000")
    assert [device.index for device in nvml.devices()] == [0, 2]
    assert [use.uuid for use in nvml.read()] == ["GPU-00000000", "GPU-00000002"]


def test_a_reading_costs_at_most_four_calls_a_device() -> None:
    """The driver holds a lock of the whole machine while it answers: graphics are listed every tenth time only."""
    library = FakeNvml([FakeGpu(f"GPU-{i}", compute={7: GIB}) for i in range(8)])
    nvml = source(library)
    nvml.read()
    library.seen.clear()
    for _ in range(10):
        nvml.read()
    assert len(library.seen) <= 8 * (4 * 10 + 1)
    assert library.seen.count("nvmlDeviceGetGraphicsRunningProcesses") == 8
    assert nvml.calls >= len(library.seen)


def test_after_a_fork_the_child_opens_the_driver_itself(clock: Clock) -> None:
    """A forked child must not use its parent's connection: it opens its own, even if the lock was held meanwhile."""
    library = FakeNvml(1)
    nvml = source(library, clock)
    nvml.read()
    inits = library.inits
    with nvml._link.lock:
        pid = os.fork()
        if pid == 0:
            os._exit(0 if len(nvml.read()) == 1 and library.inits == inits + 1 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    nvml.read()
    assert library.inits == inits


def test_a_slow_driver_does_not_hold_up_questions_that_need_no_driver() -> None:
    """While a reading takes its time, who has a device open is answered at once from the kernel's tables."""
    nvml = source(fake.NvmlSlow(8, delay_s=0.02))
    nvml.driver()
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(nvml.read)
        assert nvml.has_open([os.getpid()]) == frozenset()
        assert not reading.done()
        assert len(reading.result(timeout=60)) == 8


def test_closing_lets_go_once_and_a_question_opens_again() -> None:
    """The library counts its users, other extensions among them: we give back exactly what we took."""
    library = FakeNvml(1)
    library.users = 1
    nvml = source(library)
    nvml.read()
    assert library.users == 2
    nvml.close()
    nvml.close()
    assert library.users == 1
    assert len(nvml.read()) == 1


def test_a_missing_binding_is_named() -> None:
    """Without the Python package the message names it and how to install it."""
    code = (
        "import sys; sys.modules['pynvml'] = None;"
        "from jupyter_gpushare.devices.nvml import NvmlSource; print(NvmlSource().driver().reason)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "pip install nvidia-ml-py" in done.stdout
