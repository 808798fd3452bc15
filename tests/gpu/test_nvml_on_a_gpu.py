"""NVML on a real NVIDIA GPU: devices, memory, and the use of single processes."""

from __future__ import annotations

import importlib.util
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.devices.attribution import FOREIGN_NAMESPACE, Attributed, Owner, attribute
from jupyter_gpushare.devices.device import DriverState
from jupyter_gpushare.devices.process_tree import ProcessTree, in_host_pid_namespace
from tests.gpu.driven import Driven, holding, until

if TYPE_CHECKING:
    from jupyter_gpushare.devices.nvml import NvmlSource

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(90)]

GIB = 1 << 30
KERNEL = Owner("kernel", "a")
FRAMEWORKS = ["bindings", *(["torch"] if importlib.util.find_spec("torch") else [])]


def attributed(source: NvmlSource, holder: Driven) -> Attributed:
    """The session's use with *holder* as its kernel."""
    roots = {os.getpid(): Owner("server", ""), holder.pid: KERNEL}
    tree = ProcessTree()
    return attribute(
        source.read(),
        lambda pid: tree.owner_of(pid, roots),
        has_open=source.has_open,
        roots=roots,
        host_pids=in_host_pid_namespace(),
    )


def held_by(source: NvmlSource, holder: Driven) -> int:
    """What the kernel is said to hold; an honest "cannot be known" in a container without host pids ends the test."""
    found = attributed(source, holder)
    if not found.trusted:
        pytest.xfail(f"the lists are of another namespace, and we say so: {found.reason}")
    return next((use.memory.value or 0 for use in found.owners if use.owner == KERNEL), 0)


def test_every_device_has_what_people_need(source: NvmlSource, figures: dict[str, Any]) -> None:
    """UUID, kind and memory are there, the driver's reserve is a small part, and no reading is missing needlessly."""
    assert source.driver().state is DriverState.READY
    devices = source.devices()
    assert devices
    figures["devices"] = [
        {"name": d.name, "kind": d.kind, "total": d.total.bytes, "usable": d.usable.bytes, "mig": d.is_mig}
        for d in devices
    ]
    for device in devices:
        assert device.uuid.startswith(("GPU-", "MIG-"))
        assert device.kind != "gpu"
        assert 0.9 * device.total.bytes <= device.usable.bytes <= device.total.bytes
    for use in source.read():
        assert use.memory.value is not None, use.memory.reason


def test_reading_is_cheap(source: NvmlSource, figures: dict[str, Any]) -> None:
    """What one reading costs on this driver is measured; at most four calls a device, and one more in ten readings."""
    source.read()
    calls, cpu, began = source.calls, time.process_time(), time.monotonic()
    for _ in range(50):
        source.read()
    figures["read"] = {
        "cpu_ms": (time.process_time() - cpu) / 50 * 1e3,
        "wall_ms": (time.monotonic() - began) / 50 * 1e3,
        "calls": (source.calls - calls) / 50,
    }
    assert source.calls - calls <= 50 * 4.1 * len(source.devices())


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_process_shows_with_its_own_memory_and_is_gone_after_its_end(
    source: NvmlSource, figures: dict[str, Any], framework: str
) -> None:
    """One GiB in a process appears in its own row, with its context, and disappears when it ends."""
    with holding(framework) as holder:
        holder.do(f"hold {GIB}")
        appeared = until(lambda: held_by(source, holder) >= GIB, "the process's memory")
        held = held_by(source, holder)
        assert held < 4 * GIB
        assert holder.pid in source.has_open([holder.pid])
        (row,) = [use for use in attributed(source, holder).owners if use.owner == KERNEL]
        assert row.pids == (holder.pid,)
    gone = until(lambda: held_by(source, holder) == 0, "the end of its memory")
    figures[f"process_{framework}"] = {"held": held, "context": held - GIB, "appeared_s": appeared, "gone_s": gone}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_busy_process_shows_utilisation_and_an_idle_one_zero(
    source: NvmlSource, figures: dict[str, Any], framework: str
) -> None:
    """Work shows in the kernel's own utilisation while it runs and an idle holder reads zero again afterwards."""
    if any(device.is_mig for device in source.devices()):
        pytest.xfail("the driver gives no utilisation for MIG instances")

    def utilisation(holder: Driven) -> int:
        return max((use.utilisation.value or 0 for use in attributed(source, holder).owners), default=0)

    with holding(framework) as holder:
        holder.do(f"hold {GIB}")
        held_by(source, holder)
        holder.order("work 15")
        rose = until(lambda: utilisation(holder) >= 20, "utilisation")
        holder.wait()
        fell = until(lambda: utilisation(holder) == 0, "the end of utilisation")
    figures[f"utilisation_{framework}"] = {"rose_s": rose, "fell_s": fell}


def test_which_device_files_each_state_opens(source: NvmlSource, figures: dict[str, Any]) -> None:
    """Attribution takes open device files for evidence: what NVML, cuInit and a context open is put on record."""
    figures["open_files"] = {"nvml": device_files(os.getpid())}
    with holding("bindings") as holder:
        holder.do("init")
        figures["open_files"]["cuInit"] = device_files(holder.pid)
        holder.do(f"hold {GIB}")
        figures["open_files"]["context"] = device_files(holder.pid)
        assert source.has_open([holder.pid]) == {holder.pid}


def device_files(pid: int) -> list[str]:
    """Which of the driver's files the process has open."""
    links = [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()]
    return sorted({link for link in links if link.startswith("/dev/nvidia") or link == "/dev/dxg"})


def test_in_a_container_the_session_says_what_it_cannot_know(source: NvmlSource, figures: dict[str, Any]) -> None:
    """Either the holder's own memory is exact, or the whole session is "not available" with the reason: never zero."""
    with holding("bindings") as holder:
        holder.do(f"hold {GIB}")
        found = attributed(source, holder)
        figures["pid_namespace"] = {"host": in_host_pid_namespace(), "trusted": found.trusted}
        if found.trusted:
            assert found.memory.value is not None
            assert found.memory.value >= GIB
        else:
            assert found.memory.value is None
            assert found.reason == FOREIGN_NAMESPACE
