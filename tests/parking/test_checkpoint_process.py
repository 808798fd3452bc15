"""The checkpoint process from its own side: what it reads is untrusted, and its order is kept whoever asks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.parking.calls import AskState, Request, Restore, TakeToken
from jupyter_gpushare.parking.checkpoint import CheckpointDriver, ProcessState
from jupyter_gpushare.parking.checkpoint_process import Clerk
from jupyter_gpushare.parking.device_token import DeviceTokens
from tests.parking.fake_checkpoint import VARIABLE, FakeCheckpoint, FakeMachine
from tests.parking.stage import GB, ROOT, Kernels

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODULE = "jupyter_gpushare.parking.checkpoint_process"


@pytest.fixture
def process(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """One that is ready, as a server starts it."""
    FakeMachine.create(tmp_path, GPU0=10 * GB)
    command = [sys.executable, "-m", MODULE, "--import", "tests.parking.fake_checkpoint:make", "--locks", str(tmp_path)]
    environ = {**os.environ, VARIABLE: str(tmp_path)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=environ, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == {"id": 0}
        yield process


@pytest.mark.parametrize(
    "line",
    [b"nonsense\n", b"{}\n", b'{"id": 1, "do": {"call": "end_the_world"}}\n', b"\xff\n", b"x" * (1 << 19) + b"\n"],
    ids=["no JSON", "empty", "unknown call", "no text", "endless"],
)
def test_a_request_that_makes_no_sense_ends_it(process: subprocess.Popen[bytes], line: bytes) -> None:
    """It never guesses what was meant: it ends, says why in the log, and answers nothing."""
    out, log = process.communicate(line, timeout=60)
    assert out == b""
    assert b"makes no sense" in log
    assert process.returncode == 0


def test_it_ends_when_its_input_closes(process: subprocess.Popen[bytes]) -> None:
    """That is how it learns that its server is gone."""
    out, log = process.communicate(timeout=60)
    assert (out, log, process.returncode) == (b"", b"", 0)


def test_it_answers_in_order_and_finishes_what_was_asked(process: subprocess.Popen[bytes]) -> None:
    """Requests that wait when the input closes are still carried out, one after the other."""
    asked = [{"id": number, "do": {"call": "driver"}} for number in (1, 2, 3)]
    out, _ = process.communicate("".join(json.dumps(line) + "\n" for line in asked).encode(), timeout=60)
    assert [json.loads(line)["id"] for line in out.splitlines()] == [1, 2, 3]


class Chatty(FakeCheckpoint):
    """A driver that prints, as libraries do, and raises what nobody foresaw."""

    def driver(self) -> CheckpointDriver:
        os.write(1, b"CUDA says hello\n")
        return super().driver()

    def state(self, process: Any) -> ProcessState:
        raise KeyError(process.pid)


def make_chatty() -> Chatty:
    """For ``--import``."""
    return Chatty(FakeMachine(os.environ[VARIABLE]))


def test_what_a_driver_prints_or_raises_stays_out_of_the_answers(tmp_path: Path) -> None:
    """A library's chatter goes to the log, and an error that nobody foresaw is an answer like any other."""
    FakeMachine.create(tmp_path, GPU0=GB)
    command = [sys.executable, "-m", MODULE, "--import", f"{__name__}:make_chatty", "--locks", str(tmp_path)]
    asked = json.dumps({"id": 1, "do": {"call": "state", "process": [1, 1]}}) + "\n"
    ended = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, VARIABLE: str(tmp_path)},
        input=asked.encode(),
        capture_output=True,
        timeout=60,
        check=True,
    )
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    assert answers == [{"id": 0}, {"id": 1, "error": "unknown", "text": "KeyError: 1"}]
    assert b"CUDA says hello" in ended.stderr


def test_a_token_without_a_claim_permits_no_restore(tmp_path: Path) -> None:
    """The room check cannot be left out by a mistake elsewhere: the process that restores insists on it."""
    machine, kernels = FakeMachine.create(tmp_path, GPU0=GB), Kernels()
    process = kernels.start()
    machine.hold(process, GPU0=GB)
    machine.set_state(process, "checkpointed")
    clerk = Clerk(FakeCheckpoint(machine), DeviceTokens(tmp_path))
    assert clerk.answer(Request(1, TakeToken("GPU0", "kernel"))).taken is True
    assert clerk.answer(Request(2, Restore(process, "kernel", ("GPU0",)))).error == "illegal_state"
    assert clerk.answer(Request(3, AskState(process))).state is ProcessState.CHECKPOINTED
    kernels.close()
