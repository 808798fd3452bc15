"""Ends one process of another user, for this machine's broker, and only as a loss that an admin turned on.

This is all that runs as root, and it can do nothing but send signals (CAP_KILL). It imports the standard library alone,
so that one file can be installed where only root can change it, and be read in one go. The service manager starts one
for each connection, with the connection as its standard input: nothing stays between two requests.

A request is one packet of JSON: ``{"pid": 4711, "start": 123456, "uid": 1000, "loss": "…", "lease": "…"}``, with the
process's start time in clock ticks since the system started (proc_pid_stat(5)). The answer is one packet,
``{"code": "ENDED", "text": "…"}``. The broker is believed that the process is one that its owner registered; everything
else is verified here.
"""

from __future__ import annotations

import argparse
import json
import os
import pwd
import re
import select
import signal
import socket
import stat
import struct
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

__all__ = ["LOSSES", "Refused", "Request", "main", "serve"]

#: The losses that this program carries out at all. The names are those of `rules.loss.Loss`; a test compares them.
LOSSES = frozenset({"job_stopped_after_grace"})

_REQUEST_S = 5.0
_TERM_S = 5.0
_KILL_S = 5.0
_LONGEST = 1024
_LARGEST_FILE = 1 << 20
_LARGEST = {"pid": 1 << 22, "start": 1 << 63, "uid": (1 << 32) - 2}
_LEASE = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
# People's accounts begin there (login.defs(5)); the range below 65536 is systemd's for accounts that it makes up, and
# for nobody (https://systemd.io/UIDS-GIDS).
_FIRST_PERSON = 1000
_MADE_UP = range(61184, 65536)


