"""``python -m benchmarks.metering [--quick]``: our server beside the other extensions, on one machine, interleaved.

Exits 0 when everything ran, whatever the figures are: they are for reading, not for passing.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from benchmarks.machine import facts
from benchmarks.metering import first_sample, round_trips, watching_cost
from benchmarks.metering.plan import FULL, QUICK, Plan
from benchmarks.metering.tables import tables, verdicts
from benchmarks.results import FOLDER, Report
from benchmarks.servers import Workplace

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.metering", description="What watching the GPUs costs.")
    parser.add_argument("--quick", action="store_true", help="two short rounds, to see that it works; nothing is kept")
    parser.add_argument("--rounds", type=int, help=f"rounds of windows (default: {FULL.rounds})")
    parser.add_argument("--window", type=float, help=f"seconds of a window, a multiple of 5 (default: {FULL.window_s})")
    parser.add_argument("--results", type=Path, default=FOLDER, help="the folder to write to")
    return parser.parse_args()


def _plan(options: argparse.Namespace) -> Plan:
    base = QUICK if options.quick else FULL
    chosen = {"rounds": options.rounds, "window_s": options.window}
    return Plan(**{**asdict(base), **{name: value for name, value in chosen.items() if value is not None}})


def _measure(plan: Plan) -> Report:
    report = Report("metering", facts())
    with tempfile.TemporaryDirectory(prefix="gpushare-bench-", ignore_cleanup_errors=True) as folder:
        workplace = Workplace(Path(folder))
        workplace.prepare()
        cost = _timed("watched and unwatched servers", lambda: watching_cost.measure(workplace, plan))
        first = _timed("first samples", lambda: first_sample.measure(workplace, plan))
        trips = _timed("round trips with a slow driver", lambda: round_trips.measure(workplace, plan))
    report.tables = tables(cost, first, trips)
    report.verdicts = verdicts(cost, first, trips)
    report.figures = {"plan": asdict(plan), "watching": cost, "first": first, "trips": trips}
    return report


def _timed(what: str, measure: Callable[[], T]) -> T:
    print(f"{what} ...", flush=True)
    began = time.monotonic()
    found = measure()
    print(f"{what}: {time.monotonic() - began:.0f} s", flush=True)
    return found


def main() -> None:
    """Measure, print, and keep the results of a full run."""
    options = _options()
    report = _measure(_plan(options))
    report.show()
    if not options.quick:
        for path in report.write(options.results):
            print(f"written: {path.name}")


if __name__ == "__main__":
    main()
