"""What a job's owner sends reaches the job, and Ctrl-C twice ends it."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.training.signals import OwnerSignals
from tests.training.conftest import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PATIENT_S = 60.0


class Job:
    """Notes what it gets."""

    def __init__(self, *, runs: bool = True, is_parked: bool = False) -> None:
        self.runs, self.is_parked = runs, is_parked
        self.got: list[signal.Signals] = []
        self.ended: list[signal.Signals] = []

    def forward(self, number: signal.Signals) -> bool:
        """It runs, or it does not."""
        if self.runs:
            self.got.append(number)
        return self.runs

    def end(self, number: signal.Signals) -> None:
        """Its owner ends it."""
        self.ended.append(number)


def test_ctrl_c_goes_to_the_job_and_a_second_one_ends_it() -> None:
    """The job may act on the first as it likes; the second is not left to it."""
    job, told = Job(), list[str]()
    signals = OwnerSignals(job, told.append)
    signals.take(signal.SIGINT)
    assert (job.got, job.ended) == ([signal.SIGINT], [])
    assert "again" in told[0]
    signals.take(signal.SIGINT)
    assert (job.got, job.ended) == ([signal.SIGINT], [signal.SIGINT])


def test_ctrl_c_spares_a_parked_job_once() -> None:
    """Nothing may reach it while its GPU is away, and ending it needs a confirmation."""
    job, told = Job(runs=False, is_parked=True), list[str]()
    signals = OwnerSignals(job, told.append)
    signals.take(signal.SIGINT)
    assert job.ended == []
    assert "nothing of it is lost" in told[0]
    signals.take(signal.SIGINT)
    assert job.ended == [signal.SIGINT]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_whoever_waits_leaves_at_once(number: signal.Signals) -> None:
    """Without a job there is nobody to ask."""
    job = Job(runs=False)
    OwnerSignals(job, lambda _: None).take(number)
    assert job.ended == [number]


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGCONT])
def test_other_signals_are_the_jobs_own(number: signal.Signals) -> None:
    """They are passed on and mean nothing to us."""
    job = Job()
    OwnerSignals(job, lambda _: None).take(number)
    assert (job.got, job.ended) == ([number], [])


# A supervisor's terminal alone: it starts a child in a group of its own and gives it the terminal when that reads.
PROGRAM = """
import asyncio, os, sys
from jupyter_gpushare.training.child import Child
from jupyter_gpushare.training.terminal import Terminal

async def main():
    terminal = Terminal.ours()
    code = "print('asked', flush=True); print('read', input(), flush=True)"
    ended = asyncio.Event()
    child = Child.start([sys.executable, "-c", code], {**os.environ, "MARK": "m"}, "MARK", ended.set)
    while child.code is None:
        terminal.look(child)
        await asyncio.sleep(0.02)
    terminal.take_back()
    assert os.tcgetpgrp(0) == os.getpgrp()
    print("ended", child.code, flush=True)

asyncio.run(main())
"""


def test_a_job_that_reads_from_the_terminal_gets_it(tmp_path: Path) -> None:
    """A debugger in a job works as without us: the job is not stopped for reading, and the terminal comes back."""
    ours, theirs = pty.openpty()
    script = "import os, fcntl, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n" + PROGRAM
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    os.close(theirs)
    seen = _read_until(ours, b"asked")
    os.write(ours, b"hello\n")
    seen += _read_until(ours, b"ended 0")
    assert b"read hello" in seen, seen
    assert process.wait(PATIENT_S) == 0
    os.close(ours)


def _read_until(descriptor: int, what: bytes) -> bytes:
    deadline, seen = time.monotonic() + PATIENT_S, b""
    while what not in seen:
        assert time.monotonic() < deadline, seen
        seen += os.read(descriptor, 4096)
    return seen
