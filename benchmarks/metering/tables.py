"""The figures as tables, and each target of this project beside what was measured."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final

from benchmarks.metering.plan import WATCHED
from benchmarks.metering.round_trips import ARMS, DELAY_MS
from benchmarks.results import Table, Verdict, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.metering.first_sample import FirstSample
    from benchmarks.metering.round_trips import RoundTrips
    from benchmarks.metering.watching_cost import WatchingCost

__all__ = ["tables", "verdicts"]

_OURS: Final = "jupyter_gpushare, 1 watcher"
_OURS_TEN: Final = "jupyter_gpushare, 10 watchers"
_HELD: Final = "ours, held"
_NOTHING_HELD: Final = "ours, nothing held"


def tables(cost: WatchingCost, first: FirstSample, trips: RoundTrips) -> list[Table]:
    """Everything measured."""
    return [_cost(cost), _unwatched(cost), _first(first), _trips(trips)]


def verdicts(cost: WatchingCost, first: FirstSample, trips: RoundTrips) -> list[Verdict]:
    """Each target, judged by medians."""
    return [*_cost_verdicts(cost), *_unwatched_verdicts(cost), _first_verdict(first), *_trip_verdicts(trips)]


def _median(values: Sequence[float]) -> float:
    return statistics.median(values)


def _cost(cost: WatchingCost) -> Table:
    plain = _median(cost.resident["plain A"])
    rows = [
        [
            arm.name,
            spread(cost.above_plain[arm.name], 3),
            f"{(_median(cost.resident[arm.name]) - plain) / 1e6:.1f}",
            f"{_median(cost.received[arm.name]) / 1e6:.3f}",
        ]
        for arm in WATCHED
    ]
    between = ["plain A less plain B", spread(cost.between_plain, 3), _plain_memory(cost), "0"]
    return Table(
        "Watched: a server's cost above that of a server without extensions",
        ["front end", "CPU s a minute", "memory MB", "received MB a minute"],
        [*rows, between],
        "Medians (lowest to highest) of interleaved windows, each beside the plain server in the same window. "
        "The stand-in has 8 GPUs; every kernel holds some of the first, a stranger some of each. What they hold stands "
        "still, as between two allocations: ours then lists the processes of a GPU every fifth time only.",
    )


def _plain_memory(cost: WatchingCost) -> str:
    return f"{(_median(cost.resident['plain A']) - _median(cost.resident['plain B'])) / 1e6:.1f}"


def _unwatched(cost: WatchingCost) -> Table:
    rows = [[name, spread(cost.unwatched[name], 3), str(cost.calls_unwatched[name])] for name in (_NOTHING_HELD, _HELD)]
    columns = ["server", "CPU s a minute above plain", "driver calls"]
    return Table("Unwatched, while the others were watched", columns, rows)


def _first(first: FirstSample) -> Table:
    rows = [[name, spread(first.cold[name], 0), spread(first.warm[name], 0)] for name in first.cold]
    return Table(
        "First sample, in ms from opening",
        ["front end", "a server's first watcher", "a later watcher"],
        rows,
        "Numbers older than a second do not count. nvdashboard: the last of its three charts.",
    )


def _trips(trips: RoundTrips) -> Table:
    rows = [[name, spread(trips.median[name]), spread(trips.p99[name]), str(trips.cells[name])] for name in ARMS]
    return Table(
        f"Round trips of empty cells in ms, each driver call taking {DELAY_MS:.0f} ms",
        ["server", "median", "p99", "cells"],
        rows,
        "Medians (lowest to highest) of the windows' medians and 99th percentiles.",
    )


def _cost_verdicts(cost: WatchingCost) -> list[Verdict]:
    ours, ten = _median(cost.above_plain[_OURS]), _median(cost.above_plain[_OURS_TEN])
    fast = _median(cost.above_plain["nvdashboard at 100 ms, 1 watcher"])
    slow = _median(cost.above_plain["nvdashboard at 1,000 ms, 1 watcher"])
    noise = max(abs(value) for value in cost.between_plain)
    return [
        Verdict("CPU at most 1/5 of nvdashboard at its defaults", f"{ours:.3f} of {fast:.3f} s", ours <= fast / 5),
        Verdict(
            "CPU not above nvdashboard at 1,000 ms",
            f"{ours:.3f} of {slow:.3f} s (A/A within {noise:.3f})",
            ours <= slow,
        ),
        Verdict("ten watchers cost less than two", f"{ten:.3f} of 2 * {ours:.3f} s", ten < 2 * ours),
    ]


def _unwatched_verdicts(cost: WatchingCost) -> list[Verdict]:
    calls, held = cost.calls_unwatched[_NOTHING_HELD], _median(cost.unwatched[_HELD])
    return [
        Verdict("unwatched, nothing held: no driver call", f"{calls} calls", calls == 0),
        Verdict("unwatched while held: at most 0.05 s CPU a minute", f"{held:.3f} s", held <= 0.05),
    ]


def _first_verdict(first: FirstSample) -> Verdict:
    cold, warm = (_median(times["jupyter_gpushare"]) for times in (first.cold, first.warm))
    return Verdict("first sample within 50 ms", f"{cold:.0f} ms cold, {warm:.0f} ms later", max(cold, warm) <= 50)


def _trip_verdicts(trips: RoundTrips) -> list[Verdict]:
    return [
        _trip_verdict("median of round trips within the A/A spread", trips.median),
        _trip_verdict("p99 of round trips within the A/A spread", trips.p99),
    ]


def _trip_verdict(target: str, figures: dict[str, list[float]]) -> Verdict:
    """Ours less the mean of the plain servers, against the largest difference of those in any one round."""
    pairs = list(zip(figures["plain A"], figures["plain B"], strict=True))
    noise = max(abs(a - b) for a, b in pairs)
    ours = _median([own - (a + b) / 2 for own, (a, b) in zip(figures["ours, watched"], pairs, strict=True)])
    return Verdict(target, f"{ours:+.2f} ms; A/A within {noise:.2f} ms", ours <= noise)
