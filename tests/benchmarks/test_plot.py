"""Plots are honest: points lie where their values are, whatever is outside is at the edge, names are escaped."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from benchmarks.plot import Axis, Bars, Plot, Series

SVG = "{http://www.w3.org/2000/svg}"


def circles(svg: str) -> list[tuple[float, float]]:
    """Where the points are."""
    return [(float(each.get("cx", "")), float(each.get("cy", ""))) for each in ET.fromstring(svg).iter(f"{SVG}circle")]  # noqa: S314  # our own


def test_points_lie_in_proportion() -> None:
    """A value half-way up a linear axis is drawn half-way; on a log axis a factor is a distance."""
    plot = Plot("t", Axis("x", 1.0, 100.0, is_log=True), Axis("y", 0.0, 10.0))
    plot.series.append(Series("s", [(1.0, 0.0), (10.0, 5.0), (100.0, 10.0), (1e9, 99.0)]))
    (x0, y0), (x1, y1), (x2, y2), outside = circles(plot.svg())
    assert (x1, y1) == pytest.approx(((x0 + x2) / 2, (y0 + y2) / 2), abs=0.2)
    assert outside == (x2, y2)


def test_names_cannot_break_the_drawing() -> None:
    """Text from outside is text, also when it looks like markup; both kinds of page are provided for."""
    svg = Plot("a < b & c", Axis("x", 0, 1), Axis("y", 0, 1), [Series("<script>", [(0, 0)], ["&"])]).svg()
    assert ET.fromstring(svg).tag == f"{SVG}svg"  # noqa: S314  # our own
    assert "<script>" not in svg
    assert "prefers-color-scheme: dark" in svg


def test_bars_stack_to_their_sum() -> None:
    """The parts of a row follow each other without a gap, and the longest row sets the scale."""
    svg = Bars("t", "h", ["a", "b"], [("one", (30.0, 10.0)), ("two", (10.0, 10.0))]).svg()
    boxes = [each for each in ET.fromstring(svg).iter(f"{SVG}rect") if each.get("height") not in ("10.0", "420")]  # noqa: S314  # our own
    widths = [float(each.get("width", "")) for each in boxes]
    assert widths[0] + widths[1] == pytest.approx(2 * (widths[2] + widths[3]), abs=0.3)
    assert float(boxes[1].get("x", "")) == pytest.approx(float(boxes[0].get("x", "")) + widths[0], abs=0.2)
