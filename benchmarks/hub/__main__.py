"""``python -m benchmarks.hub``: what a hub pays for GPU shares at a server's start, for its overview, and for culling.

Exits 0 when everything ran, whatever the figures are: they are for reading, not for passing. Only where two cullers
that must decide alike do not, it exits 1.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Final

from benchmarks.hub import overview, spawns
from benchmarks.hub.culling.__main__ import main as measure_culling
from benchmarks.hub.tables import tables, verdicts
from benchmarks.machine import facts
from benchmarks.results import FOLDER, Report

_ROUNDS: Final = 40
_QUICK_ROUNDS: Final = 3
_PARTS: Final = ["spawns", "overview", "culling"]
_PARTS_HELP: Final = "spawns, overview, culling; all by default. The first two are kept only together"


def main() -> int:
    """Measure, print, and keep the results of a full run; the exit code."""
    options = _options()
    parts = options.parts or _PARTS
    if set(parts) & {"spawns", "overview"}:
        _measure_hub(options, parts)
    if "culling" not in parts:
        return 0
    print("rounds of culling over ten thousand servers ...", flush=True)
    return measure_culling(["--quick"] if options.quick else ["--results", str(options.results)])


def _measure_hub(options: argparse.Namespace, parts: list[str]) -> None:
    started = looked = None
    if "spawns" in parts:
        print("servers are started on a hub with us and on one without ...", flush=True)
        started = asyncio.run(spawns.measure(_QUICK_ROUNDS if options.quick else _ROUNDS))
    if "overview" in parts:
        devices, sessions = (10, 50) if options.quick else (100, 1000)
        print(f"the overview of {devices} devices and {sessions} sessions ...", flush=True)
        seconds = 5.0 if options.quick else 60.0
        looked = asyncio.run(overview.measure(devices, sessions, pages=20, seconds=seconds, moves_per_s=5.0))
    report = Report("hub", {**facts(), "jupyterhub": version("jupyterhub")})
    report.tables, report.verdicts = tables(started, looked), verdicts(started, looked)
    report.figures = {
        "spawns": None if started is None else asdict(started),
        "overview": None if looked is None else asdict(looked),
    }
    report.show()
    if not options.quick and {"spawns", "overview"} <= set(parts):
        for page in report.write(options.results):
            print(f"written: {page.name}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hub", description="What GPU shares cost a hub.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=_PARTS_HELP)
    parser.add_argument("--quick", action="store_true", help="little of each, to see that it works; nothing is kept")
    parser.add_argument("--results", type=Path, default=FOLDER, help="the folder to write to")
    options = parser.parse_args()
    if strangers := sorted(set(options.parts) - set(_PARTS)):
        parser.error(f"PART: {', '.join(strangers)} is none of {', '.join(_PARTS)}")
    return options


if __name__ == "__main__":
    sys.exit(main())
