"""``python -m benchmarks.gate [--quick]``: what extension, provisioner and gate add to a cell, and what they take away.

Exits 0 when everything ran, whatever the figures are: they are for reading, not for passing.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import asdict
from pathlib import Path

from benchmarks.gate import browser, round_trips
from benchmarks.gate.plan import FULL, QUICK, Plan
from benchmarks.gate.tables import ARMS, tables, verdicts
from benchmarks.machine import facts
from benchmarks.metering.fleet import fleet
from benchmarks.results import FOLDER, Report
from benchmarks.servers import OURS, PLAIN, Workplace


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gate", description="What the gate costs a cell.")
    parser.add_argument("--quick", action="store_true", help="a few cells, to see that it works; nothing is kept")
    parser.add_argument("--results", type=Path, default=FOLDER, help="the folder to write to")
    return parser.parse_args()


def _measure(plan: Plan) -> Report:
    report = Report("gate", facts())
    extensions = {arm: OURS if arm == "ours" else PLAIN for arm in ARMS}
    with tempfile.TemporaryDirectory(prefix="gpushare-bench-", ignore_cleanup_errors=True) as folder:
        workplace = Workplace(Path(folder))
        workplace.prepare()
        with fleet(workplace, extensions) as members:
            print("round trips ...", flush=True)
            trips = round_trips.measure(members, plan)
            print("the browser ...", flush=True)
            in_browser = browser.measure(members, plan)
    report.tables, report.verdicts = tables(trips, in_browser), verdicts(trips, in_browser)
    report.figures = {"plan": asdict(plan), "trips": trips, "browser": in_browser}
    return report


def main() -> None:
    """Measure, print, and keep the results of a full run."""
    options = _options()
    report = _measure(QUICK if options.quick else FULL)
    report.show()
    if not options.quick:
        for path in report.write(options.results):
            print(f"written: {path.name}")


if __name__ == "__main__":
    main()
