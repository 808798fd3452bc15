"""``python -m benchmarks.latency``: from idle to training, and from a cell back to its result, on a simulated GPU.

Everything that takes part is a real process: a broker, a Jupyter server with its kernel, two jobs. Exits 0 when
everything ran, whatever the figures are: they are for reading, not for passing.
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Final

from benchmarks.latency.rounds import PATHS, measure
from benchmarks.latency.tables import tables, verdicts
from benchmarks.machine import facts
from benchmarks.results import FOLDER, Report

_ROUNDS: Final = 10
_NOTEBOOK: Final = 4 * 10**9
_JOB: Final = "2GiB"
_RATE: Final = 8 * 10**9


def main() -> None:
    """Measure, print, and keep the results of a full run."""
    options = _options()
    found = {}
    for path in PATHS:
        print(f"{path.name} ...", flush=True)
        found[path] = asyncio.run(measure(path, options.rounds, _NOTEBOOK, _JOB, _RATE))
    report = Report("latency", {**facts(), "notebook": f"{_NOTEBOOK / 1e9:.1f} GB", "job": _JOB})
    report.facts["copies"] = f"{_RATE / 1e9:.0f} GB/s, simulated"
    report.tables, report.verdicts = tables(found), verdicts(found)
    report.figures = {path.name: [asdict(each) for each in rounds] for path, rounds in found.items()}
    report.show()
    if options.rounds >= _ROUNDS:
        for page in report.write(options.results):
            print(f"written: {page.name}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency", description="How fast a share moves.")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="of each way; fewer than 10 are not kept")
    parser.add_argument("--results", type=Path, default=FOLDER, help="the folder to write to")
    return parser.parse_args()


if __name__ == "__main__":
    main()
