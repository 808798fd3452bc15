"""The doctor's checks, each by what it sees, without any driver."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from jupyter_gpushare.devices.device import Device, DeviceUse, Driver, DriverState, ProcessUse, Reading
from jupyter_gpushare.parking.checkpoint import CheckpointDriver
from jupyter_gpushare.parking.doctor import CHECKS, Row, diagnose, obstacles
from jupyter_gpushare.parking.seen import HostSeen, Seen, look_at_host
from jupyter_gpushare.quantity import Memory

GIB = 1 << 30
DEVICE = Device("GPU-1", 0, "host", "h200", "NVIDIA H200", Memory(141 * GIB), Memory(140 * GIB))
USE = DeviceUse("GPU-1", Reading.exact(0), Reading.exact(0), ())
HOLDER = ProcessUse(7, Reading.exact(8 * 10**9), Reading.exact(0))
HEALTHY = Seen(
    host=HostSeen(
        architecture="x86_64",
        bindings="13.5.0",
        uid=1000,
        host_pids=True,
        ptrace_scope="",
        persistence="Enabled",
        mps=(),
        mps_listens=False,
        available=500 * GIB,
        total=1000 * GIB,
        headroom=None,
        locks="/run/lock/gpushare",
        locks_problem="",
    ),
    driver=Driver("nvidia", DriverState.READY, "611.10"),
    checkpoint=CheckpointDriver("nvidia", "611.10", "13.3"),
    checkpoint_problem="",
    devices=(DEVICE,),
    uses=(USE,),
)


def host(**values: Any) -> Seen:
    """What is seen of a host that differs from a healthy one."""
    return replace(HEALTHY, host=replace(HEALTHY.host, **values))


def seen(**values: Any) -> Seen:
    """The same for its driver and devices."""
    return replace(HEALTHY, **values)


def not_ok(what: Seen) -> list[Row]:
    """The rows that are not simply fine."""
    return [row for row in diagnose(what) if row.result != "ok"]


def test_a_healthy_host_has_every_row_fine() -> None:
    """On a host with everything in order each row is fine, and none asks for anything."""
    rows = diagnose(HEALTHY)
    assert not_ok(HEALTHY) == []
    assert [row.code for row in rows] == [code for code, _, _ in CHECKS]
    assert all(row.found and not row.remedy for row in rows)


@pytest.mark.parametrize(
    ("what", "code", "found"),
    [
        (host(architecture="aarch64"), "ARCHITECTURE", "aarch64"),
        (host(bindings=""), "BINDINGS", "cuda-bindings is not installed"),
        (host(mps_listens=True, mps=(5,)), "MPS", "becomes its client"),
        (host(available=GIB // 2), "HOST_MEMORY", "0.5 GB available"),
        (host(headroom=0), "CONTROL_GROUP", "0.0 GB"),
        (host(locks="", locks_problem="/run/lock is full"), "LOCKS", "/run/lock is full"),
        (seen(driver=Driver("none", DriverState.ABSENT, reason="No driver. Get one.")), "DRIVER", "No driver"),
        (seen(driver=Driver("nvidia", DriverState.LOST, reason="It stopped.")), "DRIVER", "It stopped"),
        (seen(checkpoint=None, checkpoint_problem="it ended at once"), "CHECKPOINT", "it ended at once"),
        (seen(checkpoint=CheckpointDriver("nvidia", "565.57")), "CHECKPOINT", "565.57 is older than 570"),
        (seen(checkpoint=CheckpointDriver("nvidia", missing="no libcuda.so.1.")), "CHECKPOINT", "no libcuda.so.1"),
        (seen(checkpoint=CheckpointDriver("nvidia", "610.57.04")), "DEFECTS", "issue 58"),
        (seen(devices=(replace(DEVICE, is_mig=True),)), "DEVICES", "MIG instances only"),
        (seen(uses=(structs.replace(USE, processes=None, processes_reason="other pids"),)), "PROCESSES", "other pids"),
    ],
)
def test_what_stands_against_parking_says_no_with_a_remedy(what: Seen, code: str, found: str) -> None:
    """Each obstacle by itself makes its own row say no, what was found, and what helps."""
    against = obstacles(diagnose(what))
    assert [row.code for row in against] == [code]
    assert found in against[0].found
    assert against[0].remedy.endswith((".", "'jupyter_gpushare[gpu]'"))


@pytest.mark.parametrize(
    ("what", "code", "found"),
    [
        (seen(checkpoint=CheckpointDriver("nvidia", "595.71.05")), "DEFECTS", "issue 53"),
        (seen(devices=(DEVICE, replace(DEVICE, uuid="MIG-1", is_mig=True))), "DEVICES", "1 of them MIG"),
        (seen(uses=(structs.replace(USE, processes=(HOLDER,)),)), "NEIGHBOURS", "1 process holds 8.0 GB"),
        (host(host_pids=False), "PROCESSES", "may not be those"),
        (host(mps=(5, 6)), "MPS", "process 5, 6"),
        (host(ptrace_scope="1"), "USER", "ptrace_scope 1"),
        (host(persistence="Disabled"), "PERSISTENCE", "disabled"),
        (host(available=100 * GIB), "HOST_MEMORY", "less than one full GPU"),
        (host(available=None), "HOST_MEMORY", "does not say"),
        (host(total=None), "BUDGET", "no bound"),
        (host(headroom=20 * GIB), "CONTROL_GROUP", "21.5 GB"),
    ],
)
def test_what_somebody_should_know_is_a_note(what: Seen, code: str, found: str) -> None:
    """What makes parking harder but not impossible is noted, and does not turn the answer to no."""
    rows = not_ok(what)
    assert [(row.code, row.result) for row in rows] == [(code, "note")]
    assert found in rows[0].found


def test_the_defects_of_a_driver_are_noted_together() -> None:
    """All that is known of a driver's branch is in one row, since an admin decides on the whole."""
    (row,) = not_ok(seen(checkpoint=CheckpointDriver("nvidia", "570.86")))
    assert "issues 24 and 34" in row.found
    assert "issue 56" in row.found


