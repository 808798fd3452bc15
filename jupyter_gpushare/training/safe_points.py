"""The supervisor's side of safe points: who of the job offers them, and who has reached one.

The programs behind the socket are the user's: what they send is decoded strictly, and whoever talks nonsense is
disconnected.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import struct
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["SafePoints", "What", "peer"]

What = Literal["park", "stop"]

_LONGEST_LINE: Final = 4096
_MOST_PROCESSES: Final = 256


class _Here(msgspec.Struct, frozen=True, tag_field="say", tag="here"):
    pid: int


class _Reached(msgspec.Struct, frozen=True, tag_field="say", tag="reached"):
    number: Annotated[int, msgspec.Meta(ge=0)]


class _Ask(msgspec.Struct, frozen=True, tag_field="say", tag="ask"):
    number: int
    what: What


class _GoOn(msgspec.Struct, frozen=True, tag_field="say", tag="go_on"):
    number: int


_decoder: Final = msgspec.json.Decoder(_Here | _Reached)


class _Process:
    """One process of the job."""

    def __init__(self, pid: int, writer: asyncio.StreamWriter) -> None:
        self.pid = pid
        self.reached = 0
        self.is_here = False
        self._writer = writer

    def say(self, message: _Ask | _GoOn) -> None:
        self._writer.write(msgspec.json.encode(message) + b"\n")

    def leave(self) -> None:
        self._writer.close()


class SafePoints:
    """The socket of one job.

    Attributes:
        path: where it is, in a directory of this user alone.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._processes: set[_Process] = set()
        self._asked: _Ask | None = None
        self._number = 0
        self._directory = Path(tempfile.mkdtemp(prefix="gpushare-job-"))  # mkdtemp(3): for this user alone
        self.path = self._directory / "socket"
        self._server: asyncio.Server | None = None

    @classmethod
    async def open(cls, changed: Callable[[], None]) -> Self:
        """Listen; *changed* is called whenever a property may have changed."""
        points = cls(changed)
        points._server = await asyncio.start_unix_server(points._serve, points.path, limit=_LONGEST_LINE)
        return points

    @property
    def offered_by(self) -> frozenset[int]:
        """The processes that offer safe points."""
        return frozenset(process.pid for process in self._processes if process.is_here)

    @property
    def asked(self) -> What | None:
        """What is asked now."""
        return self._asked.what if self._asked is not None else None

    @property
    def is_reached(self) -> bool:
        """Whether every process that offers safe points stands at one, as it was asked to."""
        here = [process for process in self._processes if process.is_here]
        return self._asked is not None and bool(here) and all(each.reached >= self._asked.number for each in here)

    def ask(self, what: What) -> None:
        """Ask every process to stop at its next safe point."""
        self._number += 1
        self._asked = _Ask(self._number, what)
        self._tell(self._asked)

    def go_on(self) -> None:
        """Let the processes go on, whether they have stopped yet or not."""
        if self._asked is not None:
            self._asked = None
            self._tell(_GoOn(self._number))

    async def close(self) -> None:
        """Let everybody go on, and listen no more."""
        self.go_on()
        if self._server is not None:
            self._server.close()
        for process in list(self._processes):
            process.leave()
        await asyncio.to_thread(shutil.rmtree, self._directory, ignore_errors=True)

    def _tell(self, message: _Ask | _GoOn) -> None:
        for process in self._processes:
            if process.is_here:
                process.say(message)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        process = _Process(peer(writer), writer)
        if not process.pid or len(self._processes) >= _MOST_PROCESSES:
            writer.close()
            return
        self._processes.add(process)
        try:
            # A line that is too long, no JSON, or of another shape ends the connection.
            with suppress(ValueError, msgspec.DecodeError, OSError):
                while line := await reader.readline():
                    self._hear(process, _decoder.decode(line))
        finally:
            self._processes.discard(process)
            writer.close()
            self._changed()

    def _hear(self, process: _Process, message: _Here | _Reached) -> None:
        if isinstance(message, _Reached):
            process.reached = min(message.number, self._number)
        elif not process.is_here:
            process.is_here = True
            if self._asked is not None:
                process.say(self._asked)
        self._changed()


def peer(writer: asyncio.StreamWriter) -> int:
    """The process id at the other end, as the system says; 0 for another user's."""
    connection = writer.get_extra_info("socket")
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, _ = struct.unpack("3i", credentials)
    return int(pid) if uid == os.geteuid() else 0
