"""The sockets that a broker listens on: its Unix socket, a port, and what a service manager has opened for it."""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from tornado.netutil import bind_sockets, bind_unix_socket

from jupyter_gpushare.broker.places import PlaceError, check_socket_path

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from jupyter_gpushare.broker.settings import Settings

__all__ = ["Listening", "inherited", "listen"]

#: sd_listen_fds(3): the first file descriptor that a service manager passes on.
_FIRST_INHERITED: Final = 3
_OWNER: Final = 0o600
_EVERYBODY: Final = 0o666
_BACKLOG: Final = 1024


class Listening(NamedTuple):
    """One socket, and its address as GPUSHARE_BROKER takes it."""

    socket: socket.socket
    address: str


def inherited(environ: Mapping[str, str]) -> tuple[int, ...]:
    """The sockets that a service manager has opened for this very process (sd_listen_fds(3))."""
    if environ.get("LISTEN_PID") != str(os.getpid()):
        return ()
    count = environ.get("LISTEN_FDS", "")
    return tuple(range(_FIRST_INHERITED, _FIRST_INHERITED + int(count))) if count.isdigit() else ()


def listen(settings: Settings) -> list[Listening]:
    """Open all of them.

    Raises:
        OSError: one cannot be had; says which.
    """
    found = [_take(number) for number in settings.inherited]
    if settings.socket is not None and not settings.inherited:
        found.append(_unix(settings.socket, _OWNER if settings.mode == "on_demand" else _EVERYBODY))
    if settings.port is not None:
        opened = bind_sockets(settings.port, settings.address, backlog=_BACKLOG)
        host = f"[{settings.address}]" if ":" in settings.address else settings.address
        found += [Listening(each, f"http://{host}:{each.getsockname()[1]}") for each in opened]
    return found


def _take(number: int) -> Listening:
    taken = socket.socket(fileno=number)
    taken.setblocking(False)  # noqa: FBT003  # the standard library's
    name = taken.getsockname()
    return Listening(taken, f"unix:{name}" if taken.family == socket.AF_UNIX else f"http://{name[0]}:{name[1]}")


def _unix(path: Path, mode: int) -> Listening:
    check_socket_path(path)
    if _answers(path):
        raise PlaceError(f"{path}: another broker listens there already; stop it, or give another --socket")
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise PlaceError(f"{path} is no socket: remove it, or give another --socket")
    return Listening(bind_unix_socket(str(path), mode, _BACKLOG), f"unix:{path}")


def _answers(path: Path) -> bool:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(1)
            probe.connect(str(path))
    except OSError:
        return False
    return True
