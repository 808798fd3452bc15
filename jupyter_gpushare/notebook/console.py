"""The card as plain text, in a terminal with colour. The same words as everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jupyter_gpushare.notebook.card import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_gpushare.notebook.card import Bar, Card, Figure, Role, Row, Segment

__all__ = ["text_of"]

_CELLS: Final = 40
_PATTERNS: Final[dict[Role, str]] = {
    "mine": "█",
    "kept": "░",
    "others": "▒",
    "free": "·",
    "changing": "▓",
    "parked": "▚",
}
_COLOURS: Final[dict[Role, str]] = {
    "mine": "34",
    "kept": "94",
    "changing": "33",
    "parked": "35",
    "others": "90",
    "free": "39",
    "trouble": "31",
}


def text_of(card: Card, *, colour: bool = False) -> str:
    """*card* in lines. *colour* adds the terminal's own colours; the words say the same without."""
    return "\n".join(_lines(card, colour=colour))


def _lines(card: Card, *, colour: bool) -> Iterable[str]:
    yield _clean("  ".join(part for part in (card.title, _figure(card.headline)) if part))
    if card.details:
        yield _clean(_joined(card.details))
    if card.state:
        yield f"{_paint(card.state.icon, card.state.role, colour=colour)} {_clean(card.state.text)}"
    width = max((len(row.name) for row in card.rows), default=0)
    yield from (_row(row, width) for row in card.rows)
    for bar in card.bars:
        yield from _bar(bar, colour=colour)
    yield from (_clean(note) for note in card.notes)


def _row(row: Row, width: int) -> str:
    return _clean(f"{row.name:<{width}}  {_joined(row.figures)}")


def _bar(bar: Bar, *, colour: bool) -> Iterable[str]:
    yield _clean(f"{bar.title}  {bar.subtitle}")
    if bar.why:
        yield _clean(f"  {bar.why}")
        return
    yield "  " + "".join(_cells(segment, colour=colour) for segment in bar.segments)
    yield "  " + "  ".join(
        f"{_paint(_PATTERNS[segment.role], segment.role, colour=colour)} {_clean(segment.text)}"
        for segment in bar.segments
    )


def _cells(segment: Segment, *, colour: bool) -> str:
    # What is there at all stays visible, however small.
    count = max(1, round(_CELLS * segment.percent / 100))
    return _paint(_PATTERNS[segment.role] * count, segment.role, colour=colour)


def _joined(figures: Iterable[Figure]) -> str:
    return " · ".join(_figure(figure) for figure in figures)


def _figure(figure: Figure) -> str:
    # A terminal has no hover: the reason for a missing figure stands beside it.
    return f"{figure.text} ({figure.why})" if figure.text.endswith(UNKNOWN) and figure.why else figure.text


def _paint(text: str, role: Role, *, colour: bool) -> str:
    return f"\x1b[{_COLOURS[role]}m{text}\x1b[0m" if colour else text


def _clean(text: str) -> str:
    """*text* without control characters, so that a notebook's name cannot steer the terminal."""
    return "".join(character if character.isprintable() else "�" for character in text)
