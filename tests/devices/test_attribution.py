"""Whose is the memory? Sums that never say too little, and lists that lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpushare.devices.attribution import FOREIGN_NAMESPACE, NO_DEVICE, Attributed, Owner, attribute
from jupyter_gpushare.devices.device import Attribution, DeviceUse, ProcessUse, Reading
from jupyter_gpushare.devices.nvml import NvmlSource
from tests.devices.fake_nvml import FakeGpu, NvmlLiesAboutPids

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

GIB = 1 << 30
KERNEL_A = Owner("kernel", "a")
KERNEL_B = Owner("kernel", "b")
TERMINAL = Owner("terminal", "1")
SERVER = Owner("server", "")
OURS = {1: SERVER, 10: KERNEL_A, 11: KERNEL_A, 20: KERNEL_B, 30: TERMINAL}
UNKNOWN = Reading.unavailable("the driver does not say")


def process(pid: int, memory: int | Reading = GIB, utilisation: int | Reading = 0) -> ProcessUse:
    """A process as the driver lists it."""
    return ProcessUse(pid, _reading(memory), _reading(utilisation))


def device(
    uuid: str, *processes: ProcessUse, used: int | Reading | None = None, unlisted: str | None = None
) -> DeviceUse:
    """A device that is used by its processes and, if *used* says so, by more."""
    if used is None:
        used = sum(p.memory.value or 0 for p in processes)
    listed = None if unlisted else processes
    return DeviceUse(uuid, _reading(used), Reading.exact(0), listed, unlisted or "")


def _reading(value: int | Reading) -> Reading:
    return Reading.exact(value) if isinstance(value, int) else value


def divide(
    *uses: DeviceUse,
    owners: Mapping[int, Owner] = OURS,
    opened: Collection[int] = (10, 11, 20, 30),
    host_pids: bool = False,
) -> Attributed:
    """What the session of *owners* is given, where the processes *opened* have a device open."""

    def has_open(pids: Collection[int]) -> frozenset[int]:
        return frozenset(pids) & frozenset(opened)

    return attribute(uses, owners.get, has_open=has_open, roots=[1, 10, 20, 30], host_pids=host_pids)


def owner_memory(attributed: Attributed) -> dict[Owner, int | None]:
    """What each owner holds."""
    return {use.owner: use.memory.value for use in attributed.owners}


def test_each_owner_gets_its_own_processes_and_nobody_the_device_total() -> None:
    """A kernel's row shows what its own processes hold, children included, however full the device is."""
    found = divide(device("g", process(10, 3), process(11, 4), process(20, 5), process(99, 100), used=200))
    assert owner_memory(found) == {KERNEL_A: 7, KERNEL_B: 5}
    assert found.owners[0].pids == (10, 11)
    assert (found.memory.value, found.memory.attribution) == (12, Attribution.EXACT)
    (split,) = found.devices
    assert (split.mine.value, split.others.value, split.other_holders) == (12, 188, 1)
    assert found.trusted


def test_an_owner_on_two_devices_has_one_sum_and_a_part_on_each() -> None:
    """A kernel that computes on two GPUs shows both parts and their sum."""
    found = divide(device("g", process(10, 3)), device("h", process(10, 4), process(30, 1)))
    kernel = found.owners[0]
    assert kernel.memory.value == 7
    assert {uuid: part.value for uuid, part in kernel.by_device.items()} == {"g": 3, "h": 4}
    assert [split.mine.value for split in found.devices] == [3, 5]


def test_one_unknown_part_makes_every_sum_over_it_unknown_and_no_other() -> None:
    """A sum with a hole would say too little and somebody would lend on it: it has no number, but a reason."""
    found = divide(device("g", process(10, UNKNOWN), process(20, 5), used=50))
    assert owner_memory(found) == {KERNEL_A: None, KERNEL_B: 5}
    assert found.owners[0].memory.reason == UNKNOWN.reason
    assert found.memory.value is None
    assert found.devices[0].mine.value is None
    assert found.devices[0].others.value is None


def test_a_device_without_a_list_leaves_the_session_without_a_total() -> None:
    """If one device cannot list its processes, what is known elsewhere stays and the rest says why not."""
    found = divide(device("g", process(10, 3)), device("h", used=GIB, unlisted="broken list"))
    kernel = found.owners[0]
    assert (kernel.by_device["g"].value, kernel.memory.value) == (3, None)
    assert [split.mine.value for split in found.devices] == [3, None]
    assert found.devices[1].other_holders is None
    assert (found.memory.value, found.utilisation.value) == (None, None)
    assert (found.trusted, found.reason) == (False, "broken list")


def test_others_are_never_negative() -> None:
    """The device's total is read a moment before its processes: a new allocation must not show as minus."""
    (split,) = divide(device("g", process(10, 9), used=5)).devices
    assert split.others.value == 0


def test_a_listed_number_that_has_no_device_open_is_somebody_elses() -> None:
    """A host process that by chance has the number of one of ours counts as others'."""
    found = divide(device("g", process(20, 5), process(10, 3)), opened=[10])
    assert owner_memory(found) == {KERNEL_A: 3}
    assert (found.devices[0].mine.value, found.devices[0].others.value) == (3, 5)
    assert found.devices[0].other_holders == 1


