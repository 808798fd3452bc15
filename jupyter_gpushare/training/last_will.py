"""What becomes of a job whose ``run`` is killed: a small process beside it sees that, and ends the job.

It waits on a pipe that nobody but ``run`` holds open, so no death of that one goes unseen. It imports nothing before it
has to act, and is in a session of its own: what is meant for the terminal does not reach it.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LastWill"]

_ALL_IS_WELL: Final = b"."
_READS_WITHIN_S: Final = 5.0
_LOOK_S: Final = 0.1


class LastWill:
    """Of one ``run``; from before its first job starts until nothing of its jobs is left."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @classmethod
    def make(cls, mark: str, grace_s: float) -> Self:
        """Have everything with *mark*, ``NAME=value``, in its environment end if this process dies.

        Args:
            mark: what no other processes of this user have there.
            grace_s: seconds between SIGTERM and the end.

        Raises:
            OSError: there can be no such process.
        """
        command = [sys.executable, "-m", __spec__.name if __spec__ else __name__, mark, f"{grace_s:g}"]
        return cls(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True))

    def close(self, *, is_needed: bool) -> None:
        """This process ends. It *is_needed* where a job is left behind, which should never be."""
        assert self._process.stdin is not None  # noqa: S101  # it was given one
        with suppress(BrokenPipeError):
            self._process.stdin.write(b"" if is_needed else _ALL_IS_WELL)
            self._process.stdin.close()
        if not is_needed:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_READS_WITHIN_S)


def _execute(mark: str, grace_s: float) -> None:
    """End what carries *mark*: SIGTERM, the grace, and then the end."""
    import signal

    from jupyter_gpushare.rules.loss import Loss
    from jupyter_gpushare.training.child import end_all, marked

    if not marked(mark):
        return
    _say(f"`jupyter gpushare run` was killed. Its job gets SIGTERM and has {grace_s:g} s to save its work.")
    end_all(marked(mark), signal.SIGTERM)
    end_all(marked(mark), signal.SIGCONT)  # one that is stopped hears nothing else
    _until(lambda: not marked(mark), grace_s)
    if family := marked(mark):
        _say(f"The job still runs after its grace and is ended. loss: {Loss.JOB_STOPPED_AFTER_GRACE.value}")
        end_all(family, signal.SIGKILL)


def _until(holds: Callable[[], bool], at_most_s: float) -> None:
    import time

    deadline = time.monotonic() + at_most_s
    while not holds() and time.monotonic() < deadline:
        time.sleep(_LOOK_S)


def _say(text: str) -> None:
    with suppress(OSError):  # whoever read it is gone, too
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()


if __name__ == "__main__":
    if sys.stdin.buffer.read(1) != _ALL_IS_WELL:
        _execute(sys.argv[1], float(sys.argv[2]))