def test_without_a_driver_it_is_said_exactly_what_is_missing() -> None:
    """On a machine without a GPU the rows that say no are the driver, the GPUs and the checkpoint, each with why."""
    bare = seen(
        driver=Driver("none", DriverState.ABSENT, reason="No GPU driver is installed. Install one."),
        checkpoint=CheckpointDriver("nvidia", missing="libcuda.so.1 is not there"),
        devices=(),
        uses=(),
    )
    against = obstacles(diagnose(bare))
    assert [(row.code, row.found) for row in against] == [
        ("DRIVER", "No GPU driver is installed"),
        ("DEVICES", "no GPU can be seen"),
        ("CHECKPOINT", "libcuda.so.1 is not there"),
    ]
    assert against[0].remedy == "Install one."


def test_a_simulated_machine_needs_nothing_of_a_real_driver() -> None:
    """On the simulated machine no row fails for want of NVIDIA's parts, whatever the host is."""
    simulated = replace(
        host(architecture="aarch64", bindings="", persistence="", available=2 * GIB),
        driver=Driver("simulated", DriverState.READY, "simulated"),
        checkpoint=CheckpointDriver("simulated"),
    )
    assert obstacles(diagnose(simulated)) == []


def test_this_host_can_be_looked_at(tmp_path: Any) -> None:
    """The look itself works on a real host, and says when the directory for locks cannot be used."""
    found = look_at_host(simulated=False, locks=tmp_path / "locks")
    assert found.architecture
    assert found.available
    assert found.total
    assert found.locks == str(tmp_path / "locks")
    (tmp_path / "file").touch()
    broken = look_at_host(simulated=True, locks=tmp_path / "file")
    assert broken.locks == ""
    assert "file" in broken.locks_problem
