"""What a newer version says that this one does not know: told from what makes no sense at all.

A holder and its broker may be a version apart, either way. So fields that one does not know are left alone, fields that
the other does not send have a default, and a message of a type that one does not know is passed over.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Final, get_args

import msgspec

from jupyter_gpushare.broker import wire

__all__ = ["VERSION", "Said", "passes_over"]

#: Of this jupyter_gpushare.
VERSION: Final = version("jupyter_gpushare")
_TYPES: Final = frozenset(str(each.__struct_config__.tag) for each in get_args(wire.ToBroker | wire.ToHolder))


class Said(msgspec.Struct, frozen=True):
    """As much of a message as any version understands: what *type* it is, and the *version* of a hello's holder."""

    type: str = ""
    version: str = ""

    @classmethod
    def of(cls, text: str | bytes) -> Said:
        """Of a message that could not be decoded as what it should be; empty where it is none at all."""
        try:
            return msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return cls()


def passes_over(text: str | bytes) -> bool:
    """Whether *text* is a whole message, but of a type that neither side of this version says."""
    kind = Said.of(text).type
    return bool(kind) and kind not in _TYPES
