"""What the hub writes into a page for its service to read: signed with a secret that both have, and readable by all."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import Final, TypeVar
from urllib.parse import urlencode

import msgspec

__all__ = ["BODY", "MOST_SENT", "SIGNATURE", "SealError", "read", "seal", "sign"]

#: The names in the query under which the two parts travel.
BODY: Final = "for"
SIGNATURE: Final = "sign"
#: What browsers, proxies and logs take without trouble.
_LONGEST: Final = 6000
#: What the hub itself sends beside an address: every group of a person in a thousand of them.
MOST_SENT: Final = 1 << 20
_T = TypeVar("_T")


class SealError(ValueError):
    """It cannot be used: too much is in it, or it is not one that the hub made."""


def seal(content: msgspec.Struct, purpose: str, secret: str) -> str:
    """*content* as a signed query, which works for *purpose* alone.

    Raises:
        SealError: it holds more than an address can.
    """
    parts = sign(content, purpose, secret)
    if (length := len(parts[BODY])) > _LONGEST:
        raise SealError(f"it comes to {length} characters, and an address holds {_LONGEST}")
    return urlencode(parts)


def sign(content: msgspec.Struct, purpose: str, secret: str) -> dict[str, str]:
    """*content* of any length and its signature, under the names that they travel by. No address holds it."""
    body = base64.urlsafe_b64encode(msgspec.json.encode(content)).decode()
    return {BODY: body, SIGNATURE: _sign(body, purpose, secret).decode()}


def read(kind: type[_T], body: str, signature: str, purpose: str, secret: str, most: int = _LONGEST) -> _T:  # noqa: PLR0917
    """What `seal` was given, or `sign`, of at most *most* characters.

    Raises:
        SealError: the hub did not make it, or another version of us did.
    """
    given = signature.encode("utf-8", "replace")
    if len(body) > most or not hmac.compare_digest(_sign(body, purpose, secret), given):
        raise SealError("the hub did not make it")
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(body.encode("ascii")), type=kind)
    except (msgspec.DecodeError, UnicodeError, binascii.Error) as error:
        raise SealError(f"another version made it: {error}") from None


def _sign(body: str, purpose: str, secret: str) -> bytes:
    said = f"gpushare {purpose}\0{body}".encode("utf-8", "replace")
    return hmac.new(secret.encode(), said, hashlib.sha256).hexdigest().encode()
