"""The figures as tables, and each target beside what was measured."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final

from benchmarks.results import Table, Verdict, percentile, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.gate.round_trips import Times

__all__ = ["ARMS", "tables", "verdicts"]

ARMS: Final = ("plain A", "plain B", "ours")
_MEDIAN_LIMIT_MS: Final = 0.2
_P99_LIMIT_MS: Final = 1.0
_BROWSER_LIMIT_MS: Final = 8.0


def tables(trips: Times, browser: Times) -> list[Table]:
    """Everything measured."""
    return [
        _table("Round trips of empty cells in ms, client with TCP_NODELAY and TCP_QUICKACK", trips),
        _table("Empty cells back to back in Chromium, in ms", browser),
    ]


def verdicts(trips: Times, browser: Times) -> list[Verdict]:
    """Each target."""
    return [
        _added("median: at most 0.2 ms above the A/A noise", trips, statistics.median, _MEDIAN_LIMIT_MS),
        _added("p99: at most 1 ms above the A/A noise", trips, lambda times: percentile(times, 99), _P99_LIMIT_MS),
        _in_browser(browser),
    ]


def _table(title: str, found: Times) -> Table:
    rows = [[arm, *_row(found[arm])] for arm in ARMS]
    note = "All cells of a server together; in brackets the lowest and the highest median of a window."
    return Table(title, ["server", "median", "p99", "cells", "windows' medians"], rows, note)


def _row(windows: list[list[float]]) -> list[str]:
    times = _all(windows)
    medians = [statistics.median(window) for window in windows]
    return [f"{statistics.median(times):.3f}", f"{percentile(times, 99):.3f}", str(len(times)), spread(medians, 3)]


def _added(target: str, found: Times, figure: Callable[[Sequence[float]], float], limit_ms: float) -> Verdict:
    """Ours less the mean of the plain servers; the noise is what differs between those two."""
    one, other, ours = (figure(_all(found[arm])) for arm in ARMS)
    added, noise = ours - (one + other) / 2, abs(one - other)
    return Verdict(target, f"{added:+.3f} ms; A/A noise {noise:.3f} ms", added - noise <= limit_ms)


def _in_browser(found: Times) -> Verdict:
    plain, ours = (statistics.median(_all(found[arm])) for arm in ("plain A", "ours"))
    text = f"{ours:.1f} ms, plain server {plain:.1f} ms"
    return Verdict("Chromium, back to back: at most 8 ms", text, ours <= _BROWSER_LIMIT_MS)


def _all(windows: list[list[float]]) -> list[float]:
    return [time for window in windows for time in window]
