"""The other holder that moves on the same GPU."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from .conftest import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jupyter_gpushare.devices.simulated.machine import Machine
    from jupyter_gpushare.devices.simulated.source import SimulatedSource

    from .conftest import Program

MIB = 1 << 20
CONTEXT = 256 * MIB


@pytest.fixture
def holder(machine: Machine) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts holders, and ends them after the test."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "jupyter_gpushare.devices.simulated.holder", *arguments]
        environ = {**os.environ, "GPUSHARE_SIMULATED_MACHINE": str(machine.path)}
        started.append(
            subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def first_line(process: subprocess.Popen[str]) -> str:
    """What it says once it holds its memory."""
    assert process.stdout
    return process.stdout.readline()


def test_it_holds_what_it_was_told_and_says_so(
    holder: Callable[..., subprocess.Popen[str]], source: SimulatedSource
) -> None:
    """A demonstration knows when its neighbour is there."""
    process = holder("--device", "1", "--memory", "512MiB")
    assert first_line(process) == "holding 512MiB of simulated A100-40 (GPU 1)\n"
    use = source.read()[1]
    assert use.memory.value == CONTEXT + 512 * MIB
    assert [one.pid for one in use.processes or ()] == [process.pid]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_frees_all_when_told_to_stop(
    holder: Callable[..., subprocess.Popen[str]], source: SimulatedSource, number: signal.Signals
) -> None:
    """Its end is quiet and good, in the middle of a computation too."""
    process = holder("--memory", "512MiB", "--wave")
    first_line(process)
    wait_until(lambda: (source.read()[0].utilisation.value or 0) > 0, "it to compute")
    process.send_signal(number)
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 0
    assert source.read()[0].memory.value == 0


def test_it_grows_and_shrinks_in_waves(holder: Callable[..., subprocess.Popen[str]], source: SimulatedSource) -> None:
    """What others hold moves, so that a sidebar has something to show."""
    first_line(holder("--memory", "512MiB", "--wave", "--period", "1"))
    seen: set[int | None] = set()

    def moved() -> bool:
        seen.add(source.read()[0].memory.value)
        return len(seen) >= 3

    wait_until(moved, "three different heights")
    assert max(held or 0 for held in seen) <= CONTEXT + 512 * MIB
    assert None not in seen


def test_it_lives_with_a_full_device(
    holder: Callable[..., subprocess.Popen[str]], program: Callable[..., Program]
) -> None:
    """Where others have the memory it takes what is there and says what it lacks."""
    program().run("b = cuda.allocate('2GiB')")
    process = holder("--memory", "2GiB")
    assert "out of memory" in first_line(process)
    assert first_line(process) == "holding 512MiB of simulated A100-40 (GPU 0)\n"


@pytest.mark.parametrize(("arguments", "message"), [(["--memory", "lots"], "lots"), (["--device", "9"], "device: 9")])
def test_bad_arguments_are_named(
    holder: Callable[..., subprocess.Popen[str]], arguments: list[str], message: str
) -> None:
    """A typo is answered with a sentence and a failure, not a traceback."""
    process = holder(*arguments)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode != 0
    assert message in errors
    assert "Traceback" not in errors
