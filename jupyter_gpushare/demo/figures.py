"""Numbers as people read them in a terminal: GB with one decimal, never 0 for unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jupyter_gpushare.quantity import Memory

if TYPE_CHECKING:
    from jupyter_gpushare.session.wire import ReadingModel

__all__ = ["UNKNOWN", "gb", "memory", "printable", "utilisation"]

UNKNOWN: Final = "–"  # noqa: RUF001  # the sign that every screen of ours uses for "not available"


def gb(amount: int) -> str:
    """*amount* bytes as every screen of ours writes them."""
    return Memory(amount).human


def memory(reading: ReadingModel) -> str:
    """A reading of memory, or the sign for not available."""
    return UNKNOWN if reading.value is None else gb(reading.value)


def utilisation(reading: ReadingModel) -> str:
    """A reading of utilisation in per cent, or the sign for not available."""
    return UNKNOWN if reading.value is None else f"{reading.value} %"


def printable(text: str) -> str:
    """*text* without control characters: a notebook's name must not steer the terminal that shows it."""
    return "".join(character if character.isprintable() else "�" for character in text)
