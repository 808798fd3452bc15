"""Where a broker has its socket and its books, on this machine."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "PlaceError",
    "check_socket_path",
    "lock_file",
    "log_file",
    "machine_socket",
    "machine_state",
    "private_directory",
    "user_runtime",
    "user_socket",
    "user_state",
]

_MACHINE_RUNTIME: Final = Path("/run/gpushare")
_MACHINE_STATE: Final = Path("/var/lib/gpushare")
_SOCKET: Final = "broker.sock"
_OURS_ALONE: Final = 0o700
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
# sockaddr_un.sun_path has 108 bytes on Linux, 104 elsewhere, with a zero at the end (unix(7)).
_LONGEST_SOCKET: Final = 103


class PlaceError(OSError):
    """A directory or socket cannot be used. The message says which, why, and what to do."""


def machine_socket() -> Path:
    """The socket of this machine's own broker, which serves every user."""
    return _MACHINE_RUNTIME / _SOCKET


def machine_state() -> Path:
    """Where this machine's own broker keeps its books."""
    return _MACHINE_STATE


def user_runtime(environ: Mapping[str, str]) -> Path:
    """The directory of one user's own broker; it need not exist yet. It does not outlive the machine's uptime."""
    if given := environ.get("XDG_RUNTIME_DIR"):
        return Path(given) / "gpushare"
    return Path(tempfile.gettempdir()) / f"gpushare-broker-{os.getuid()}"


def user_socket(environ: Mapping[str, str]) -> Path:
    """The socket of one user's own broker."""
    return user_runtime(environ) / _SOCKET


def user_state(environ: Mapping[str, str]) -> Path:
    """Where one user's own broker keeps its books: beside Jupyter's own data."""
    if given := environ.get("JUPYTER_DATA_DIR"):
        return Path(given) / "gpushare"
    data = environ.get("XDG_DATA_HOME") or str(Path(environ.get("HOME") or Path.home()) / ".local" / "share")
    return Path(data) / "jupyter" / "gpushare"


def lock_file(runtime: Path) -> Path:
    """Whoever holds this file locked may start a broker in *runtime*."""
    return runtime / "starting.lock"


def log_file(runtime: Path) -> Path:
    """What a broker that was started on demand has to say."""
    return runtime / "broker.log"


def private_directory(path: Path) -> Path:
    """*path*, made if need be, that nobody but this user may enter.

    Raises:
        PlaceError: it is somebody else's, a link, no directory, or open to others.
    """
    try:
        for each in reversed([path, *path.parents]):
            # `parents=True` would leave those above open to others. What is there already is looked at below.
            if not each.exists():
                with suppress(FileExistsError):
                    each.mkdir(mode=_OURS_ALONE)
        found = path.lstat()
    except OSError as error:
        raise PlaceError(
            f"{path} cannot be used: {error.strerror}. Set XDG_RUNTIME_DIR to a directory of yours"
        ) from error
    if not stat.S_ISDIR(found.st_mode):
        raise PlaceError(f"{path} is no directory: remove it, or set XDG_RUNTIME_DIR to a directory of yours")
    if found.st_uid != os.getuid():
        raise PlaceError(f"{path} belongs to another user: set XDG_RUNTIME_DIR to a directory of yours")
    if found.st_mode & _OTHERS:
        raise PlaceError(f"{path} is open to other users: chmod 700 {path}")
    return path


def check_socket_path(path: Path) -> Path:
    """*path*, if a Unix socket can have it.

    Raises:
        PlaceError: it is too long.
    """
    if len(os.fsencode(path)) > _LONGEST_SOCKET:
        raise PlaceError(
            f"{path} is too long for a Unix socket ({_LONGEST_SOCKET} bytes): set XDG_RUNTIME_DIR to a shorter path"
        )
    return path
