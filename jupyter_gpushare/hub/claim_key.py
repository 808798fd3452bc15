"""What the hub calls the claim of one of its servers: the same name in its hooks, its service and the server itself."""

from __future__ import annotations

import hashlib
from typing import Final

__all__ = ["PREFIX", "claim_key", "shown_of"]

#: Every key of a hub's claim begins with this.
PREFIX: Final = "hub:"
_LONGEST: Final = 200
_KEPT: Final = 120


def shown_of(person: str) -> str:
    """What every key of *person*'s servers begins with, and nobody else's: no name is empty or holds a slash.

    A name that were too long is there by its hash.
    """
    shown = f"{PREFIX}{person}/"
    return shown if len(shown) <= _KEPT else f"{PREFIX}/{_hash(person)}/"


def claim_key(person: str, server: str) -> str:
    """The key of *person*'s *server*, whose name is empty for the unnamed one.

    Neither name can hold a slash: the hub sees to that. A key that were too long ends in a hash.
    """
    key = f"{shown_of(person)}{server}"
    return key if len(key) <= _LONGEST else f"{key[:_KEPT]}~{_hash(key)}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
