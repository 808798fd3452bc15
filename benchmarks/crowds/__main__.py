"""``python -m benchmarks.crowds [--seed N]``: Monday at nine, with four kinds of jobs, and a class."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.crowds import classroom, monday
from benchmarks.crowds.tables import lesson_verdicts, morning_verdicts, table
from benchmarks.machine import facts
from benchmarks.results import FOLDER, Report
from jupyter_gpushare.quantity import Fraction


def main() -> None:
    """Run, print, and keep the results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crowds", description="Everybody at once.")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same figures")
    parser.add_argument("--quick", action="store_true", help="a quarter of the people; nothing is kept")
    parser.add_argument("--results", type=Path, default=FOLDER, help="the folder to write to")
    options = parser.parse_args()
    people, devices, gpus = (80, 16, 8) if options.quick else (200, 40, 20)
    mornings = {
        f"Monday, jobs of {part} GPU, {name}": monday.Monday(
            people, devices, Fraction.parse(part), safe_points=parked, seed=options.seed
        )
        for part in ("0.2", "1")
        for name, parked in (("all save", 0.0), ("half parked", 0.5))
    }
    lesson = classroom.Classroom(people, gpus, seed=options.seed)
    report = Report("crowds", facts())
    for name, plan in mornings.items():
        print(f"{name} ...", flush=True)
        found = monday.run(plan)
        report.tables.append(table(name, found.account, found.peaks))
        report.verdicts += morning_verdicts(name, plan, found)
        report.figures[name] = {"estimates": found.shown, "lent": found.lent, "waits": found.account.waits}
    print("the class ...", flush=True)
    taught = classroom.run(lesson)
    report.tables.append(table("the class", taught.account, taught.peaks))
    report.verdicts += lesson_verdicts(lesson, taught)
    report.figures["class"] = {"waits": taught.account.waits}
    report.show()
    if not options.quick:
        for path in report.write(options.results):
            print(f"written: {path.name}")


if __name__ == "__main__":
    main()
