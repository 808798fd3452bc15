"""Making and opening a simulated machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.devices.simulated.machine import DeviceSpec, Machine, MachineError
from jupyter_gpushare.devices.simulated.source import SimulatedSource
from jupyter_gpushare.devices.simulated.visible import visible_devices
from jupyter_gpushare.quantity import Memory

if TYPE_CHECKING:
    from pathlib import Path


def test_the_default_machine_has_two_devices_that_say_they_are_simulated(tmp_path: Path) -> None:
    """Nobody takes a demonstration for real hardware."""
    machine = Machine.create(tmp_path)
    assert [device.index for device in machine.devices] == [0, 1]
    assert all("simulated" in device.name and device.kind == "a100" for device in machine.devices)
    assert len({device.uuid for device in machine.devices}) == 2
    machine.close()


def test_a_machine_opened_again_is_the_same(tmp_path: Path) -> None:
    """Devices keep their UUIDs, so that leases and charts go on after a restart."""
    created = Machine.create(tmp_path)
    opened = Machine.open(tmp_path)
    assert opened.devices == created.devices
    assert opened.context_bytes == created.context_bytes
    created.close()
    opened.close()


@pytest.mark.parametrize("count", [0, 64])
def test_a_machine_may_have_no_device_or_many(tmp_path: Path, count: int) -> None:
    """Both ends of what servers meet can be tried."""
    machine = Machine.create(tmp_path, [DeviceSpec()] * count)
    source = SimulatedSource(tmp_path, {})
    assert len(source.devices()) == len(source.read()) == len(machine.devices) == count
    source.close()
    machine.close()


def test_indexes_count_on_each_host_and_a_process_sees_its_own_host(tmp_path: Path) -> None:
    """One directory can stand for several machines of a cluster."""
    machine = Machine.create(tmp_path, [DeviceSpec(host="a"), DeviceSpec(host="b"), DeviceSpec(host="b", kind="t4")])
    assert [(device.host, device.index) for device in machine.devices] == [("a", 0), ("b", 0), ("b", 1)]
    seen = visible_devices(machine.devices, {"GPUSHARE_SIMULATED_HOST": "b"})
    assert [device.kind for device in seen] == ["a100", "t4"]
    machine.close()


def test_usable_memory_is_total_less_the_reserve(tmp_path: Path) -> None:
    """Fractions are of what holders can get, not of what the box says."""
    machine = Machine.create(tmp_path, [DeviceSpec(total=Memory(16 << 30), reserve=Memory(600 << 20))])
    assert machine.devices[0].usable == Memory((16 << 30) - (600 << 20))
    machine.close()


def test_an_idle_machine_takes_next_to_no_disk(tmp_path: Path) -> None:
    """Eighty gigabytes of devices cost a laptop nothing until something is written."""
    Machine.create(tmp_path).close()
    assert sum(file.stat().st_blocks * 512 for file in tmp_path.rglob("*")) < 1 << 20


def test_a_directory_that_holds_something_is_refused(tmp_path: Path) -> None:
    """A mistyped path never mixes a machine into somebody's files."""
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(MachineError, match="is not empty"):
        Machine.create(tmp_path)


def test_a_directory_without_a_machine_says_how_to_make_one(tmp_path: Path) -> None:
    """A stale GPUSHARE_SIMULATED_MACHINE is explained."""
    with pytest.raises(MachineError, match=r"there is no simulated machine in .*: make one with"):
        Machine.open(tmp_path)


def test_a_creation_that_was_interrupted_leaves_no_machine(tmp_path: Path) -> None:
    """Half a machine is never taken for one."""
    machine = Machine.create(tmp_path)
    machine.close()
    (tmp_path / "machine.sqlite").rename(tmp_path / "unfinished.sqlite")
    with pytest.raises(MachineError, match="there is no simulated machine"):
        Machine.open(tmp_path)


def test_a_broken_state_file_is_refused_with_the_remedy(tmp_path: Path) -> None:
    """Damage gives a sentence, not a traceback of the database."""
    Machine.create(tmp_path).close()
    (tmp_path / "machine.sqlite").write_bytes(os.urandom(8192))
    with pytest.raises(MachineError, match="create a new one"):
        Machine.open(tmp_path)


def test_a_machine_of_another_layout_is_refused(tmp_path: Path) -> None:
    """A directory of an older version is not misread."""
    machine = Machine.create(tmp_path)
    with machine._store.writing() as connection:
        connection.execute("PRAGMA user_version = 99")
    machine.close()
    with pytest.raises(MachineError, match="layout 99"):
        Machine.open(tmp_path)


@pytest.mark.parametrize(("total", "reserve"), [(1 << 30, 1 << 30), (1 << 30, 2 << 30), (1 << 30, -1), (1 << 62, 0)])
def test_a_device_whose_reserve_is_no_part_of_its_memory_is_refused(total: int, reserve: int) -> None:
    """The message names the field and shows a right example."""
    with pytest.raises(ValueError, match=r"reserve: .* give for example 512MiB"):
        DeviceSpec(total=Memory(total), reserve=Memory(reserve))


def test_a_uuid_cannot_lead_out_of_the_machine() -> None:
    """A UUID names a file of the machine and nothing else."""
    with pytest.raises(ValueError, match="uuid: "):
        DeviceSpec(uuid="../../etc/passwd")


@pytest.mark.parametrize(
    ("listed", "seen"),
    [
        ("1", ["GPU-bb"]),
        ("1,0", ["GPU-bb", "GPU-ab"]),
        ("GPU-bb", ["GPU-bb"]),
        ("GPU-a", ["GPU-ab"]),
        ("GPU-", []),
        ("", []),
        ("-1", []),
        ("0,7,1", ["GPU-ab"]),
        ("0,0", []),
        ("none", []),
        ("٣", []),
        ("9" * 5000, []),
    ],
)
def test_cuda_visible_devices_is_read_as_cuda_reads_it(tmp_path: Path, listed: str, seen: list[str]) -> None:
    """Notebooks that choose their GPU by this variable behave as on a real one."""
    machine = Machine.create(tmp_path, [DeviceSpec(uuid="GPU-ab"), DeviceSpec(uuid="GPU-bb")])
    devices = visible_devices(machine.devices, {"CUDA_VISIBLE_DEVICES": listed})
    assert [device.uuid for device in devices] == seen
    machine.close()


def test_a_negative_speed_is_named_and_a_machine_keeps_its_own(tmp_path: Path) -> None:
    """How fast memory is parked is a setting of the machine, the same for all who open it."""
    with pytest.raises(ValueError, match="copy_bytes_per_s: -1 is negative; write 0"):
        Machine.create(tmp_path / "machine", copy_bytes_per_s=-1)
    Machine.create(tmp_path / "machine", copy_bytes_per_s=7).close()
    machine = Machine.open(tmp_path / "machine")
    assert machine.copy_bytes_per_s == 7
    machine.close()
