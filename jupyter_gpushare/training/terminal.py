"""The terminal: the job's own process group gets it only when the job reads from it, as a shell would give it."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from jupyter_gpushare.training.child import Child

__all__ = ["Terminal"]


class Terminal:
    """Our standard input, where that is a terminal in whose foreground we are."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._given_to = 0

    @classmethod
    def ours(cls) -> Self | None:
        """The terminal that we were started from; None without one, or in its background."""
        try:
            descriptor = sys.stdin.fileno()
            is_ours = os.isatty(descriptor) and os.tcgetpgrp(descriptor) == os.getpgrp()
        except (OSError, ValueError):
            return None
        return cls(descriptor) if is_ours else None

    def look(self, child: Child) -> None:
        """Give it to a job that stands still because it wants to read (SIGTTIN, termios(3))."""
        if self._given_to != child.process.pid and _is_stopped(child.process.pid):
            self._give(child.process.pid)
            self._given_to = child.process.pid
            child.send(signal.SIGCONT)

    def take_back(self) -> None:
        """It is ours again."""
        if self._given_to:
            self._give(os.getpgrp())
            self._given_to = 0

    def _give(self, group: int) -> None:
        # Who is in the background and sets the foreground is sent SIGTTOU, which would stop us.
        before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        with suppress(OSError):  # it was hung up, or the job has ended
            os.tcsetpgrp(self._descriptor, group)
        signal.signal(signal.SIGTTOU, before)


def _is_stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False
