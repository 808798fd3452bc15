"""``jupyter gpushare doctor`` as people run it: its table, its JSON, its exit code, and what it asks first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.devices.simulated import faults
from jupyter_gpushare.devices.simulated.machine import DeviceSpec, Machine
from jupyter_gpushare.parking.doctor import CHECKS
from jupyter_gpushare.quantity import Memory
from tests.demo.conftest import make_places, run_command

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterator

TRIALS = ["SELF_TEST", "KILL_AFTER_RESUME", "FREEZE", "BACKGROUND_SYNCHRONISE"]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """A small simulated machine."""
    machine = Machine.create(tmp_path / "machine", [DeviceSpec(total=Memory(4 << 30), uuid="GPU-1")])
    yield machine
    machine.close()


@pytest.fixture
def doctor(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command with some arguments, in places of this test's own."""
    places = make_places(tmp_path)
    locks = ["--locks", str(tmp_path / "locks")]
    return lambda *arguments, **more: run_command(places | more, "doctor", *locks, *arguments)


def report(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The JSON that a command printed, checked for its constant shape."""
    content: dict[str, Any] = json.loads(done.stdout)
    assert list(content) == ["schema", "version", "parkable", "qualified", "simulated", "host", "driver", "checks"]
    assert content["schema"] == 1
    for check in content["checks"]:
        assert list(check) == ["code", "title", "result", "found", "remedy"]
        assert check["result"] in {"ok", "note", "no", "skipped"}
    return content


def against(content: dict[str, Any]) -> list[str]:
    """The codes of the rows that say no."""
    return [check["code"] for check in content["checks"] if check["result"] == "no"]


def test_a_simulated_machine_is_parkable(
    doctor: Callable[..., subprocess.CompletedProcess[str]], machine: Machine
) -> None:
    """The machine that the environment names is examined, found parkable with exit code 0, and described as simulated."""
    done = doctor("--json", GPUSHARE_SIMULATED_MACHINE=str(machine.path))
    content = report(done)
    assert (done.returncode, content["parkable"], content["simulated"]) == (0, True, True)
    assert [check["code"] for check in content["checks"]] == [
        *(code for code, _, _ in CHECKS), "SELF_TEST", "QUALIFIED",
    ]  # fmt: skip
    assert against(content) == []


def test_a_fault_is_found_in_its_row(doctor: Callable[..., subprocess.CompletedProcess[str]], machine: Machine) -> None:
    """A driver that fails makes exit code 1, and the table names the row, what was seen, and what helps, in words."""
    machine.inject(faults.FailsAt("restore", "broken on purpose"))
    done = doctor("--simulated", str(machine.path))
    assert done.returncode == 1
    line = next(line for line in done.stdout.splitlines() if "Self-test" in line)
    assert "✗ no" in line
    assert "broken on purpose" in line
    assert "Notebooks cannot be parked here, because of: Self-test." in done.stdout


@pytest.mark.skipif(Path("/proc/driver/nvidia/version").exists(), reason="this machine has NVIDIA's driver")
def test_without_a_gpu_it_says_exactly_what_is_missing(doctor: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """On a machine without a GPU the driver, the GPUs and the checkpoint are named, and nothing is tried."""
    done = doctor("--json")
    content = report(done)
    assert (done.returncode, content["parkable"], content["qualified"]) == (1, False, None)
    rows = {check["code"]: check for check in content["checks"]}
    assert (
        {"DRIVER", "DEVICES", "CHECKPOINT"} <= set(against(content)) <= {"DRIVER", "DEVICES", "CHECKPOINT", "BINDINGS"}
    )
    assert rows["DRIVER"]["remedy"]
    assert "libcuda" in rows["CHECKPOINT"]["found"] or "cuda-bindings" in rows["CHECKPOINT"]["found"]
    assert rows["SELF_TEST"]["result"] == "skipped"
    assert rows["SELF_TEST"]["found"].startswith("not tried, because of GPU driver")


def test_a_directory_without_a_machine_is_said_to_be_none(
    doctor: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """A wrong --simulated is answered with rows that say so, not with a traceback."""
    done = doctor("--json", "--simulated", str(tmp_path / "nowhere"))
    assert done.returncode == 1
    assert {"DRIVER", "CHECKPOINT"} <= set(against(report(done)))
    assert "Traceback" not in done.stderr


def test_risky_trials_are_explained_and_wait_for_a_yes(
    doctor: Callable[..., subprocess.CompletedProcess[str]], machine: Machine
) -> None:
    """Without a terminal and without --yes nothing risky is tried, and what would have been is explained."""
    done = doctor("--qualify", "--simulated", str(machine.path))
    assert done.returncode == 1
    assert "hung the whole host" in done.stderr
    assert "--yes" in done.stderr
    assert "Can notebooks be parked" not in done.stdout


def test_qualifying_is_remembered(doctor: Callable[..., subprocess.CompletedProcess[str]], machine: Machine) -> None:
    """After --qualify --yes every trial has its row, and a later plain run knows that the driver passed."""
    done = doctor("--qualify", "--yes", "--json", "--simulated", str(machine.path))
    content = report(done)
    assert (done.returncode, content["qualified"]) == (0, True)
    assert [check["code"] for check in content["checks"]][-5:] == [*TRIALS, "QUALIFIED"]
    later = report(doctor("--json", "--simulated", str(machine.path)))
    assert later["qualified"] is True
    assert later["checks"][-1]["result"] == "ok"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [(["--size", "lots"], "--size"), (["--size", "0MiB"], "--size"), (["--deadline", "0"], "--deadline")],
)
def test_a_wrong_option_is_named(
    doctor: Callable[..., subprocess.CompletedProcess[str]], arguments: list[str], named: str
) -> None:
    """An option that makes no sense is named with a right example, before anything is looked at."""
    done = doctor(*arguments)
    assert done.returncode == 1
    assert named in done.stderr
    assert "write for example" in done.stderr
