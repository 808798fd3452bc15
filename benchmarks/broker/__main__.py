"""``python -m benchmarks.broker``: one decision as leases grow, and the service with ten thousand holders.

Exits 0 when everything ran, whatever the figures are: they are for reading, not for passing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.broker import decisions, load
from benchmarks.broker.tables import growth_plot, tables, verdicts
from benchmarks.machine import facts
from benchmarks.results import FOLDER, Report

if TYPE_CHECKING:
    from benchmarks.broker.load import Load, Plan

_WISHES = 1000


def main() -> None:
    """Measure, print, and keep the results of a full run."""
    options = _options()
    report = Report("broker", facts())
    cores = sorted(os.sched_getaffinity(0))
    plan = load.Plan(core=cores[0])
    sizes = decisions.SIZES
    if options.quick:
        plan, sizes = load.Plan(holders=200, seconds=5.0, core=cores[0]), decisions.SIZES[:3]
    os.sched_setaffinity(0, {cores[-1]})
    growth = _grow(sizes, 100 if options.quick else _WISHES)
    loaded = None if options.decisions else _load(plan)
    report.tables, report.verdicts = tables(growth, loaded), verdicts(growth, loaded)
    report.figures = {"plan": plan, "growth": growth, "load": None if loaded is None else asdict(loaded)}
    report.show()
    if not options.quick:
        for path in report.write(options.results):
            print(f"written: {path.name}")
        drawing = options.results / f"broker-growth-{time.strftime('%Y-%m-%d')}.svg"
        drawing.write_text(growth_plot(growth).svg())
        print(f"written: {drawing.name}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.broker", description="What many leases cost the broker."
    )
    parser.add_argument("--quick", action="store_true", help="few leases, to see that it works; nothing is kept")
    parser.add_argument("--decisions", action="store_true", help="the decisions alone, without the service")
    parser.add_argument("--results", type=Path, default=FOLDER, help="the folder to write to")
    return parser.parse_args()


def _grow(sizes: tuple[int, ...], wishes: int) -> decisions.Growth:
    samples = []
    for size in sizes:
        print(f"decisions over {size:,} leases ...", flush=True)
        samples.append(decisions.measure(size, wishes))
    return decisions.Growth(tuple(samples), decisions.slope(samples))


def _load(plan: Plan) -> Load:
    print(f"the service with {plan.holders:,} holders ...", flush=True)
    with tempfile.TemporaryDirectory(prefix="gpushare-bench-", ignore_cleanup_errors=True) as folder:
        return asyncio.run(load.measure(Path(folder), plan))


if __name__ == "__main__":
    main()