def test_lists_of_another_namespace_are_not_believed() -> None:
    """In a container without host pids a kernel that holds a device is never shown with zero, but with the reason."""
    found = divide(device("g", process(4242, 7 * GIB)), opened=[10])
    assert not found.trusted
    assert found.reason == FOREIGN_NAMESPACE
    assert owner_memory(found) == {KERNEL_A: None}
    assert (found.memory.value, found.memory.reason) == (None, FOREIGN_NAMESPACE)
    assert (found.devices[0].mine.value, found.devices[0].others.value) == (None, None)
    assert found.devices[0].other_holders is None


def test_an_empty_list_over_used_memory_is_not_believed_either() -> None:
    """Some containers list nobody at all: memory that nobody holds, beside a kernel with the device open, is doubt."""
    assert not divide(device("g", used=GIB), opened=[20]).trusted


def test_a_kernel_that_only_opened_an_empty_device_holds_nothing() -> None:
    """Opening the driver is not holding memory: on an idle device everybody's zero is exact."""
    found = divide(device("g", used=1 << 20), opened=[10])
    assert found.trusted
    assert (found.memory.value, found.memory.attribution) == (0, Attribution.EXACT)


def test_the_server_reading_the_driver_is_no_witness() -> None:
    """Our own sampler has the devices open; a neighbour's use must not make a session without use unknown."""
    found = divide(device("g", process(4242, GIB)), opened=[1])
    assert found.trusted
    assert (found.memory.value, found.devices[0].others.value) == (0, GIB)


def test_known_host_pids_need_no_proof() -> None:
    """On a plain host a kernel that only asked whether CUDA is there shows an exact zero beside a busy neighbour."""
    found = divide(device("g", process(4242, GIB)), opened=[10], host_pids=True)
    assert found.trusted
    assert found.memory.value == 0


def test_a_driver_that_lies_about_pids_is_found_out() -> None:
    """With a driver that reports shifted numbers, a session that holds the device is unknown, never zero or foreign."""
    nvml = NvmlSource(NvmlLiesAboutPids([FakeGpu("g", compute={10: GIB, 20: GIB})], offset=5000), environ={})
    assert divide(*nvml.read(), opened=[10, 20]).reason == FOREIGN_NAMESPACE
    honest = NvmlSource(NvmlLiesAboutPids([FakeGpu("g", compute={10: GIB, 20: GIB})], offset=0), environ={})
    assert divide(*honest.read(), opened=[10, 20]).memory.value == 2 * GIB


def test_utilisation_is_capped_per_device_and_averaged_over_held_devices() -> None:
    """Two devices at full load read 100, one of two at full load 50, whatever the samples of processes add up to."""
    full = divide(device("g", process(10, 1, 80), process(11, 1, 70)), device("h", process(10, 1, 100)), device("i"))
    assert full.utilisation.value == 100
    assert full.owners[0].utilisation.value == 100
    half = divide(device("g", process(10, 1, 100)), device("h", process(10, 1, 0)))
    assert half.utilisation.value == 50
    assert divide(device("g", process(10, 1, UNKNOWN))).utilisation.value is None


def test_without_devices_nothing_is_known() -> None:
    """No GPU, or a lost driver without a known device: not zero, but not available."""
    found = divide()
    assert (found.memory.value, found.reason, found.trusted) == (None, NO_DEVICE, False)


def test_a_sum_is_labelled_as_its_worst_part() -> None:
    """A number that is partly from inside the kernel does not claim that the driver gave it."""
    part = Reading(2, Attribution.IN_KERNEL, "asked in the kernel")
    found = divide(device("g", process(10, 3), process(11, part)))
    assert (found.memory.value, found.memory.attribution) == (5, Attribution.IN_KERNEL)


readings = st.one_of(st.integers(0, 40 * GIB).map(Reading.exact), st.just(UNKNOWN))
processes = st.builds(ProcessUse, st.sampled_from([10, 11, 20, 30, 98, 99]), readings, readings)
devices = st.lists(
    st.builds(
        DeviceUse,
        st.sampled_from(["g", "h", "i"]),
        readings,
        readings,
        st.one_of(st.none(), st.lists(processes, max_size=5, unique_by=lambda p: p.pid).map(tuple)),
        st.just("no list"),
    ),
    max_size=3,
    unique_by=lambda d: d.uuid,
)


@given(devices)
def test_parts_and_totals_agree_whatever_the_driver_says(uses: Sequence[DeviceUse]) -> None:
    """Owners add up to the session and devices to the session; nothing is negative; no number without its parts."""
    found = divide(*uses)
    parts = [use.memory.value for use in found.owners]
    if found.memory.value is not None:
        assert found.memory.value == sum(split.mine.value or 0 for split in found.devices)
        assert found.memory.value == sum(part or 0 for part in parts)
    else:
        assert found.memory.reason
    assert found.trusted == (bool(uses) and all(use.processes is not None for use in uses) and not found.reason)
    for split in found.devices:
        assert split.others.value is None or split.others.value >= 0
