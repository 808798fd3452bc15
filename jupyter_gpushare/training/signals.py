"""What a job's owner sends to ``run`` reaches the job; and Ctrl-C twice ends it.

Ctrl-C goes to the job once, as it would without ``run``; a second one ends it: SIGTERM, its grace, and then the end.
While it is parked no signal may reach it, as what it does then could touch the GPU that is away; there the first Ctrl-C
says so and the second ends it. Whoever waits leaves with the first. SIGTERM ends it in the same way, at once.
"""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["OwnerSignals"]

#: A second Ctrl-C that comes later than this counts as a first one again.
_TWICE_S: Final = 10.0
_FORWARDED: Final = (signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGWINCH, signal.SIGCONT)


class _Ends(Protocol):
    def forward(self, number: signal.Signals) -> bool:
        """To the job; False when it cannot get it now."""

    def end(self, number: signal.Signals) -> None:
        """The owner ends the job."""

    @property
    def is_parked(self) -> bool:
        """Whether its GPU state is away."""


class OwnerSignals:
    """Lives on the event loop.

    Args:
        job: who gets them.
        tell: what people should know, a line.
    """

    def __init__(self, job: _Ends, tell: Callable[[str], None]) -> None:
        self._job = job
        self._tell = tell
        self._interrupted_at = -_TWICE_S

    def install(self) -> None:
        """Take the signals of this process from now on. A hang-up stays ignored under ``nohup``."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGTSTP, *_FORWARDED):
            if number is signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self.take, number)

    def remove(self) -> None:
        """Leave them to Python again."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGTSTP, *_FORWARDED):
            loop.remove_signal_handler(number)

    def take(self, number: signal.Signals) -> None:
        """Act on one signal."""
        if number is signal.SIGINT:
            self._interrupt()
        elif number is signal.SIGTERM:
            self._job.end(number)
        elif number is signal.SIGTSTP:
            self._job.forward(number)
            signal.raise_signal(signal.SIGSTOP)  # as the terminal asked; SIGCONT brings both back
        elif not self._job.forward(number) and number in (signal.SIGHUP, signal.SIGQUIT):
            self._job.end(number)

    def _interrupt(self) -> None:
        now = time.monotonic()
        is_second = now - self._interrupted_at < _TWICE_S
        self._interrupted_at = now
        if not is_second and self._job.forward(signal.SIGINT):
            self._tell("Sent to the job. Press Ctrl-C again to end it.")
        elif not is_second and self._job.is_parked:
            self._tell("The job is parked, and nothing of it is lost. Press Ctrl-C again to end it for good.")
        else:
            self._job.end(signal.SIGINT)
