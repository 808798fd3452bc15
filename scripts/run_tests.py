"""Runs the parts of `make test`, some side by side, and adds up what they counted.

Every part runs even if one before it failed. A part in which no test was found has failed: nothing is
skipped quietly. The last line is ``N passed, N failed``.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "build" / "results"
NOT_ALONE = "--ignore=tests/mutations"
# Stage after stage; the lanes of a stage go side by side, as they mostly wait, each with its parts in order. The unit
# part has both cores for itself. What a part prints comes when it has ended, in one piece.
STAGES = [[["unit"]], [["browser"], ["labextension", "hub", "mutations"]]]
# A few tests take half a minute and stand side by side in one file: whoever has nothing left takes some of them.
SPREAD = ["--dist", "worksteal", "-n"]
PYTEST_PARTS = {
    "unit": ["tests", NOT_ALONE, "-m", "not gpu and not browser and not hub and not long and not matrix", *SPREAD, "5"],
    "browser": ["tests", NOT_ALONE, "-m", "browser and not long and not matrix"],
    "hub": ["tests", NOT_ALONE, "-m", "hub and not long and not matrix"],
    "mutations": ["tests/mutations", *SPREAD, "3"],
}


@dataclass(frozen=True)
class Outcome:
    """What one part counted. *failed* includes errors, and is at least one when the run itself broke."""

    part: str
    passed: int
    failed: int
    skipped: int
    seconds: float


def count_junit(report: Path) -> tuple[int, int, int]:
    """Passed, failed and skipped of pytest's own report."""
    totals = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for suite in ET.parse(report).iter("testsuite"):  # noqa: S314  # written by pytest a moment ago
        for name in totals:
            totals[name] += int(suite.get(name, 0))
    failed = totals["failures"] + totals["errors"]
    return totals["tests"] - failed - totals["skipped"], failed, totals["skipped"]


def count_jest(report: Path) -> tuple[int, int, int]:
    """Passed, failed and skipped of jest's own report."""
    counted = json.loads(report.read_text())
    broken = counted["numFailedTests"] + counted["numRuntimeErrorTestSuites"]
    return counted["numPassedTests"], broken, counted["numPendingTests"]


def run_part(part: str) -> Outcome:
    """Run one part and read its report; a part that left none has failed."""
    report = RESULTS / f"{part}.{'json' if part == 'labextension' else 'xml'}"
    report.unlink(missing_ok=True)
    print(f"[test] {part} begins", flush=True)
    started = time.monotonic()
    rc, printed = _run(part, report)
    count = count_jest if part == "labextension" else count_junit
    passed, failed, skipped = count(report) if report.exists() else (0, 0, 0)
    nothing = "" if passed + failed else f"[test] {part}: no test was found\n"
    print(f"\n[test] {part}\n{printed}{nothing}", flush=True)
    # A run can break without a failing test: an empty selection, an internal error, an interrupt.
    failed = max(failed, int(rc != 0), int(not passed))
    return Outcome(part, passed, failed, skipped, time.monotonic() - started)


def _run(part: str, report: Path) -> tuple[int, str]:
    """The exit code of one part, and what it printed for people."""
    if part == "labextension":
        command, cwd = ["jlpm", "test", "--ci", "--json", f"--outputFile={report}"], ROOT / "labextension"
        return subprocess.run(command, cwd=cwd, stdout=subprocess.DEVNULL, check=False).returncode, ""
    command = [sys.executable, "-m", "pytest", *PYTEST_PARTS[part], f"--junit-xml={report}", "--durations=5"]
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return ended.returncode, ended.stdout


def run_lane(parts: list[str]) -> list[Outcome]:
    """Run *parts* one after the other."""
    return [run_part(part) for part in parts]


def main(parts: list[str]) -> int:
    """Run *parts*, all of them when empty; returns the exit code."""
    known = ["labextension", *PYTEST_PARTS]
    if strangers := sorted(set(parts) - set(known)):
        print(f"{', '.join(strangers)}: no such part; there are {', '.join(known)}")
        return 2
    # A shell that starts this in the background has the tests' programs ignore Ctrl-C, which some of them test.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    RESULTS.mkdir(parents=True, exist_ok=True)
    outcomes: list[Outcome] = []
    for stage in STAGES:
        lanes = [[part for part in lane if part in (parts or known)] for lane in stage]
        with ThreadPoolExecutor(len(lanes)) as pool:
            outcomes += [outcome for lane in pool.map(run_lane, lanes) for outcome in lane]
    return tell(outcomes, "test")


def tell(outcomes: list[Outcome], what: str) -> int:
    """Print what each part counted, and keep the closing line; the exit code."""
    print(f"\n[{what}] part               passed  failed  skipped  seconds")
    for each in outcomes:
        print(f"[{what}] {each.part:17} {each.passed:7} {each.failed:7} {each.skipped:8} {each.seconds:8.0f}")
    failed = sum(each.failed for each in outcomes)
    closing = f"{sum(each.passed for each in outcomes)} passed, {failed} failed"
    (RESULTS / ("summary" if what == "test" else f"summary-{what}")).write_text(closing + "\n")
    print(closing, flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
