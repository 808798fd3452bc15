"""How a receiver knows that news are ours: the scheme of Standard Webhooks 1.0.0, with a secret that both sides have.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md: each attempt carries
``webhook-id`` (the same for each attempt to tell the same news), ``webhook-timestamp`` (of this attempt, in seconds
since the epoch) and ``webhook-signature``: ``v1,`` and the base64 of an HMAC-SHA256 (RFC 2104) over id, timestamp and
body with dots between. A receiver refuses an attempt whose time is more than a few minutes away from its own, so that
nobody can send an old one again, and takes each id once.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Secret", "SecretError"]

_PREFIX: Final = "whsec_"
# What the scheme asks for, in bytes.
_SHORTEST, _LONGEST = 24, 64
#: The one in force and, while receivers change over, those before or after it.
_MOST: Final = 3
_LARGEST_FILE: Final = 4096
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_HOW: Final = "make one with: (umask 077; echo whsec_$(openssl rand -base64 32) >{path})"


class SecretError(ValueError):
    """A file of a secret cannot be used. Says which, why, and what to do; never what is in it."""


@dataclass(frozen=True, slots=True)
class Secret:
    """What one receiver and we share.

    Attributes:
        keys: each signs; with more than one a receiver may change from one to another at any time.
    """

    keys: tuple[bytes, ...] = field(repr=False)

    @classmethod
    def of_file(cls, path: Path) -> Self:
        """Read the lines of *path*, one key each, which nobody but its owner may read. It may block.

        Raises:
            SecretError: that is not so.
        """
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            with os.fdopen(file, "rb") as opened:
                found = os.fstat(opened.fileno())
                if not stat.S_ISREG(found.st_mode):
                    raise SecretError(f"{path} is no file")
                if found.st_mode & _OTHERS:
                    raise SecretError(f"{path} is open to others: chmod 600 {path}")
                text = opened.read(_LARGEST_FILE + 1)
        except OSError as error:
            how = _HOW.format(path=path)
            raise SecretError(f"{path} cannot be read ({error.strerror}): {how}") from None
        keys = tuple(_keys(path, text))
        if not 1 <= len(keys) <= _MOST or len(text) > _LARGEST_FILE:
            how = _HOW.format(path=path)
            raise SecretError(f"{path} must hold 1 to {_MOST} secrets, one a line: {how}")
        return cls(keys)

    def sign(self, key: str, at: int, body: bytes) -> str:
        """The value of ``webhook-signature`` for the news *key* with *body*, told at *at*."""
        signed = f"{key}.{at}.".encode() + body
        return " ".join(f"v1,{base64.b64encode(hmac.digest(each, signed, 'sha256')).decode()}" for each in self.keys)


def _keys(path: Path, text: bytes) -> Iterator[bytes]:
    for number, raw in enumerate(text.decode("ascii", "replace").splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        try:
            key = base64.b64decode(line.removeprefix(_PREFIX), validate=True)
        except (binascii.Error, ValueError):
            key = b""
        if not line.startswith(_PREFIX) or not _SHORTEST <= len(key) <= _LONGEST:
            problem = f"line {number} is no {_PREFIX} with the base64 of {_SHORTEST} to {_LONGEST} random bytes"
            raise SecretError(f"{path}: {problem}; {_HOW.format(path=path)}")
        yield key
