"""A page of docs/ as a reader goes through it: its headings, its blocks, what stands below them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["DOCS", "Block", "Guide", "shows"]

DOCS: Final = Path(__file__).parents[2] / "docs"
_FENCE: Final = re.compile(r"^```(?P<language>\w+)(?: (?P<place>\S+))?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING: Final = re.compile(r"^## (.+)$", re.MULTILINE)
_OMITTED: Final = "…"


@dataclass(frozen=True, slots=True)
class Block:
    """One block.

    Attributes:
        language: after the fence.
        place: what stands behind it: a file's name, or whose terminal or notebook it is for; empty for the usual one.
        text: what it holds.
    """

    language: str
    place: str
    text: str


@dataclass(frozen=True, slots=True)
class Guide:
    """One page."""

    text: str

    @classmethod
    def read(cls, name: str) -> Guide:
        """The page *name* of docs/."""
        return cls((DOCS / name).read_text(encoding="utf-8"))

    def sections(self) -> dict[str, Guide]:
        """Its parts by their headings."""
        _, *parts = _HEADING.split(self.text)
        return {head: Guide(body) for head, body in zip(parts[::2], parts[1::2], strict=True)}

    def blocks(self) -> list[Block]:
        """Its blocks, in the order in which they stand."""
        return [Block(found["language"], found["place"] or "", found["text"]) for found in _FENCE.finditer(self.text)]

    def prose(self) -> str:
        """What stands around the blocks, in one line."""
        return " ".join(_FENCE.sub(" ", self.text).split())


def shows(printed: str, expected: str) -> str:
    """What of *expected*, lines that stand in *printed* in this order, is not there; empty when all of it is.

    A ``…`` stands for anything, also for nothing.
    """
    at = 0
    for line in filter(None, map(str.strip, expected.splitlines())):
        parts = [re.escape(part.strip()) for part in line.split(_OMITTED)]
        found = re.compile(".*?".join(parts), re.DOTALL).search(printed, at)
        if found is None:
            return line
        at = found.end()
    return ""
