"""One MPS control daemon for one device, shared by all servers of this Unix user on this host.

The daemon and its commands: nvidia-cuda-mps-control(1), https://docs.nvidia.com/deploy/mps. A daemon for each device,
since a fatal fault of a client ends all clients of its daemon. Every server that uses it holds a shared lock, which
dies with the server; the last one that leaves tells the daemon to end, which it does once its clients have.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from jupyter_gpushare.devices.identity import Identity, identify, is_alive
from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.session.isolation.mode import IsolationError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = ["CONTROL", "MpsDaemon", "find_control"]

CONTROL: Final = "nvidia-cuda-mps-control"
_START_S: Final = 15.0
_ANSWER_S: Final = 5.0
_LONGEST_ANSWER: Final = 100_000


def find_control() -> str | None:
    """NVIDIA's control program, None where it is not installed."""
    return shutil.which(CONTROL)


class MpsDaemon:
    """The daemon of one device. Every method blocks, for a bounded time: call it in a thread.

    Args:
        uuid: the device.
        root: where this user's daemons on this host are.
    """

    def __init__(self, uuid: str, root: Path) -> None:
        self._uuid = uuid
        self._directory = root / uuid
        self._use: int | None = None
        self._is_ours = True
        self._program = find_control() or CONTROL
        self.pipes = self._directory

    @classmethod
    def of_admin(cls, pipes: str) -> Self:
        """A daemon that an admin runs: used, never started or ended."""
        daemon = cls("", Path(pipes))
        daemon._is_ours, daemon.pipes = False, Path(pipes)
        return daemon

    def start(self) -> None:
        """Join the daemon, started if need be.

        Raises:
            IsolationError: it does not start, or an admin's does not answer.
        """
        if not self._is_ours:
            self._await_answer(None)
            return
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._alone():
                self._use = _lock(self._directory / "users.lock", fcntl.LOCK_SH)
                self._join_or_launch()
        except OSError as error:
            self._leave()
            raise _failed(self._uuid, str(error)) from error
        except IsolationError:
            self._leave()
            raise

    def stop(self) -> None:
        """Leave. The last one has the daemon end, once its clients have."""
        if not self._is_ours or self._use is None:
            return
        with self._alone():
            self._leave()
            last = _lock(self._directory / "users.lock", fcntl.LOCK_EX | fcntl.LOCK_NB)
            if last is None:
                return
            os.close(last)
            # Another one than this server began with, if that one died.
            self.pipes = self._running() or self.pipes
            if self._tell("quit") is not None:
                self._note.unlink(missing_ok=True)

    def terminate_clients(self, pids: Collection[int]) -> None:
        """Take those of *pids* that are clients from the daemon."""
        if not self.pipes.is_dir():
            return
        for server in _numbers(self._tell("get_server_list")):
            for client in _numbers(self._tell(f"get_client_list {server}")):
                if client in pids:
                    self._tell(f"terminate_client {server} {client}")

    @property
    def _note(self) -> Path:
        """Who the daemon is: its process id, its start time, and the directory of its pipes."""
        return self._directory / "daemon"

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other server joins or leaves meanwhile."""
        lock = _lock(self._directory / "change.lock", fcntl.LOCK_EX)
        assert lock is not None  # noqa: S101  # only a lock that does not wait may fail
        try:
            yield
        finally:
            os.close(lock)

    def _leave(self) -> None:
        if self._use is not None:
            os.close(self._use)
            self._use = None

    def _join_or_launch(self) -> None:
        running = self._running()
        if running is not None:
            self.pipes = running
        else:
            self._launch()

    def _running(self) -> Path | None:
        """The pipes of the daemon that runs, None without one."""
        try:
            pid, start, pipes = self._note.read_text().split(maxsplit=2)
            return Path(pipes) if is_alive(Identity(int(pid), int(start))) else None
        except (FileNotFoundError, ValueError):
            return None

    def _launch(self) -> None:
        # Its own directory each time: a former daemon may still wait for its last client to end.
        self.pipes = Path(tempfile.mkdtemp(prefix="", dir=self._directory))
        with (self.pipes / "output.log").open("wb") as log:
            process = subprocess.Popen(
                [self._program, "-f"],
                env=self._environment() | {"CUDA_VISIBLE_DEVICES": self._uuid},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            self._await_answer(process)
            if (identity := identify(process.pid)) is not None:
                self._note.write_text(f"{identity.pid} {identity.start} {self.pipes}")
        except BaseException:
            _end(process)
            raise
        # It lives on when this server ends; until then somebody has to take note of its end.
        threading.Thread(target=process.wait, name="gpushare-mps", daemon=True).start()

    def _await_answer(self, process: subprocess.Popen[bytes] | None) -> None:
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline:
            if process is not None and process.poll() is not None:
                log = (self.pipes / "output.log").read_text(errors="replace")[-300:].strip()
                raise _failed(self._uuid, f"it ended with {process.returncode}: {log}")
            if self._tell("get_server_list") is not None:
                return
            time.sleep(0.1)
        raise _failed(self._uuid or str(self.pipes), f"it did not answer in {_START_S:.0f} s")

    def _tell(self, command: str) -> str | None:
        """The daemon's answer, None when it gives none in time."""
        try:
            done = subprocess.run(
                [self._program],
                input=f"{command}\n".encode(),
                env=self._environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=_ANSWER_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout[:_LONGEST_ANSWER].decode(errors="replace") if done.returncode == 0 else None

    def _environment(self) -> dict[str, str]:
        return os.environ | {"CUDA_MPS_PIPE_DIRECTORY": str(self.pipes), "CUDA_MPS_LOG_DIRECTORY": str(self.pipes)}


def _lock(path: Path, kind: int) -> int | None:
    """A lock of *kind* on *path*, held until its descriptor is closed; None when it would have to wait and may not."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, kind)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a daemon that did not come up, with whatever it has started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _numbers(answer: str | None) -> list[int]:
    """Process ids, one on each line."""
    return [int(line) for line in (answer or "").split() if line.isascii() and line.isdecimal()]


def _failed(uuid: str, why: str) -> IsolationError:
    template = "The MPS daemon of {device} does not work: {why}. Ask your admin; kernels start without a GPU meanwhile."
    return IsolationError(Message("ISOLATION_MPS_FAILED", template, {"device": uuid, "why": why}))
