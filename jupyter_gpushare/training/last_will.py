"""What becomes of a job whose ``run`` is killed: a small process beside it sees that, and ends the job.

It waits on a pipe that nobody but ``run`` holds open, so no death of that one goes unseen. It imports nothing before it
has to act, and is in a session of its own: what is meant for the terminal does not reach it.

Through the pipe ``run`` gives it a line of JSON, `executor.Trust`, whenever it gets another lease, and a point when it
ends by itself. It is one of the lease's processes: the lease lives until all is done and told.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from jupyter_gpushare.broker.client import Endpoint
    from jupyter_gpushare.broker.wire import ClaimModel

__all__ = ["LastWill"]

_ALL_IS_WELL: Final = b"."
_READS_WITHIN_S: Final = 5.0


class LastWill:
    """Of one ``run``; from before its first job starts until nothing of its jobs is left.

    Attributes:
        pid: of the process that waits.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.pid = process.pid
        self._process = process
        self._given = b""

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

    def trust(self, endpoint: Endpoint, claim: ClaimModel, token: str) -> None:
        """Let it speak for the lease of *claim*, with that lease's own *token*, once this process cannot any more."""
        import msgspec

        from jupyter_gpushare.training.executor import Trust

        given = msgspec.json.encode(Trust(endpoint.url, endpoint.socket, token, claim))
        if given != self._given:
            self._given = given
            self._write(given + b"\n")

    def close(self, *, is_needed: bool) -> None:
        """This process ends. It *is_needed* where a job is left behind, which should never be."""
        self._write(b"" if is_needed else _ALL_IS_WELL)
        assert self._process.stdin is not None  # noqa: S101  # it was given one
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        if not is_needed:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_READS_WITHIN_S)

    def _write(self, text: bytes) -> None:
        assert self._process.stdin is not None  # noqa: S101  # it was given one
        with suppress(BrokenPipeError):
            self._process.stdin.write(text)
            self._process.stdin.flush()


def _wait() -> None:
    trust = b""
    for line in sys.stdin.buffer:
        if line == _ALL_IS_WELL:
            return
        trust = line
    from jupyter_gpushare.training.executor import execute

    execute(sys.argv[1], float(sys.argv[2]), trust)


if __name__ == "__main__":
    _wait()
