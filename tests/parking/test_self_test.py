"""The doctor's examination with real programs on the simulated machine, healthy and sabotaged."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.devices.simulated import faults
from jupyter_gpushare.devices.simulated.machine import DeviceSpec, Machine
from jupyter_gpushare.devices.simulated.source import SimulatedSource
from jupyter_gpushare.parking.examination import Diagnosis, Examination
from jupyter_gpushare.parking.qualification import Qualifications
from jupyter_gpushare.parking.remote_checkpoint import Deadlines, RemoteCheckpoint, checkpoint_command
from jupyter_gpushare.quantity import Memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_gpushare.parking.doctor import Row

SIZE = 8 << 20
# Generous: nothing here waits for it, except what is made to hang.
TRIAL_S = 60.0


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A small machine that copies in no time."""
    machine = Machine.create(
        tmp_path / "machine", [DeviceSpec(total=Memory(4 << 30), uuid="GPU-1")], context_bytes=64 << 20
    )
    yield machine
    machine.close()


def examine(machine: Machine, *, qualify: bool = False, trial_s: float = TRIAL_S) -> Diagnosis:
    """What the doctor finds on *machine*."""
    return asyncio.run(_examine(machine, qualify=qualify, trial_s=trial_s))


async def _examine(machine: Machine, *, qualify: bool, trial_s: float) -> Diagnosis:
    folder = machine.path.parent
    source = SimulatedSource(machine.path, environ={})
    remote = RemoteCheckpoint(
        checkpoint_command(machine.path, folder / "locks"), deadlines=Deadlines(copy_s=trial_s, small_s=trial_s)
    )
    try:
        return await Examination(
            source, remote, results(machine), simulated=str(machine.path), locks=str(folder / "locks"), size=SIZE,
            trial_s=trial_s,
        ).run(qualify=qualify)  # fmt: skip
    finally:
        await remote.aclose()
        source.close()


def results(machine: Machine) -> Qualifications:
    """Where trials on *machine* are written down."""
    return Qualifications(machine.path.parent / "results.json")


def row(diagnosis: Diagnosis, code: str) -> Row:
    """One row of the table."""
    return next(row for row in diagnosis.rows if row.code == code)


