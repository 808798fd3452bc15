"""The API that notebooks use, in one process."""

from __future__ import annotations

import gc
import threading
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.devices.identity import myself
from jupyter_gpushare.devices.simulated import cuda, runtime

from .conftest import wait_until

if TYPE_CHECKING:
    from jupyter_gpushare.devices.simulated.machine import Machine
    from jupyter_gpushare.devices.simulated.source import SimulatedSource

MIB = 1 << 20
CONTEXT = 256 * MIB
USABLE = 3 << 30


def used(machine: Machine, uuid: str = "GPU-one") -> int:
    """What all processes hold of a device."""
    return sum(held.memory for held in machine.occupancy.state().held if held.device == uuid)


def test_looking_costs_nothing_and_the_first_use_opens_a_context(machine: Machine) -> None:
    """As with CUDA, a context costs memory, and only where a device was really used."""
    assert cuda.device_count() == 3
    assert cuda.device_name(0) == "simulated A100-40"
    assert (cuda.memory_allocated(), cuda.memory_reserved()) == (0, 0)
    cuda.empty_cache()
    assert used(machine) == 0
    cuda.allocate(1)
    assert used(machine) == CONTEXT + 2 * MIB
    assert used(machine, "GPU-two") == 0


@pytest.mark.usefixtures("machine")
def test_what_is_written_is_read() -> None:
    """A buffer holds real bytes, at any offset."""
    buffer = cuda.allocate("4MiB")
    buffer.write(b"hello", offset=3 * MIB)
    assert buffer.read(3 * MIB, 5) == b"hello"
    buffer.write(memoryview(bytearray(b"abc")))
    assert buffer.read(0, 3) == b"abc"
    assert len(buffer.read()) == 4 * MIB


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(("offset", "size"), [(-1, 1), (0, 1025), (1024, 1), (1025, 0), (5, -1)])
def test_bytes_outside_a_buffer_are_refused(offset: int, size: int) -> None:
    """No buffer reads its neighbour's bytes; the message names the field."""
    with pytest.raises(ValueError, match="offset: "):
        cuda.allocate(1024).read(offset, size)


@pytest.mark.usefixtures("machine")
def test_a_fill_names_its_seed_on_a_sample_of_pages() -> None:
    """Two gigabytes are filled in no time, and whose bytes one sees can be told."""
    buffer = cuda.allocate("2GiB")
    buffer.fill(seed=7)
    assert buffer.read(0, 24) == b"gpushare fill seed=7 off"
    assert b"seed=7" in buffer.read(buffer.size - 4096)


@pytest.mark.usefixtures("machine")
def test_a_checksum_tells_whether_what_was_written_is_still_there() -> None:
    """Equal contents have equal sums, and any overwritten byte changes it."""
    one, two, other = (cuda.allocate("64MiB") for _ in range(3))
    one.fill(seed=1)
    two.fill(seed=1)
    other.fill(seed=2)
    assert one.checksum() == two.checksum() != other.checksum()
    two.write(b"x", offset=0)
    assert one.checksum() != two.checksum()


@pytest.mark.usefixtures("machine")
def test_a_checksum_depends_on_contents_and_not_on_the_order_of_writes() -> None:
    """Two writes side by side, or one: the same bytes, the same sum."""
    one, two = cuda.allocate(1000), cuda.allocate(1000)
    one.write(b"abcdef")
    two.write(b"def", offset=3)
    two.write(b"abc")
    two.write(b"", offset=900)
    assert one.checksum() == two.checksum()


@pytest.mark.usefixtures("machine")
def test_memory_is_not_zeroed_for_its_next_owner() -> None:
    """A program that relies on zeros, or reads freed memory, meets old data, as on a real GPU."""
    buffer = cuda.allocate("8MiB")
    buffer.fill(seed=9)
    buffer.free()
    cuda.empty_cache()
    assert b"seed=9" in cuda.allocate("8MiB").read(0, 4096)


def test_a_freed_buffer_stays_reserved_until_the_cache_is_emptied(machine: Machine) -> None:
    """The gap between what variables use and what the device shows, which %gpushare release closes."""
    buffer = cuda.allocate("512MiB")
    buffer.free()
    buffer.free()
    assert (cuda.memory_allocated(), cuda.memory_reserved()) == (0, 512 * MIB)
    assert used(machine) == CONTEXT + 512 * MIB
    cuda.empty_cache()
    assert (cuda.memory_reserved(), used(machine)) == (0, CONTEXT)


