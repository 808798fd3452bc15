"""What a controller and the simulated driver in a program say to each other: one line of JSON each way, per connection.

The socket has an abstract name, which goes away with the process whatever its end (unix(7)).
"""

from __future__ import annotations

import os
import socket
import struct
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

if TYPE_CHECKING:
    from jupyter_gpushare.devices.identity import Identity

__all__ = ["Answer", "Code", "DriverCall", "Peer", "Request", "Standing", "address", "peer_of", "receive", "send"]

DriverCall = Literal["get_state", "lock", "checkpoint", "restore", "unlock"]
Standing = Literal["running", "locked", "checkpointed", "failed"]
Code = Literal[
    "",
    "invalid_value",
    "out_of_memory",
    "not_initialized",
    "operating_system",
    "illegal_state",
    "not_ready",
    "not_supported",
    "not_permitted",
    "unknown",
]

_MAX_LINE = 1 << 16


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call on the process that listens. *timeout_ms* is for a lock; 0 is none."""

    call: DriverCall
    timeout_ms: int = 0


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How it went: an empty *code* is well, *text* is for people. *state* is the process's afterwards."""

    code: Code = ""
    text: str = ""
    state: Standing = "running"


class Peer(NamedTuple):
    """Who is at the other end, by the operating system."""

    pid: int
    uid: int


def address(machine: str, process: Identity) -> bytes:
    """Where the driver of *process* listens on the machine with the id *machine*."""
    return os.fsencode(f"\0gpushare-simulated-{machine}-{process.pid}-{process.start}")


def peer_of(connection: socket.socket) -> Peer:
    """Who is at the other end of *connection*; of a listening process, who listened (unix(7), SO_PEERCRED)."""
    pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return Peer(pid, uid)


def send(connection: socket.socket, message: Request | Answer) -> None:
    """Send *message* as a line."""
    connection.sendall(msgspec.json.encode(message) + b"\n")


def receive(connection: socket.socket) -> bytes:
    """The next line; what there is of it when the other end closes before.

    Raises:
        TimeoutError: the connection's time-out passed.
        ValueError: it is too long.
    """
    line = b""
    while not line.endswith(b"\n"):
        piece = connection.recv(_MAX_LINE)
        line += piece
        if not piece:
            break
        if len(line) > _MAX_LINE:
            raise ValueError("line: it is too long for a message of this protocol")
    return line
