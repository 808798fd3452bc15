"""The demo's child processes: started apart from the terminal, ended without leaving one behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import psutil

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

__all__ = ["ENDING_SIGNALS", "MARK", "Child", "end_processes", "marked_processes", "undisturbed"]

#: Every process that a demo starts, and every one that those start, carries the demo's directory in this variable.
MARK: Final = "GPUSHARE_DEMO_DIRECTORY"

#: What ends a program from outside: Ctrl-C, ``kill``, a terminal that was closed.
ENDING_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_POLL_S: Final = 0.25


class Child:
    """A process in a session of its own, so that Ctrl-C in the terminal reaches only the demo, which ends it in order.

    Its output goes to *log*. `end` may be called at any time and more than once.
    """

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str], directory: Path, log: Path) -> None:
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                argv,
                env=environment,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal, None while it runs."""
        return self._process.poll()

    async def exited(self) -> int:
        """Wait for it to end by itself; its exit code."""
        while (code := self._process.poll()) is None:  # noqa: ASYNC110  # a thread's wait would hold Ctrl-C up
            await asyncio.sleep(_POLL_S)
        return code

    def log_tail(self, lines: int = 12) -> str:
        """The last *lines* that it printed, for an error report; empty when its log is gone."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])

    def end(self, grace_s: float = 10) -> int:
        """Ask it to end, kill it when it has not after *grace_s*; returns its exit code."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            return self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


def marked_processes(directory: Path) -> list[psutil.Process]:
    """This user's live processes that the demo in *directory* started, however far they were handed down."""
    return [process for process in psutil.process_iter() if _mark_of(process) == str(directory)]


def end_processes(directory: Path, grace_s: float = 5) -> list[int]:
    """End what still runs of the demo in *directory*: first asked, then killed. Returns the pids that were there."""
    found = marked_processes(directory)
    for process in found:
        _signal(process, signal.SIGTERM)
    _, alive = psutil.wait_procs(found, grace_s)
    for process in alive:
        _signal(process, signal.SIGKILL)
    psutil.wait_procs(alive, grace_s)
    return [process.pid for process in found]


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let no second Ctrl-C interrupt the tidying up that the first one asked for. For the main thread."""
    before = [(number, signal.signal(number, signal.SIG_IGN)) for number in ENDING_SIGNALS]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _mark_of(process: psutil.Process) -> str | None:
    # The demo's own process never carries the mark: it sets it for its children only.
    if process.pid == os.getpid():
        return None
    try:
        return None if process.status() == psutil.STATUS_ZOMBIE else process.environ().get(MARK)
    except (psutil.Error, OSError):
        return None  # another user's, or gone meanwhile


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return  # it ended by itself, which is what we want
