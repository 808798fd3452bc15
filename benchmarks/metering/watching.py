"""Watchers of a server, in a process of their own."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.servers import ROOT, Server

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Watchers", "WatchingError", "watching"]


class WatchingError(RuntimeError):
    """The watchers ended by themselves; what they said is on standard error."""


@dataclass(slots=True)
class Watchers:
    """Some watchers, all of which have had a sample: *first_sample_ms* each."""

    first_sample_ms: list[float]
    _process: subprocess.Popen[str]

    def received(self) -> int:
        """Bytes that all of them received so far."""
        return int(_ask(self._process))


@contextlib.contextmanager
def watching(server: Server, front_end: str, count: int) -> Iterator[Watchers]:
    """*count* watchers of *server* inside the block, as `front_ends.FRONT_ENDS` has them.

    Raises:
        WatchingError: they could not watch.
    """
    command = [sys.executable, "-m", "benchmarks.metering.front_ends", front_end, server.url, server.token, str(count)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Watchers(_first_answer(process, server), process)
        finally:
            assert process.stdin is not None
            process.stdin.close()


def _first_answer(process: subprocess.Popen[str], server: Server) -> Any:
    try:
        return _answer(process)
    except WatchingError as error:
        raise WatchingError(f"{error}; the server's last words:\n{server.last_words()}") from None


def _ask(process: subprocess.Popen[str]) -> Any:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return _answer(process)


def _answer(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise WatchingError(f"the watchers ended with code {process.wait()}")
    return json.loads(line)