def test_a_buffer_in_use_keeps_its_whole_segment(machine: Machine) -> None:
    """Emptying the cache cannot give back what a living buffer lies in: a release must be honest about it."""
    cuda.allocate("512MiB").free()
    small_part = cuda.allocate("2MiB")
    cuda.empty_cache()
    assert (cuda.memory_allocated(), cuda.memory_reserved()) == (2 * MIB, 512 * MIB)
    assert small_part.size == 2 * MIB
    assert used(machine) == CONTEXT + 512 * MIB


@pytest.mark.usefixtures("machine")
def test_a_buffer_that_nothing_refers_to_is_freed() -> None:
    """`del tensor` gives memory back to the cache, in reference cycles too."""
    buffer = cuda.allocate("4MiB")
    cycle = [buffer]
    cycle.append(cycle)  # type: ignore[arg-type]
    del buffer, cycle
    gc.collect()
    assert (cuda.memory_allocated(), cuda.memory_reserved()) == (0, 4 * MIB)


@pytest.mark.usefixtures("machine")
def test_a_freed_buffer_is_not_used_again() -> None:
    """A use after free is an error that says so, not somebody else's bytes."""
    buffer = cuda.allocate(10)
    buffer.free()
    with pytest.raises(ValueError, match="this buffer was freed"):
        buffer.read()
    assert "freed" in repr(buffer)


@pytest.mark.usefixtures("machine")
def test_out_of_memory_says_how_much_was_asked_is_free_and_is_cached() -> None:
    """The message helps as CUDA's does."""
    kept = cuda.allocate("1GiB")
    with pytest.raises(cuda.OutOfMemoryError) as error:
        cuda.allocate("2GiB")
    message = str(error.value)
    assert "tried to allocate 2.00 GiB" in message
    assert "has 1.75 GiB of 3.00 GiB free" in message
    assert "uses 1.00 GiB and caches 0 MiB" in message
    assert "empty_cache()" in message
    kept.fill()
    assert kept.checksum()


@pytest.mark.usefixtures("machine")
def test_an_allocation_gives_the_cache_back_before_it_fails() -> None:
    """A program never runs out of memory because of its own cache."""
    cuda.allocate("2GiB").free()
    assert cuda.allocate("2500MiB").size == 2500 * MIB


def test_memory_of_an_interrupted_allocation_is_given_back_with_the_cache(machine: Machine) -> None:
    """An interrupt between the device's yes and the program's note of it leaks nothing for good."""
    kept = cuda.allocate("4MiB")
    kept.fill(seed=1)
    (context,) = runtime.current().contexts
    context.take(64 * MIB)
    cuda.empty_cache()
    assert used(machine) == CONTEXT + 4 * MIB
    assert kept.read(0, 8) == b"gpushare"


@pytest.mark.usefixtures("machine")
def test_devices_are_counted_apart_and_together() -> None:
    """What a program holds is asked for one device or for all."""
    one, two = cuda.allocate("4MiB"), cuda.allocate("6MiB", device=1)
    assert (one.device, two.device) == (0, 1)
    assert [cuda.memory_allocated(device) for device in (0, 1, None)] == [4 * MIB, 6 * MIB, 10 * MIB]
    assert [cuda.memory_reserved(device) for device in (0, 1, None)] == [4 * MIB, 6 * MIB, 10 * MIB]


@pytest.mark.usefixtures("machine")
def test_free_memory_is_that_of_the_device_whoever_uses_it() -> None:
    """mem_get_info counts contexts and neighbours, and never the driver's reserve as free."""
    assert cuda.mem_get_info() == (USABLE - CONTEXT, 4 << 30)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("size", [0, -5, "2 GB", "two", "", "unlimited", 1.5, True, None, "9999999TiB"])