class Refused(Exception):  # noqa: N818  # an answer, no fault
    """Nothing was done. *code* says why to programs, the text to people."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True)
class Request:
    """Which process, whose it is, and as which loss it ends."""

    pid: int
    start: int
    uid: int
    loss: str
    lease: str

    @classmethod
    def parse(cls, packet: bytes) -> Request:
        """Read a packet.

        Raises:
            Refused: it is no request; names the field.
        """
        try:
            said = json.loads(packet)
        except (ValueError, RecursionError):
            raise Refused("NO_REQUEST", "the packet is no JSON") from None
        if not isinstance(said, dict) or set(said) != {"pid", "start", "uid", "loss", "lease"}:
            raise Refused("NO_REQUEST", "a request has pid, start, uid, loss and lease, and nothing else")
        for field, largest in _LARGEST.items():
            if type(said[field]) is not int or not 0 <= said[field] <= largest:
                raise Refused("NO_REQUEST", f"{field} is no number from 0 to {largest}")
        if not isinstance(said["lease"], str) or not _LEASE.fullmatch(said["lease"]):
            raise Refused("NO_REQUEST", "lease is no id of a lease")
        if not isinstance(said["loss"], str) or said["loss"] not in LOSSES:
            raise Refused("UNKNOWN_LOSS", f"loss is none of {', '.join(sorted(LOSSES))}")
        return cls(**said)


def check_peer(connection: socket.socket, account: str) -> int:
    """The uid of *account*, which must be at the other end (SO_PEERCRED, unix(7)).

    Raises:
        Refused: somebody else is.
    """
    _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    try:
        allowed = pwd.getpwnam(account).pw_uid
    except KeyError:
        raise Refused("NOT_THE_BROKER", f"there is no account {account}") from None
    if uid != allowed:
        raise Refused("NOT_THE_BROKER", f"uid {uid} is not {account}")
    return allowed


def check_turned_on(loss: str, configuration: Path) -> None:
    """Whether the admin's file turns *loss* on.

    Raises:
        Refused: it does not, or somebody else than the admin could have written it.
    """
    try:
        with configuration.open("rb") as file:
            found = os.fstat(file.fileno())
            text = file.read(_LARGEST_FILE).decode()
        turned_on = tomllib.loads(text).get("broker", {}).get("losses", [])
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise Refused("TURNED_OFF", f"{configuration} cannot be read: {error}") from None
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Refused("TURNED_OFF", f"{configuration} can be changed by others than root: chown root, chmod 644")
    if not isinstance(turned_on, list) or loss not in turned_on:
        raise Refused("TURNED_OFF", f'{configuration} does not turn it on: [broker] losses = ["{loss}"]')


def check_owner(request: Request, account: int) -> None:
    """Whether processes of that user may be ended at all.

    Raises:
        Refused: it is no person's, or the first process, or this very one.
    """
    if request.uid < _FIRST_PERSON or request.uid in _MADE_UP or request.uid == account:
        raise Refused("NOT_A_PERSON", f"uid {request.uid} is the system's; only people's processes are ended")
    if request.pid <= 1 or request.pid in (os.getpid(), os.getppid()):
        raise Refused("PROTECTED", f"process {request.pid} is never ended")


def check_process(request: Request) -> None:
    """Whether the process that now has the id is the one that is meant. Hold a handle to it before.

    Raises:
        Refused: it is another one, or another user's.
    """
    try:
        fields = Path(f"/proc/{request.pid}/stat").read_bytes()
        status = Path(f"/proc/{request.pid}/status").read_text("utf-8", "replace")
    except OSError:
        raise Refused("GONE", f"process {request.pid} has ended") from None
    # The second field is the program's name and may hold spaces and brackets: count from its end.
    if int(fields[fields.rindex(b")") + 2 :].split()[19]) != request.start:
        raise Refused("ANOTHER_PROCESS", f"process {request.pid} began at another time: the id was used again")
    owners = next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1:]
    # Real, effective, saved and file system's: a program that changed one of them is somebody else's in part.
    if any(int(owner) != request.uid for owner in owners):
        raise Refused("ANOTHER_USER", f"process {request.pid} is not uid {request.uid}'s alone")


def end(request: Request) -> str:
    """End exactly that process: asked first, then for certain. Says how.

    Raises:
        Refused: it is gone, or not the one that is meant.
    """
    try:
        handle = os.pidfd_open(request.pid)
    except OSError:
        raise Refused("GONE", f"process {request.pid} has ended") from None
    try:
        # The handle keeps the id from meaning another process between the comparison and the signal (pidfd_open(2)).
        check_process(request)
        for number, patience_s in ((signal.SIGTERM, _TERM_S), (signal.SIGKILL, _KILL_S)):
            signal.pidfd_send_signal(handle, number)
            if _has_ended(handle, patience_s):
                return number.name
    except ProcessLookupError:
        raise Refused("GONE", f"process {request.pid} has ended") from None
    finally:
        os.close(handle)
    raise Refused("STUCK", f"process {request.pid} is inside the kernel and ends when that lets it go")


def _has_ended(handle: int, patience_s: float) -> bool:
    """A handle becomes readable when its process ends."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(patience_s * 1000))


def serve(connection: socket.socket, account: str, configuration: Path) -> None:
    """Answer one request, with a line in the journal either way."""
    connection.settimeout(_REQUEST_S)
    packet = b""
    try:
        allowed = check_peer(connection, account)
        packet = connection.recv(_LONGEST)
        request = Request.parse(packet)
        check_turned_on(request.loss, configuration)
        check_owner(request, allowed)
        how = end(request)
    except Refused as no:
        answer = {"code": no.code, "text": str(no)}
    except TimeoutError:
        answer = {"code": "NO_REQUEST", "text": f"nothing was said for {_REQUEST_S:g} s"}
    else:
        answer = {"code": "ENDED", "text": f"process {request.pid} of uid {request.uid} ended by {how}"}
    # The journal takes "<5>" for the priority of a line (sd-daemon(3)); repr keeps whatever was sent on one line.
    print(f"<5>{answer['code']}: {answer['text']}; asked: {packet[:200]!r}", file=sys.stderr, flush=True)  # noqa: T201  # the audit
    connection.send(json.dumps(answer).encode())


def main() -> None:
    """Serve the connection that is the standard input."""
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--account", required=True, help="The broker's account, which alone may ask.")
    reader.add_argument("--config", required=True, type=Path, help="The admin's gpushare.toml.")
    given = reader.parse_args()
    with socket.socket(fileno=os.dup(0)) as connection:
        serve(connection, given.account, given.config)


if __name__ == "__main__":
    main()
