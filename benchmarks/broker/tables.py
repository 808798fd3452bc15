"""The figures as tables and a plot, and each target beside what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from benchmarks.plot import Axis, Plot, Series
from benchmarks.results import Table, Verdict, percentile

if TYPE_CHECKING:
    from benchmarks.broker.decisions import Growth
    from benchmarks.broker.load import Load

__all__ = ["growth_plot", "tables", "verdicts"]

_DECISION_MS: Final = 10.0
_API_MS: Final = 25.0
_MEMORY_MB: Final = 400.0
_FIRST_S: Final = 2.0
_ALL_S: Final = 30.0
_SLOPE: Final = 1.2


def tables(growth: Growth, load: Load | None) -> list[Table]:
    """Everything measured."""
    rows = [
        [
            f"{each.leases:,}",
            f"{each.median_ms:.2f}",
            f"{each.p99_ms:.2f}",
            f"{each.longest_ms:.2f}",
            f"{each.decisions:,}",
            f"{1000 * each.load_s:.0f}",
        ]
        for each in growth.samples
    ]
    columns = ["leases", "median ms", "p99 ms", "longest ms", "decisions", "books made in ms"]
    note = (
        f"Log-log slope of the medians: {growth.slope:.2f}. Sessions park and come back, jobs yield; nothing is kept."
    )
    found = [Table("One decision", columns, rows, note)]
    return found if load is None else [*found, _service(load), _api(load)]


def verdicts(growth: Growth, load: Load | None) -> list[Verdict]:
    """Each target."""
    largest = growth.samples[-1]
    found = [
        _most(f"{largest.leases:,} leases: decision p99 without the commit, ms", largest.p99_ms, _DECISION_MS),
        _most("log-log slope of a decision", growth.slope, _SLOPE),
    ]
    if load is None:
        return found
    asked = [each for times in load.asked_ms.values() for each in times]
    return [
        *found,
        _most("service: decision p99 without the commit, ms", load.decision_p99_ms, _DECISION_MS),
        _most("service: API p99, ms", percentile(asked, 99), _API_MS),
        _most("service: resident memory, MB", load.memory / 1e6, _MEMORY_MB),
        _most("after a kill: ledger read and first decision, s", load.first_s, _FIRST_S),
        _most("after a kill: everybody reconnected, s", load.rejoined_s, _ALL_S),
        Verdict("nobody refused", "; ".join(load.refused) or "nobody", not load.refused),
    ]


def growth_plot(growth: Growth) -> Plot:
    """Median and p99 over the number of leases, both axes by factors."""
    low = min(each.median_ms for each in growth.samples)
    high = max(each.p99_ms for each in growth.samples)
    plot = Plot(
        f"One decision as leases grow (slope {growth.slope:.2f})",
        Axis("leases", 100.0, 10_000.0, is_log=True),
        Axis("ms", _power_below(low), _power_above(high), is_log=True),
    )
    plot.series.append(Series("median", [(each.leases, each.median_ms) for each in growth.samples]))
    plot.series.append(Series("p99", [(each.leases, each.p99_ms) for each in growth.samples]))
    plot.series.append(Series("target", [(100.0, _DECISION_MS), (10_000.0, _DECISION_MS)], is_dashed=True))
    return plot


def _service(load: Load) -> Table:
    rows = [
        ["all joined, s", f"{load.joined_s:.1f}"],
        ["decisions under load", f"{load.decisions:,}"],
        ["decision p99 at most, ms", f"{load.decision_p99_ms:.1f}"],
        ["resident, MB", f"{load.memory / 1e6:.0f}"],
        ["of its core", f"{load.busy:.0%}"],
        ["after a kill: the API answers, s", f"{load.answered_s:.2f}"],
        ["after a kill: the first decision, s", f"{load.first_s:.2f}"],
        ["after a kill: all are back, s", f"{load.rejoined_s:.1f}"],
    ]
    return Table("The service on one core, a report from each holder every 10 s", ["what", "is"], rows)


def _api(load: Load) -> Table:
    rows = [
        [route, f"{percentile(times, 50):.1f}", f"{percentile(times, 99):.1f}", str(len(times))]
        for route, times in load.asked_ms.items()
        if times
    ]
    return Table(
        "The API meanwhile", ["GET", "median ms", "p99 ms", "requests"], rows, "A connection for each request."
    )


def _most(target: str, value: float, limit: float) -> Verdict:
    return Verdict(f"{target}: at most {limit:g}", f"{value:.2f}", value <= limit)


def _power_below(value: float) -> float:
    power = 1000.0
    while power > value:
        power /= 10
    return power


def _power_above(value: float) -> float:
    power = 0.001
    while power < value:
        power *= 10
    return power