def left_behind(machine: Machine) -> list[str]:
    """The processes that still use *machine*."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            try:
                command = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if str(machine.path).encode() in command:
                found.append(command.decode())
    return found


def test_a_healthy_machine_is_parkable(machine: Machine) -> None:
    """A program is parked, leaves the device and comes back the same; nothing of it is left behind."""
    diagnosis = examine(machine)
    assert diagnosis.parkable
    assert row(diagnosis, "SELF_TEST").result == "ok"
    assert "contents as they were" in row(diagnosis, "SELF_TEST").found
    assert machine.occupancy.state().held == ()
    assert left_behind(machine) == []


def test_qualifying_makes_every_trial_and_writes_them_down(machine: Machine) -> None:
    """The risky trials are made only on request, and a driver that passes them is qualified from then on."""
    assert row(examine(machine), "QUALIFIED").result == "note"
    assert results(machine).outcomes("simulated") == {}
    diagnosis = examine(machine, qualify=True)
    assert [row.code for row in diagnosis.rows if row.result == "no"] == []
    assert diagnosis.qualified
    assert results(machine).is_qualified("simulated")
    assert results(machine).may_freeze("simulated")
    assert "SIGSEGV" in row(diagnosis, "BACKGROUND_SYNCHRONISE").found
    assert left_behind(machine) == []


def test_a_driver_that_hangs_at_kills_gets_its_checkpoint_first(machine: Machine) -> None:
    """Where killing a resumed program would hang the host, the doctor too checkpoints it before it ends it."""
    machine.inject(faults.DriverVersion("595.71.05"))
    diagnosis = examine(machine, qualify=True)
    assert "checkpointed again first" in row(diagnosis, "KILL_AFTER_RESUME").found
    assert row(diagnosis, "DEFECTS").result == "note"
    assert diagnosis.qualified


def test_an_obstacle_keeps_every_trial_from_being_made(machine: Machine) -> None:
    """On a driver known to damage programs nothing is tried, and each trial says because of what."""
    machine.inject(faults.DriverVersion("610.57.04"))
    diagnosis = examine(machine, qualify=True)
    assert not diagnosis.parkable
    for code in ("SELF_TEST", "KILL_AFTER_RESUME", "FREEZE", "BACKGROUND_SYNCHRONISE"):
        assert row(diagnosis, code).result == "skipped"
        assert "Known defects" in row(diagnosis, code).found
    assert results(machine).outcomes("610.57.04") == {}


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (faults.FailsAt("lock", "broken on purpose"), "broken on purpose"),
        (faults.FailsAt("checkpoint", "broken on purpose"), "broken on purpose"),
        (faults.FailsAt("claim", "broken on purpose"), "broken on purpose"),
        (faults.FailsAt("restore", "broken on purpose"), "broken on purpose"),
        (faults.FailsAt("unlock", "broken on purpose"), "broken on purpose"),
        (faults.DiesAt("restore", "before"), "ended"),
        (faults.DiesAt("checkpoint", "after"), "ended"),
        (faults.OwnerDiesAt("checkpoint"), "ended"),
        (faults.OutOfMemory(), "cannot use the GPU"),
        (faults.HostPids(), "does not list the trial program"),
    ],
    ids=lambda value: type(value).__name__ + getattr(value, "call", "") if isinstance(value, faults.Fault) else None,
)
def test_a_driver_that_fails_fails_the_self_test(machine: Machine, fault: faults.AnyFault, found: str) -> None:
    """Whichever step fails, the self-test says no with what was seen and a remedy, and leaves nothing behind."""
    machine.inject(fault)
    diagnosis = examine(machine)
    assert not diagnosis.parkable
    assert row(diagnosis, "SELF_TEST").result == "no"
    assert found in row(diagnosis, "SELF_TEST").found
    assert row(diagnosis, "SELF_TEST").remedy
    machine.clear()
    assert machine.occupancy.state().held == ()
    assert left_behind(machine) == []


@pytest.mark.parametrize("call", ["lock", "checkpoint", "restore"])
def test_a_driver_that_hangs_is_a_failure_and_not_a_hang(machine: Machine, call: faults.ParkingCall) -> None:
    """A call that never returns ends as a failure after its deadline, with every process gone."""
    machine.inject(faults.HangsAt(call))
    diagnosis = examine(machine, trial_s=3.0)
    assert row(diagnosis, "SELF_TEST").result == "no"
    assert "within" in row(diagnosis, "SELF_TEST").found
    machine.clear()
    assert left_behind(machine) == []


def test_a_failed_trial_is_written_down(machine: Machine) -> None:
    """A driver that failed is not qualified, and the table says so from then on."""
    machine.inject(faults.FailsAt("restore", "broken on purpose"))
    diagnosis = examine(machine, qualify=True)
    assert diagnosis.qualified is False
    assert not results(machine).outcomes("simulated")["SELF_TEST"].passed
    assert row(diagnosis, "KILL_AFTER_RESUME").result == "skipped"
    assert "did not pass" in row(diagnosis, "QUALIFIED").found


def test_a_machine_without_its_driver_says_so(machine: Machine) -> None:
    """When the driver is gone the rows about it say no with its reason, and nothing is tried."""
    machine.inject(faults.DriverAbsent("unplugged"))
    diagnosis = examine(machine)
    assert {row.code for row in diagnosis.rows if row.result == "no"} == {"DRIVER", "DEVICES", "CHECKPOINT"}
    assert row(diagnosis, "DRIVER").found == "unplugged"
    assert row(diagnosis, "SELF_TEST").result == "skipped"
