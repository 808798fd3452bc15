"""The soak can fail: its witness sees what it is there to see, and its counting is honest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.devices.identity import identify
from jupyter_gpushare.devices.simulated.machine import Machine
from jupyter_gpushare.parking.simulated import SimulatedCheckpoint
from scripts.soak.bound import upper_bound
from scripts.soak.record import Block, append, next_seed, summed

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent.parent

#: Does what each line of its input says, and answers with one line.
PROGRAM = """
import sys, threading
from scripts.soak import inside
inside.begin([4096], 1)
print("ready", flush=True)
for line in sys.stdin:
    exec(line)
    print(inside.told() if "told" in line else "done", flush=True)
"""


class Kernel:
    """A program with the witness in it."""

    def __init__(self, machine: Path) -> None:
        env = {**os.environ, "GPUSHARE_SIMULATED_MACHINE": str(machine), "PYTHONPATH": str(ROOT)}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([sys.executable, "-c", PROGRAM], env=env, stdin=pipe, stdout=pipe, text=True)
        self.heard()

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def heard(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def told(self) -> Any:
        self.say("inside.told")
        return json.loads(self.heard())


@pytest.fixture(name="machine")
def _machine(tmp_path: Path) -> Path:
    Machine.create(tmp_path / "machine", copy_bytes_per_s=0).close()
    return tmp_path / "machine"


@pytest.fixture(name="kernel")
def _kernel(machine: Path) -> Iterator[Kernel]:
    kernel = Kernel(machine)
    with kernel.process:
        yield kernel
        kernel.process.kill()


def test_a_cell_that_begins_while_locked_is_seen(machine: Path, kernel: Kernel) -> None:
    """A message that passes every gate while the driver has locked the process is counted."""
    process = identify(kernel.process.pid)
    assert process is not None
    driver = SimulatedCheckpoint(machine)
    driver.lock(process, 5000)
    kernel.say("threading.Thread(target=inside.cell, args=('late', 0)).start()")
    kernel.heard()
    driver.unlock(process)
    driver.close()
    told = kernel.told()
    assert (told["began_away"], told["locked_under"], told["locks"], told["seen"]) == (1, 0, 1, [["late", 0]])


def test_a_lock_under_a_running_cell_is_seen(machine: Path, kernel: Kernel) -> None:
    """A park that begins while a cell runs, as without a barrier, is counted."""
    process = identify(kernel.process.pid)
    assert process is not None
    kernel.say("running = inside._witness.cell('early', 0); running.__enter__()")
    kernel.heard()
    driver = SimulatedCheckpoint(machine)
    driver.lock(process, 5000)
    driver.unlock(process)
    driver.close()
    told = kernel.told()
    assert (told["began_away"], told["locked_under"]) == (0, 1)


def test_memory_that_changes_is_seen(kernel: Kernel) -> None:
    """A single wrong byte is counted as damage."""
    kernel.say("inside._holding.buffers[0].write(bytes([1 ^ inside._holding.buffers[0].read(9, 1)[0]]), 9)")
    kernel.heard()
    kernel.say("inside.check()")
    kernel.heard()
    assert kernel.told()["damaged"] == 1


@pytest.mark.parametrize(("failures", "tries", "bound"), [(0, 5000, 5.9897e-4), (1, 100, 0.046559), (3, 3, 1.0)])
def test_the_bound_is_the_exact_one(failures: int, tries: int, bound: float) -> None:
    """The bound agrees with Clopper and Pearson's, and with the rule of three where nothing failed."""
    assert upper_bound(failures, tries) == pytest.approx(bound, rel=1e-3)


def test_counts_survive_and_seeds_go_on(tmp_path: Path) -> None:
    """Blocks are kept as they end, each part goes on after its own last seed, and violations are kept, too."""
    log = tmp_path / "build" / "soak.jsonl"
    for seed in (4, 5):
        block = Block("race", seed)
        block.counts["rounds"] += 10
        block.require(seed == 4, "it broke")
        append(block, log)
    assert (next_seed("race", log), next_seed("cycles", log)) == (6, 1)
    kept = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["violations"] for line in kept] == [[], ["it broke"]]
    assert summed([Block("race", 1), block]) == {"rounds": 10}
