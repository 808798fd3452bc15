"""A token for each lease, which works for that lease only.

It is ``<lease>.<HMAC-SHA256 of the lease under a key>`` (RFC 2104): nothing has to be kept but the key, and a token
works across restarts of the broker.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["PREFIX", "LeaseTokens"]

#: By which a lease's token is told from a person's.
PREFIX: Final = "gpl_"
_KEY_BYTES: Final = 32
_PRIVATE: Final = 0o600


class LeaseTokens:
    """Issues and reads the tokens that *key* signs."""

    def __init__(self, key: bytes) -> None:
        if len(key) < _KEY_BYTES:
            raise ValueError(f"key: {len(key)} bytes are too few; give {_KEY_BYTES} random ones")
        self._key = key

    @classmethod
    def of_file(cls, path: Path) -> LeaseTokens:
        """With the key in *path*, which is made, for this user alone, if it is not there.

        Raises:
            OSError: it cannot be read or made, or others may read it.
            ValueError: it is too short to be a key.
        """
        with suppress(FileExistsError):  # the key of an earlier broker, which goes on
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _PRIVATE)
            with os.fdopen(file, "wb") as new:
                new.write(secrets.token_bytes(_KEY_BYTES))
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(file, "rb") as known:
            if os.fstat(known.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise PermissionError(f"{path} can be read by others: remove it, and every holder gets a new token")
            return cls(known.read(4 * _KEY_BYTES))

    def issue(self, lease: str) -> str:
        """The token of *lease*."""
        return f"{PREFIX}{lease}.{self._sign(lease)}"

    def lease_of(self, token: str) -> str | None:
        """The lease that *token* works for; None for one that this broker did not issue."""
        if not token.startswith(PREFIX) or not token.isascii():
            return None
        lease, _, signature = token.removeprefix(PREFIX).rpartition(".")
        return lease if hmac.compare_digest(signature, self._sign(lease)) else None

    def _sign(self, lease: str) -> str:
        return hmac.digest(self._key, lease.encode(), "sha256").hex()
