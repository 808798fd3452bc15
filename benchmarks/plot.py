"""Small plots as SVG: axes, points, lines and their names; readable on a light and on a dark page."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Axis", "Bars", "Plot", "Series"]

_WIDTH: Final = 720
_HEIGHT: Final = 420
_LEFT: Final = 70
_RIGHT: Final = 190
_TOP: Final = 40
_BOTTOM: Final = 55
_SUM: Final = 50
_TICKS: Final = 6
_STYLE: Final = """
  text { font: 12px system-ui, sans-serif; fill: #222 } .title { font-weight: 600; font-size: 14px }
  .axis { stroke: #555; stroke-width: 1 } .grid { stroke: #ddd; stroke-width: 1 } .line { fill: none; stroke-width: 2 }
  .c0 { stroke: #0072b2; fill: #0072b2 } .c1 { stroke: #d55e00; fill: #d55e00 } .c2 { stroke: #009e73; fill: #009e73 }
  .c3 { stroke: #9060b0; fill: #9060b0 } .c4 { stroke: #8a8a8a; fill: #8a8a8a } .c5 { stroke: #b8860b; fill: #b8860b }
  .line, .dash { fill: none } .dash { stroke-width: 2; stroke-dasharray: 6 4 } .paper { fill: #fff }
  @media (prefers-color-scheme: dark) {
    text { fill: #ddd } .paper { fill: #1b1b1b } .axis { stroke: #aaa } .grid { stroke: #3a3a3a }
    .c0 { stroke: #56b4e9; fill: #56b4e9 } .c1 { stroke: #ff8c42; fill: #ff8c42 } .line, .dash { fill: none }
  }"""


@dataclass(frozen=True, slots=True)
class Axis:
    """What it shows and from where to where; *is_log* spaces by factors, and then both ends are above zero."""

    name: str
    low: float
    high: float
    is_log: bool = False

    def part(self, value: float) -> float:
        """Where *value* lies, from 0 to 1; what lies outside is put at the edge."""
        bounded = min(max(value, self.low), self.high)
        if self.is_log:
            return math.log(bounded / self.low) / math.log(self.high / self.low)
        return (bounded - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Round values to write beside it."""
        if self.is_log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            return [10.0**power for power in range(first, last + 1)]
        step = _round_step((self.high - self.low) / _TICKS)
        count = math.floor((self.high - self.low) / step + 1e-9)
        return [self.low + step * number for number in range(count + 1)]


@dataclass(frozen=True, slots=True)
class Series:
    """Points with one name; *labels* stand beside them. One point is a mark of its own."""

    name: str
    points: Sequence[tuple[float, float]]
    labels: Sequence[str] = ()
    is_dashed: bool = False


@dataclass(slots=True)
class Plot:
    """Series over two axes."""

    title: str
    x: Axis
    y: Axis
    series: list[Series] = field(default_factory=list)

    def svg(self) -> str:
        """As a file's text."""
        parts = [_text(_LEFT, 22, self.title, "title"), *self._grid()]
        for number, each in enumerate(self.series):
            parts += self._draw(each, f"c{number % 6}")
            parts += _legend(number, each.name)
        return _page(parts)

    def _place(self, point: tuple[float, float]) -> tuple[float, float]:
        across, up = self.x.part(point[0]), self.y.part(point[1])
        return _LEFT + across * (_WIDTH - _LEFT - _RIGHT), _HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM)

    def _grid(self) -> list[str]:
        parts = []
        for tick in self.x.ticks():
            x, bottom = self._place((tick, self.y.low))
            parts += [_line(x, _TOP, x, bottom, "grid"), _text(x, bottom + 18, f"{tick:g}", anchor="middle")]
        for tick in self.y.ticks():
            left, y = self._place((self.x.low, tick))
            parts += [_line(left, y, _WIDTH - _RIGHT, y, "grid"), _text(left - 8, y + 4, f"{tick:g}", anchor="end")]
        bottom = _HEIGHT - _BOTTOM
        parts += [_line(_LEFT, bottom, _WIDTH - _RIGHT, bottom, "axis"), _line(_LEFT, _TOP, _LEFT, bottom, "axis")]
        middle = (_LEFT + _WIDTH - _RIGHT) / 2
        parts.append(_text(middle, _HEIGHT - 14, self.x.name, anchor="middle"))
        parts.append(
            f'<text x="18" y="{(_TOP + bottom) / 2:.1f}" text-anchor="middle" '
            f'transform="rotate(-90 18 {(_TOP + bottom) / 2:.1f})">{escape(self.y.name)}</text>'
        )
        return parts

    def _draw(self, series: Series, colour: str) -> list[str]:
        places = [self._place(point) for point in series.points]
        parts = [f'<circle class="{colour}" cx="{x:.1f}" cy="{y:.1f}" r="4"/>' for x, y in places]
        if len(places) > 1:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            parts.insert(0, f'<polyline class="{colour} {"dash" if series.is_dashed else "line"}" points="{path}"/>')
        parts += [_text(x + 7, y + 15, label) for (x, y), label in zip(places, series.labels, strict=False)]
        return parts


@dataclass(slots=True)
class Bars:
    """Stacked bars that lie: a row for each name, with one value for each part."""

    title: str
    unit: str
    parts: Sequence[str]
    rows: Sequence[tuple[str, Sequence[float]]]

    def svg(self) -> str:
        """As a file's text."""
        highest = max((sum(values) for _, values in self.rows), default=1.0) or 1.0
        left = 200
        width = _WIDTH - left - _RIGHT - _SUM
        drawn = [_text(20, 22, f"{self.title} ({self.unit})", "title")]
        step = (_HEIGHT - _TOP - 20) / max(1, len(self.rows))
        for row, (name, values) in enumerate(self.rows):
            x, y = float(left), _TOP + row * step
            drawn.append(_text(left - 8, y + step / 2 + 4, name, anchor="end"))
            for number, value in enumerate(values):
                long = width * value / highest
                drawn.append(_box(x, y + 2, long, step - 4, f"c{number % 6}"))
                x += long
            drawn.append(_text(x + 6, y + step / 2 + 4, f"{sum(values):,.0f}"))
        for number, part in enumerate(self.parts):
            drawn += _legend(number, part)
        return _page(drawn)


def _page(parts: list[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">'
    paper = f'<rect class="paper" width="{_WIDTH}" height="{_HEIGHT}"/>'
    return "\n".join([head, f"<style>{_STYLE}\n</style>", paper, *parts, "</svg>"]) + "\n"


def _legend(number: int, name: str) -> list[str]:
    x, y = _WIDTH - _RIGHT + 14, _TOP + 12 + 20 * number
    return [_box(x, y - 9, 10, 10, f"c{number % 6}"), _text(x + 16, y, name)]


def _box(x: float, y: float, width: float, height: float, style: str) -> str:
    return f'<rect class="{style}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"/>'


def _text(x: float, y: float, text: str, style: str = "", anchor: str = "start") -> str:
    named = f' class="{style}"' if style else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    return f'<line class="{style}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _round_step(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * times for times in (1, 2, 5, 10) if power * times >= rough - 1e-12)