def test_a_size_that_is_none_is_refused(size: object) -> None:
    """Bad input names what is wrong and shows a right example; too much is out of memory."""
    with pytest.raises((ValueError, cuda.OutOfMemoryError), match=r"GiB"):
        cuda.allocate(size)  # type: ignore[arg-type]


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("device", [-1, 3, "GPU-one", None])
def test_a_device_that_is_not_there_is_refused(device: object) -> None:
    """The message says how many there are and where to look."""
    with pytest.raises(cuda.NoDeviceError, match=r"device: .* one of the 3 .*CUDA_VISIBLE_DEVICES"):
        cuda.allocate(1, device)  # type: ignore[arg-type]


def test_without_a_machine_there_is_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook opened elsewhere is told what it lacks."""
    monkeypatch.delenv("GPUSHARE_SIMULATED_MACHINE", raising=False)
    assert cuda.device_count() == 0
    with pytest.raises(cuda.NoDeviceError, match="GPUSHARE_SIMULATED_MACHINE is not set"):
        cuda.allocate(1)


@pytest.mark.usefixtures("machine")
def test_visible_devices_renumber_the_devices(monkeypatch: pytest.MonkeyPatch, source: SimulatedSource) -> None:
    """Number 0 is the first device that CUDA_VISIBLE_DEVICES lists."""
    source.devices()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-two")
    assert cuda.device_count() == 1
    cuda.allocate(1)
    assert [use.memory.value for use in source.read()] == [0, CONTEXT + 2 * MIB, 0]


def test_a_computation_shows_on_the_device_and_ends(machine: Machine, source: SimulatedSource) -> None:
    """While a cell computes its load shows, and afterwards it fades."""
    worker = threading.Thread(target=cuda.compute, args=(70, 1.5))
    worker.start()
    wait_until(lambda: (source.read()[0].utilisation.value or 0) > 20, "the load to show")
    cuda.synchronize()
    worker.join()
    (held,) = machine.occupancy.state().held
    assert 0 < held.utilisation <= 70
    wait_until(lambda: source.read()[0].utilisation.value == 0, "the load to fade")


@pytest.mark.usefixtures("machine")
def test_synchronize_waits_for_the_computations_of_other_threads() -> None:
    """When synchronize returns, the work that was begun is done."""
    begun, ended = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        cuda.compute(50, 0.5)
        ended.set()

    cuda.allocate(1)
    worker = threading.Thread(target=work)
    worker.start()
    begun.wait()
    (context,) = runtime.current().contexts
    wait_until(lambda: context.is_computing or ended.is_set(), "the computation to begin")
    cuda.synchronize()
    assert not context.is_computing
    worker.join()


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize(
    ("load", "seconds"), [(0, 1), (0.8, 1), (101, 1), (50, -1), (50, float("nan")), (50, float("inf"))]
)
def test_a_load_that_is_no_per_cent_and_a_time_that_is_none_are_refused(load: float, seconds: float) -> None:
    """0.8 for 80 per cent is caught, with the right way to write it."""
    with pytest.raises(ValueError, match=r"(load|seconds): .* write for example"):
        cuda.compute(load, seconds)


def test_a_reset_gives_all_back_and_the_next_use_starts_anew(machine: Machine, source: SimulatedSource) -> None:
    """Old buffers say that they are gone; the process no longer has the device open."""
    old = cuda.allocate("4MiB")
    me = myself().pid
    assert source.has_open([me]) == {me}
    cuda.device_reset()
    assert source.has_open([me]) == frozenset()
    assert used(machine) == 0
    with pytest.raises(cuda.CudaError, match="was reset"):
        old.read()
    new = cuda.allocate("4MiB")
    del old
    new.fill(seed=1)
    assert cuda.memory_allocated() == 4 * MIB


@pytest.mark.usefixtures("machine")
def test_threads_share_one_context_and_never_a_buffer() -> None:
    """Threads that allocate, write and free at once see only their own bytes."""
    wrong: list[str] = []

    def work(seed: int) -> None:
        for round_ in range(15):
            buffer = cuda.allocate((1 + round_ % 3) * MIB)
            buffer.fill(seed)
            if f"seed={seed} ".encode() not in buffer.read(0, 64):
                wrong.append(f"thread {seed}, round {round_}")
            buffer.free()

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert cuda.memory_allocated() == 0
    assert len(runtime.current().contexts) == 1
