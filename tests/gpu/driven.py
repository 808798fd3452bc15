"""A program of its own, driven by lines: one order in, one answer out. A hang is a failure: every answer has a deadline."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.devices.identity import Identity, identify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["DEADLINE_S", "Driven", "Refused", "holding", "until"]

DEADLINE_S: Final = 90.0
ROOT: Final = Path(__file__).parents[2]
_END_S: Final = 10.0


class Refused(Exception):  # noqa: N818  # an answer, not an error of the tests
    """The program could not do what it was told, and goes on. The text is its own."""


class Driven:
    """``python -m MODULE ARGUMENT...`` and its answers: ``ready``, ``ready VALUE`` or ``failed TEXT``."""

    def __init__(self, module: str, *arguments: str, environ: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env={**os.environ, **(environ or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self.process.pid
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def identity(self) -> Identity:
        """Who it is, so that its process id is never taken for another's."""
        identity = identify(self.pid)
        assert identity is not None, "the program ended"
        return identity

    def order(self, line: str) -> None:
        """Give an order without waiting."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def wait(self, deadline_s: float = DEADLINE_S) -> str:
        """The value of the answer to the last order.

        Raises:
            Refused: it could not.
        """
        try:
            answer = self._answers.get(timeout=deadline_s)
        except queue.Empty:
            raise AssertionError(f"process {self.pid} did not answer within {deadline_s:g} s") from None
        assert answer, f"the program ended with code {self.process.wait(timeout=_END_S)}"
        word, _, value = answer.rstrip("\n").partition(" ")
        if word != "ready":
            raise Refused(value)
        return value

    def do(self, line: str, deadline_s: float = DEADLINE_S) -> str:
        """Give an order and wait until it is done; the answer's value."""
        self.order(line)
        return self.wait(deadline_s)

    def ended(self, within_s: float) -> int | None:
        """With which code it ended by itself within *within_s*, negative for a signal; None when it goes on."""
        try:
            return self.process.wait(timeout=within_s)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """End it by force."""
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        """End it, by force if it hangs."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # an order was on its way when it ended
            self.process.stdin.close()
        if self.ended(_END_S) is None:
            self.kill()
        self._reader.join()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self._answers.put(line)
        self._answers.put("")


@contextmanager
def holding(framework: str, environ: Mapping[str, str] | None = None) -> Iterator[Driven]:
    """A program that holds GPU memory (`tests.gpu.holder`) and is gone afterwards."""
    holder = Driven("tests.gpu.holder", framework, environ=environ)
    try:
        yield holder
    finally:
        holder.end()


def until(condition: Callable[[], bool], what: str) -> float:
    """Wait for *condition*; returns how many seconds it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < DEADLINE_S, f"{what} did not come in {DEADLINE_S:.0f} s"
        time.sleep(0.05)
    return time.monotonic() - began
