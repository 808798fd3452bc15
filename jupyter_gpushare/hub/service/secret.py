"""The secret by which cookies are signed: kept, so that who has signed in stays so over a restart."""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.places import private_directory

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["cookie_secret"]

_FILE: Final = "cookie.key"
_BYTES: Final = 32
_OWNER: Final = 0o600


def cookie_secret(state: Path) -> bytes:
    """The secret in the directory *state*, made if there is none.

    Raises:
        OSError: it cannot be read or made, or others may read it; says which and what to do.
    """
    path = private_directory(state) / _FILE
    with suppress(FileExistsError):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _OWNER)
        with os.fdopen(file, "w", encoding="ascii") as new:
            new.write(secrets.token_hex(_BYTES))
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(file, "rb") as known:
        if os.fstat(known.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise PermissionError(f"{path} can be read by others: remove it, and everybody signs in anew")
        secret = known.read(4 * _BYTES)
    if len(secret) < _BYTES:
        raise PermissionError(f"{path} is too short: remove it, and everybody signs in anew")
    return secret
