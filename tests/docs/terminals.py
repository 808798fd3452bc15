"""A terminal as somebody uses it who copies commands into it one block after the other."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Final

import psutil

from .guide import shows

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["DEADLINE_S", "Terminal"]

DEADLINE_S: Final = 120.0
_POLL_S: Final = 0.05
#: A command that fails ends the shell, so that nobody overlooks it.
_SHELL: Final = ("bash", "--norc", "--noprofile", "-euo", "pipefail")


class Terminal:
    """A shell of its own in *directory*; what it prints goes to *log*. `close` ends it with all that it started."""

    def __init__(self, directory: Path, environment: Mapping[str, str], log: Path) -> None:
        self.log = log
        self._seen = 0
        self._marks = 0
        with log.open("wb") as file:
            self._shell = subprocess.Popen(
                _SHELL,
                cwd=directory,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def run(self, commands: str) -> None:
        """Run *commands* to their end; one that fails is an error."""
        self._marks += 1
        mark = f"[{self._marks} done]"
        self.begin(f"{commands}\necho '{mark}'\n")
        self._until(mark)

    def begin(self, commands: str) -> None:
        """Type *commands*; the last one may go on."""
        self._seen = self.log.stat().st_size
        assert self._shell.stdin is not None
        self._shell.stdin.write(commands.encode())
        self._shell.stdin.flush()

    def expect(self, expected: str) -> None:
        """Wait until the last commands have printed *expected*."""
        self._until(expected)

    def processes(self) -> list[psutil.Process]:
        """All that runs below it."""
        return psutil.Process(self._shell.pid).children(recursive=True)

    def interrupt(self) -> None:
        """Press Ctrl-C, and wait until the shell and all that it ran have ended."""
        below = self.processes()
        os.killpg(self._shell.pid, signal.SIGINT)
        self._end(below)

    def close(self) -> None:
        """Close it, whatever runs in it."""
        if self._shell.poll() is None:
            below = self.processes()
            os.killpg(self._shell.pid, signal.SIGTERM)
            self._end(below)

    def _end(self, below: list[psutil.Process]) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.close()
        _, alive = psutil.wait_procs(below, timeout=DEADLINE_S)
        for process in alive:
            process.kill()
        self._shell.wait(DEADLINE_S)
        assert not alive, f"they did not end: {alive}"

    def _until(self, expected: str) -> None:
        give_up = time.monotonic() + DEADLINE_S
        while missing := shows(self._printed(), expected):
            is_over = self._shell.poll() is not None
            if is_over or time.monotonic() > give_up:
                why = f"the shell ended with {self._shell.returncode}" if is_over else f"nothing for {DEADLINE_S:.0f} s"
                raise AssertionError(f"{missing!r}: {why}\n{self._printed()[-4000:]}")
            time.sleep(_POLL_S)

    def _printed(self) -> str:
        return self.log.read_bytes()[self._seen :].decode("utf-8", "replace")
