"""The card as HTML, for a cell's output. Everything that came from elsewhere is escaped."""

from __future__ import annotations

from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_gpushare.notebook.card import Bar, Card, Figure, Row, Segment, State

__all__ = ["STATIC", "html_of"]

STATIC: Final = Path(__file__).parent / "static"


def html_of(card: Card) -> str:
    """*card* as one self-contained element. `static/widget.js` builds the same from the same card."""
    parts = [
        _head(card),
        _state(card.state) if card.state else "",
        *(_row(row) for row in card.rows),
        *(_bar(bar) for bar in card.bars),
        *(_block("note", escape(note)) for note in card.notes),
    ]
    return f"<style>{_style()}</style>{_block('card', ''.join(parts))}"


@cache
def _style() -> str:
    return (STATIC / "widget.css").read_text(encoding="utf-8")


def _head(card: Card) -> str:
    details = _block("details", _joined(card.details)) if card.details else ""
    headline = _block("headline", _figure(card.headline)) if card.headline.text else ""
    return f"{_block('title', escape(card.title))}{headline}{details}"


def _state(state: State) -> str:
    icon = f'<span class="jp-gpushare-icon" aria-hidden="true">{escape(state.icon)}</span>'
    text = f"<span>{escape(state.text)}</span>"
    return f'<div class="jp-gpushare-state {_role(state.role)}" role="status">{icon}{text}</div>'


def _row(row: Row) -> str:
    name = f'<span class="jp-gpushare-name">{escape(row.name)}</span>'
    return _block("row", f'{name}<span class="jp-gpushare-figures">{_joined(row.figures)}</span>')


def _bar(bar: Bar) -> str:
    heading = _block("row", f"<b>{escape(bar.title)}</b><span>{escape(bar.subtitle)}</span>")
    if bar.why:
        return heading + _block("note", escape(bar.why))
    label = escape(", ".join(segment.text for segment in bar.segments))
    pieces = "".join(_piece(segment) for segment in bar.segments)
    legend = "".join(_legend(segment) for segment in bar.segments)
    strip = f'<div class="jp-gpushare-bar" role="img" aria-label="{label}">{pieces}</div>'
    return f"{heading}{strip}{_block('legend', legend)}"


def _piece(segment: Segment) -> str:
    return f'<i class="{_role(segment.role)}" style="width:{segment.percent:.1f}%"></i>'


def _legend(segment: Segment) -> str:
    return f'<span><i class="{_role(segment.role)}"></i>{escape(segment.text)}</span>'


def _joined(figures: Iterable[Figure]) -> str:
    return " · ".join(_figure(figure) for figure in figures)


def _figure(figure: Figure) -> str:
    text = escape(figure.text)
    return f'<span title="{escape(figure.why)}">{text}</span>' if figure.why else text


def _role(role: str) -> str:
    return f"jp-gpushare-{escape(role)}"


def _block(name: str, content: str) -> str:
    return f'<div class="jp-gpushare-{name}">{content}</div>'
