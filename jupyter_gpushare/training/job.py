"""What a training program says to ``jupyter gpushare run``: here I may be parked. Standard library alone.

One connection for each process, to the Unix socket that the environment names. The supervisor asks with a line of JSON,
``{"say": "ask", "number": 1, "what": "park"}``; at its next safe point the program answers ``{"say": "reached",
"number": 1}`` and stands still until it reads ``{"say": "go_on", "number": 1}``.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    _Callback = TypeVar("_Callback", bound=Callable[[], object])

__all__ = ["RESTARTS", "SHARE", "SOCKET", "JobShare", "on_reclaim", "safe_point", "share", "wanted"]

#: Where the supervisor listens.
SOCKET: Final = "GPUSHARE_JOB_SOCKET"
#: What the job was granted, as JSON; see `JobShare`.
SHARE: Final = "GPUSHARE_JOB_SHARE"
#: How often this command was started before, because it had to give its GPU back.
RESTARTS: Final = "GPUSHARE_RESTARTS"

_CONNECT_S: Final = 5.0
_LONGEST_LINE: Final = 4096


class JobShare(NamedTuple):
    """What this job has of the GPUs.

    Attributes:
        share: as it was asked for, such as ``0.5``.
        project: whose quota it counts against.
        devices: the UUIDs of its devices, in the order in which CUDA numbers them here.
        memory: bytes that it may hold on each of them.
        restarts: how often the command was started before, because it had to give its GPU back.
    """

    share: str
    project: str
    devices: tuple[str, ...]
    memory: tuple[int, ...]
    restarts: int


class _Ask(NamedTuple):
    number: int
    what: str


class _Link:
    """This process's connection. Its supervisor may end at any time: then nobody asks any more."""

    def __init__(self, path: str) -> None:
        self.pid = os.getpid()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(_CONNECT_S)
        self._socket.connect(path)
        self._socket.settimeout(None)
        self._unread = b""
        self._ask: _Ask | None = None
        self._answered = 0
        self.is_open = True
        self._say({"say": "here", "pid": self.pid})

    def asked(self) -> _Ask | None:
        """What the supervisor asks and was not answered yet. One system call when it asks nothing."""
        self._read(socket.MSG_DONTWAIT)
        return self._ask if self._ask is not None and self._ask.number > self._answered else None

    def take(self, ask: _Ask) -> None:
        """It is being answered: a callback that comes to a safe point itself passes through."""
        self._answered = ask.number

    def stand_still(self, ask: _Ask) -> None:
        """Say that the safe point is reached, and return when the supervisor lets the program go on."""
        self._say({"say": "reached", "number": ask.number})
        while self.is_open and self._ask is not None and self._ask.number == ask.number:
            self._read(0)

    def abandon(self) -> None:
        """Leave the connection to the process that made it."""
        self._socket.close()

    def _say(self, message: dict[str, Any]) -> None:
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self.is_open = False

    def _read(self, flags: int) -> None:
        try:
            received = self._socket.recv(_LONGEST_LINE, flags)
        except BlockingIOError:
            return
        except OSError:
            received = b""
        self.is_open = bool(received)
        *lines, self._unread = (self._unread + received).split(b"\n")
        for line in lines:
            self._hear(json.loads(line))

    def _hear(self, message: dict[str, Any]) -> None:
        if message["say"] == "ask":
            self._ask = _Ask(message["number"], message["what"])
        elif self._ask is not None and message["number"] >= self._ask.number:
            self._ask = None


_callbacks: list[Callable[[], object]] = []
_turn = threading.RLock()  # a callback may come to a safe point itself
_link: _Link | None = None
_tried_as = 0


def safe_point() -> bool:
    """Here the program may be parked: nothing of it needs the GPU, no other thread of it either.

    Call it once in every step, from the thread that trains. Where the GPU is called back it stands still, while the
    GPU's memory waits in host memory, and returns when that is back. It costs a microsecond otherwise.

    Returns:
        Whether the program stood still here.
    """
    with _turn:
        link = _connected()
        ask = link.asked() if link is not None else None
        if link is None or ask is None:
            return False
        link.take(ask)
        for callback in tuple(_callbacks):
            _call(callback)
        link.stand_still(ask)
        return True


def wanted() -> str | None:
    """What the next safe point is for: ``park``, ``stop``, or None while nobody asks for one.

    For those who have to prepare it, as a trainer that saves only between two steps. It registers the program as one
    that offers safe points.
    """
    with _turn:
        link = _connected()
        ask = link.asked() if link is not None else None
        return None if ask is None else ask.what


def on_reclaim(callback: _Callback) -> _Callback:
    """Have *callback* called at the safe point where the GPU is given back, such as one that saves a checkpoint.

    What it raises is printed, and the GPU is given back all the same. May be used as a decorator.
    """
    with _turn:
        _callbacks.append(callback)
        _connected()
    return callback


def share() -> JobShare | None:
    """What this job was granted; None outside ``jupyter gpushare run``."""
    text = os.environ.get(SHARE)
    if not text:
        return None
    given = json.loads(text)
    restarts = int(os.environ.get(RESTARTS, "0"))
    return JobShare(given["share"], given["project"], tuple(given["devices"]), tuple(given["memory"]), restarts)


def _connected() -> _Link | None:
    """This process's connection, made at the first need. A forked child makes one of its own."""
    global _link, _tried_as  # noqa: PLW0603  # one for each process
    if _link is not None and _link.pid != os.getpid():
        _link.abandon()
        _link = None
    path = os.environ.get(SOCKET)
    if _link is None and path and _tried_as != os.getpid():
        _tried_as = os.getpid()
        _link = _opened(path)
    return _link if _link is not None and _link.is_open else None


def _opened(path: str) -> _Link | None:
    try:
        return _Link(path)
    except OSError as error:
        print(f"gpushare: safe points are off, {path} does not answer: {error}", file=sys.stderr)  # noqa: T201
        return None


def _call(callback: Callable[[], object]) -> None:
    try:
        callback()
    except Exception:  # noqa: BLE001  # the program's own; the GPU is called back whether it could save or not
        traceback.print_exc()
