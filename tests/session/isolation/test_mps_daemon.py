"""The MPS daemon of a device: started once, shared by servers, ended by the last one, never in the way when it fails."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.session.isolation import mps_daemon
from jupyter_gpushare.session.isolation.mode import IsolationError
from jupyter_gpushare.session.isolation.mps_daemon import MpsDaemon
from tests.session.isolation.places import put_mps_on_path

if TYPE_CHECKING:
    from collections.abc import Callable

DEADLINE_S = 60.0


@pytest.fixture(autouse=True)
def _program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    put_mps_on_path(monkeypatch, tmp_path / "bin")


def until(condition: Callable[[], bool]) -> None:
    """Wait for *condition*."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def runs(pid: int) -> bool:
    """Whether that process is there."""
    return Path(f"/proc/{pid}").exists()


def pid_of(root: Path) -> int:
    """The daemon that is noted down."""
    return int((root / "GPU-1" / "daemon").read_text().split()[0])


def test_two_servers_share_one_and_the_last_ends_it(tmp_path: Path) -> None:
    """The daemon is for the one device, outlives the first server that leaves, and ends with the second."""
    first, second = MpsDaemon("GPU-1", tmp_path), MpsDaemon("GPU-1", tmp_path)
    first.start()
    second.start()
    pid = pid_of(tmp_path)
    assert first.pipes == second.pipes
    assert (first.pipes / "device").read_text() == "GPU-1"
    first.stop()
    assert runs(pid)
    second.stop()
    until(lambda: not runs(pid))
    assert not (tmp_path / "GPU-1" / "daemon").exists()


def test_it_waits_for_its_clients_and_the_next_one_does_not_wait_for_it(tmp_path: Path) -> None:
    """A kernel that still works is not cut off when its server leaves; a new server gets a new daemon at once."""
    old = MpsDaemon("GPU-1", tmp_path)
    old.start()
    pid = pid_of(tmp_path)
    clients = old.pipes / "clients"
    clients.write_text("4711\n")
    old.stop()
    new = MpsDaemon("GPU-1", tmp_path)
    new.start()
    assert runs(pid)
    assert new.pipes != old.pipes
    clients.unlink()
    until(lambda: not runs(pid))
    new.stop()


def test_a_daemon_that_died_is_replaced(tmp_path: Path) -> None:
    """What a note says of a process that is gone, or is another by now, counts for nothing. The last server ends it."""
    first = MpsDaemon("GPU-1", tmp_path)
    first.start()
    died = pid_of(tmp_path)
    os.kill(died, 9)
    until(lambda: not runs(died))
    (tmp_path / "GPU-1" / "daemon").write_text(f"{os.getpid()} 1 {first.pipes}")
    second = MpsDaemon("GPU-1", tmp_path)
    second.start()
    assert second.pipes != first.pipes
    pid = pid_of(tmp_path)
    second.stop()
    assert runs(pid)
    first.stop()
    until(lambda: not runs(pid))


def test_clients_are_taken_from_it_before_a_kill(tmp_path: Path) -> None:
    """Only those that are about to be killed, each from its own server."""
    daemon = MpsDaemon("GPU-1", tmp_path)
    daemon.start()
    (daemon.pipes / "clients").write_text("4711\n4712\n")
    daemon.terminate_clients({4712, 5000})
    assert "terminate_client 77 4712" in (daemon.pipes / "commands").read_text().splitlines()
    assert "4711" not in (daemon.pipes / "commands").read_text()
    (daemon.pipes / "clients").unlink()
    daemon.stop()


def test_one_that_does_not_start_says_what_it_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon's own words reach people, and nothing is left behind: the next try is a fresh one."""
    monkeypatch.setenv("FAKE_MPS", "refuses")
    daemon = MpsDaemon("GPU-1", tmp_path)
    with pytest.raises(IsolationError, match="MPS is already running") as caught:
        daemon.start()
    assert caught.value.message.code == "ISOLATION_MPS_FAILED"
    monkeypatch.delenv("FAKE_MPS")
    daemon.start()
    daemon.stop()


def test_one_that_does_not_answer_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that hangs holds up a kernel's start for a bounded time, and does not stay."""
    started: list[subprocess.Popen[bytes]] = []
    launch = subprocess.Popen

    def remember(*args: object, **options: object) -> subprocess.Popen[bytes]:
        started.append(launch(*args, **options))  # type: ignore[call-overload]
        return started[-1]

    monkeypatch.setattr(mps_daemon, "_START_S", 0.6)
    monkeypatch.setattr(mps_daemon, "_ANSWER_S", 0.3)
    monkeypatch.setattr(subprocess, "Popen", remember)
    monkeypatch.setenv("FAKE_MPS", "silent")
    with pytest.raises(IsolationError, match="did not answer"):
        MpsDaemon("GPU-1", tmp_path).start()
    assert started[0].returncode is not None


def test_a_place_of_somebody_else_is_an_error_with_words(tmp_path: Path) -> None:
    """A directory that cannot be made gives a reason, not a traceback."""
    (tmp_path / "file").touch()
    with pytest.raises(IsolationError, match="file"):
        MpsDaemon("GPU-1", tmp_path / "file").start()


def test_one_that_does_not_hear_its_end_is_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that could not be told to end is not forgotten: the next server has it, and ends it."""
    first = MpsDaemon("GPU-1", tmp_path)
    first.start()
    pid = pid_of(tmp_path)
    monkeypatch.setattr(mps_daemon, "_ANSWER_S", 0.3)
    monkeypatch.setenv("FAKE_MPS", "silent")
    first.stop()
    assert runs(pid)
    monkeypatch.undo()
    second = MpsDaemon("GPU-1", tmp_path)
    second._program = first._program
    second.start()
    assert pid_of(tmp_path) == pid
    second.stop()
    until(lambda: not runs(pid))
