"""What the hub calls the claim of one of its servers: the same name in its hooks, its service and the server itself."""

from __future__ import annotations

import hashlib
from typing import Final

__all__ = ["PREFIX", "claim_key"]

#: Every key of a hub's claim begins with this.
PREFIX: Final = "hub:"
_LONGEST: Final = 200
_KEPT: Final = 120


def claim_key(person: str, server: str) -> str:
    """The key of *person*'s *server*, whose name is empty for the unnamed one.

    Neither name can hold a slash: the hub sees to that. A key that were too long ends in a hash.
    """
    key = f"{PREFIX}{person}/{server}"
    if len(key) <= _LONGEST:
        return key
    return f"{key[:_KEPT]}~{hashlib.sha256(key.encode('utf-8', 'replace')).hexdigest()}"
