"""The job's processes: one command in a process group of its own, and all that descends from it."""

from __future__ import annotations

import asyncio
import ctypes
import os
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from jupyter_gpushare.devices.descendants import descendants
from jupyter_gpushare.devices.identity import Identity, identify
from jupyter_gpushare.parking import stopping

if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Collection, Mapping, Sequence

__all__ = ["Child", "Command", "adopt_orphans", "end_all", "marked"]

_PR_SET_CHILD_SUBREAPER: Final = 36  # prctl(2)
_SIGNALLED: Final = 128


def adopt_orphans() -> None:
    """Have what a job leaves behind become a child of this process and not of init: so it stays known as the job's."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "orphans of a job cannot be adopted")


@dataclass(frozen=True, slots=True)
class Command:
    """What is run.

    Attributes:
        argv: the program and its arguments.
        environ: the environment of ``run`` itself.
        grace_s: what the job gets to save its work; None leaves it to the broker's deadline.
        memory_cap: bytes of host memory for each process of the job; from the part of the host's devices that it has.
    """

    argv: Sequence[str]
    environ: Mapping[str, str]
    grace_s: float | None = None
    memory_cap: Callable[[float], int | None] = field(default=lambda _: None)


class Child:
    """One run of the command.

    Attributes:
        process: the command's own process.
        code: its exit code as a shell would have it (128 and the number of a signal that ended it); None while it runs.
        is_announced: whether people and the broker know that we are about to end it.
    """

    def __init__(self, popen: subprocess.Popen[bytes], mark: bytes, ended: Callable[[], None]) -> None:
        # A command that has ended already stays a zombie until it is waited for: nobody else has its id.
        self.process = identify(popen.pid) or Identity(popen.pid, 0)
        self.code: int | None = None
        self.is_announced = False
        self._mark = mark
        self._popen = popen
        self._ended = ended
        self._handle = os.pidfd_open(popen.pid)
        asyncio.get_running_loop().add_reader(self._handle, self._take_code)

    @classmethod
    def start(cls, argv: Sequence[str], environment: Mapping[str, str], mark: str, ended: Callable[[], None]) -> Self:
        """Start *argv* with our own standard streams.

        Args:
            argv: the command.
            environment: its environment.
            mark: a variable of it that no other process of this machine has with this value.
            ended: called when its process has ended.

        Raises:
            OSError: it cannot be started.
        """
        popen = subprocess.Popen(argv, env=dict(environment), process_group=0)
        return cls(popen, f"{mark}={environment[mark]}".encode(), ended)

    def family(self) -> frozenset[int]:
        """The living processes of the job: what descends from the command, and what it left behind."""
        own = descendants([self.process.pid]) if self.code is None else frozenset()
        rest = descendants([os.getpid()]) - {os.getpid()} - own
        return frozenset(pid for pid in own if identify(pid)) | frozenset(filter(self._is_left_over, rest))

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the whole process group."""
        with suppress(ProcessLookupError):  # all of it has ended
            os.killpg(self.process.pid, number)

    def catches(self, number: signal.Signals) -> bool:
        """Whether the command does something of its own on that signal, and does not just end (proc(5), SigCgt)."""
        try:
            status = Path(f"/proc/{self.process.pid}/status").read_text()
        except OSError:
            return False
        caught = next((line for line in status.splitlines() if line.startswith("SigCgt:")), "SigCgt: 0")
        return bool(int(caught.split()[1], 16) >> (number - 1) & 1)

    def end_rest(self, family: Collection[int], number: signal.Signals) -> None:
        """Send a signal to those of *family* that live."""
        end_all(family, number)

    def reap(self) -> None:
        """Take note of the end of orphans that became our children, so that none stays a zombie."""
        for pid in descendants([os.getpid()]) - {os.getpid(), self.process.pid}:
            if identify(pid) is None:
                with suppress(ChildProcessError):  # another's child
                    os.waitpid(pid, os.WNOHANG)

    def _is_left_over(self, pid: int) -> bool:
        """Whether an orphan is this job's: by its process group, or by the variable that it inherited (proc(5))."""
        if identify(pid) is None:
            return False
        try:
            return os.getpgid(pid) == self.process.pid or self._mark in _environ(pid).split(b"\0")
        except OSError:  # it has ended, or changed its user
            return False

    def close(self) -> None:
        """Watch it no more."""
        if self._handle >= 0:
            asyncio.get_running_loop().remove_reader(self._handle)
            os.close(self._handle)
            self._handle = -1

    def _take_code(self) -> None:
        returned = self._popen.poll()
        if returned is not None:
            self.code = returned if returned >= 0 else _SIGNALLED - returned
            self.close()
            self._ended()


def marked(mark: str) -> frozenset[int]:
    """The living processes of this user that have *mark*, ``NAME=value``, in their environment, and their descendants.

    The one that asks is not among them.
    """
    found = {int(process.name) for process in Path("/proc").glob("[0-9]*") if _has(int(process.name), mark.encode())}
    return frozenset(pid for pid in descendants(found) if pid != os.getpid() and identify(pid) is not None)


def end_all(family: Collection[int], number: signal.Signals) -> None:
    """Send a signal to those of *family* that live."""
    for pid in family:
        if (process := identify(pid)) is not None:
            stopping.send_signal(process, number)


def _has(pid: int, mark: bytes) -> bool:
    try:
        return mark in _environ(pid).split(b"\0")
    except OSError:  # it has ended, or is another user's
        return False


def _environ(pid: int) -> bytes:
    return Path(f"/proc/{pid}/environ").read_bytes()
