"""``python -m benchmarks.crowds [--seed N] [--seeds M]``: Monday at nine, with six kinds of jobs, and a class."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.crowds import classroom, monday
from benchmarks.crowds.tables import lesson_table, lesson_verdicts, morning_table, morning_verdicts
from benchmarks.machine import facts
from benchmarks.results import FOLDER, Report
from jupyter_gpushare.quantity import Fraction

_PARTS: Final = ("0.2", "1")
#: The part of the jobs that offer safe points; the others save themselves on SIGTERM.
_SAFE_POINTS: Final = {"all save": 0.0, "half parked": 0.5, "all parked": 1.0}


def main() -> None:
    """Run, print, and keep the results."""
    options = _options()
    people, devices, gpus = (80, 16, 8) if options.quick else (200, 40, 20)
    seeds = range(options.seed, options.seed + options.seeds)
    report = Report("crowds", facts())
    for part in _PARTS:
        for name, parked in _SAFE_POINTS.items():
            plan = monday.Monday(people, devices, Fraction.parse(part), safe_points=parked)
            _morning(report, f"Monday, jobs of {part} GPU, {name}", plan, seeds)
    _lesson(report, classroom.Classroom(people, gpus, seed=options.seed))
    report.show()
    if not options.quick:
        for path in report.write(options.results):
            print(f"written: {path.name}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crowds", description="Everybody at once.")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same figures")
    parser.add_argument("--seeds", type=int, default=3, help="how many Mondays of each kind, from that seed on")
    parser.add_argument("--quick", action="store_true", help="two fifths of the people; nothing is kept")
    parser.add_argument("--results", type=Path, default=FOLDER, help="the folder to write to")
    return parser.parse_args()


def _morning(report: Report, name: str, plan: monday.Monday, seeds: range) -> None:
    print(f"{name} ...", flush=True)
    found = {seed: monday.run(replace(plan, seed=seed)) for seed in seeds}
    report.tables.append(morning_table(name, found))
    report.verdicts += morning_verdicts(name, plan, list(found.values()))
    report.figures[name] = {
        str(seed): {"estimates": each.shown, "unknown": each.unknown, "lent": each.lent, "waits": each.account.waits}
        for seed, each in found.items()
    }


def _lesson(report: Report, plan: classroom.Classroom) -> None:
    print("the class ...", flush=True)
    taught = classroom.run(plan)
    report.tables.append(lesson_table(taught))
    report.verdicts += lesson_verdicts(plan, taught)
    report.figures["class"] = {"waits": taught.account.waits}


if __name__ == "__main__":
    main()
