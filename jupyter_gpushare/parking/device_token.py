"""The exclusive right to restore on a device, among all servers of a host: a lock on one file per device.

A lock of flock(2) belongs to whoever holds the file open, so a token ends with its checkpoint process, however that
ends. The files are empty and stay.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["DeviceTokens", "TokenError", "open_shared", "shared_directory"]

_PREFERRED: Final = Path("/run/lock/gpushare")
_SHARED_BY_ALL: Final = 0o1777
_FOR_ALL: Final = 0o666
_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9.-]")
_LONGEST_NAME: Final = 200


class TokenError(Exception):
    """The tokens' directory cannot be used. The message says what to do."""


def shared_directory(given: str | os.PathLike[str] | None = None) -> Path:
    """The directory that every server of this host uses: *given*, else one that every user may write to.

    Raises:
        TokenError: it cannot be made, or it is one that somebody else could have tampered with.
    """
    if given is not None:
        return _usable(Path(given))
    try:
        return _usable(_PREFERRED)
    except TokenError:
        # Where /run/lock is not for everyone to write. All servers of the host come to the same conclusion.
        return _usable(Path(tempfile.gettempdir()) / "gpushare-locks")


def _usable(path: Path) -> Path:
    try:
        with suppress(FileExistsError):  # the first server made it, with its permissions
            path.mkdir(mode=_SHARED_BY_ALL)
            path.chmod(_SHARED_BY_ALL)  # mkdir(2) takes the umask off
    except OSError as trouble:
        raise TokenError(f"{path} cannot be made ({trouble.strerror}): give another directory for locks") from trouble
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise TokenError(f"{path} is no directory: remove it, or give another directory for locks")
    is_open_to_others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if is_open_to_others and not found.st_mode & stat.S_ISVTX:
        raise TokenError(f"{path} lets everybody remove locks: set its sticky bit (chmod 1777)")
    return path


class DeviceTokens:
    """The tokens that this process holds, each for one holder. For one thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._held: dict[str, tuple[str, int]] = {}

    def take(self, device: str, holder: str) -> bool:
        """Take *device*'s token for *holder*, without waiting; whether it has it now.

        Raises:
            TokenError: the directory cannot be used.
        """
        if device in self._held:
            return self._held[device][0] == holder
        file = self._lock(device)
        if file is not None:
            self._held[device] = (holder, file)
        return file is not None

    def holds(self, device: str, holder: str) -> bool:
        """Whether *holder* has the token of *device*."""
        return self._held.get(device, ("", -1))[0] == holder

    def drop(self, holder: str) -> None:
        """Give back all that *holder* has."""
        for device in [device for device, (owner, _) in self._held.items() if owner == holder]:
            os.close(self._held.pop(device)[1])

    def _lock(self, device: str) -> int | None:
        try:
            file = open_shared(self._directory, _NOT_IN_A_NAME.sub("_", device)[:_LONGEST_NAME] + ".token")
        except OSError as trouble:
            raise TokenError(f"the token of {device} in {self._directory} cannot be opened: {trouble}") from trouble
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return None
        return file


def open_shared(directory: Path, name: str) -> int:
    """Open the file *name* in a directory that other users write to as well, to lock it; made if need be.

    Raises:
        OSError: it cannot be opened, or is no plain file.
    """
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        file = _open_or_create(folder, name)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "it is no plain file: remove it", name)
    return file


def _open_or_create(folder: int, name: str) -> int:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    with suppress(FileNotFoundError):  # nobody has asked for it yet: it is made below
        # Not with O_CREAT: fs.protected_regular refuses that for another user's file in a directory for all.
        return os.open(name, flags, dir_fd=folder)
    try:
        file = os.open(name, flags | os.O_CREAT | os.O_EXCL, _FOR_ALL, dir_fd=folder)
    except FileExistsError:
        return os.open(name, flags, dir_fd=folder)  # another server was faster
    os.fchmod(file, _FOR_ALL)  # open(2) took the umask off
    return file
