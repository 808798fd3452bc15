"""``python -m benchmarks.frontend [--quick]``: what extensions add to JupyterLab's start, in a real Chromium.

Exits 0 when everything ran, whatever the figures are: they are for reading, not for passing.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.frontend.browser import chromium, javascript_at_start, start_ms
from benchmarks.machine import facts
from benchmarks.results import FOLDER, Report, Table, Verdict, spread
from benchmarks.servers import NVDASHBOARD, OURS, PLAIN, RESOURCE_USAGE, Server, Workplace

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from benchmarks.servers import Extension

_ARMS: Final[dict[str, Extension]] = {
    "none": PLAIN,
    "none again": PLAIN,
    "jupyter_gpushare": OURS,
    "nvdashboard": NVDASHBOARD,
    "resource-usage": RESOURCE_USAGE,
}
_LIMIT_BYTES: Final = 45_000

Servers = dict[str, Server]
Sizes = dict[str, dict[str, int]]
Starts = dict[str, list[float]]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.frontend", description="What JupyterLab's start costs.")
    parser.add_argument("--quick", action="store_true", help="three starts, to see that it works; nothing is kept")
    parser.add_argument("--starts", type=int, default=15, help="starts of each (default: 15)")
    parser.add_argument("--results", type=Path, default=FOLDER, help="the folder to write to")
    return parser.parse_args()


def _measure_starts(browser: Browser, servers: Servers, starts: int) -> Starts:
    """Starts of all in turn, each round beginning with another; the first of each is not counted."""
    names = list(servers)
    for name in names:
        start_ms(browser, servers[name])
    found: Starts = {name: [] for name in names}
    for number in range(starts):
        for place in range(len(names)):
            name = names[(place + number) % len(names)]
            found[name].append(start_ms(browser, servers[name]))
    return found


def _size_table(sizes: Sizes) -> Table:
    rows = [[name, f"{sum(files.values()) / 1000:.1f}", str(len(files))] for name, files in sizes.items()]
    return Table("JavaScript of the extension fetched at the start", ["extension", "KB (gzip)", "files"], rows)


def _start_table(starts: Starts) -> Table:
    base = starts["none"]
    rows = [[name, spread(times, 0), f"{_difference(times, base):+.0f}"] for name, times in starts.items()]
    return Table(
        "JupyterLab's start in ms, from the navigation to the restored layout, nothing cached",
        ["extension", "median (lowest to highest)", "above none"],
        rows,
        "Above none: the median of the differences of interleaved starts.",
    )


def _difference(times: list[float], base: list[float]) -> float:
    return statistics.median(own - none for own, none in zip(times, base, strict=True))


def _verdicts(sizes: Sizes, starts: Starts) -> list[Verdict]:
    size = sum(sizes["jupyter_gpushare"].values())
    ours = _difference(starts["jupyter_gpushare"], starts["none"])
    pairs = zip(starts["none again"], starts["none"], strict=True)
    noise = statistics.quantiles([abs(again - none) for again, none in pairs], n=10)[-1]
    return [
        Verdict("under 45 KB of JavaScript (gzip)", f"{size / 1000:.1f} KB", 0 < size < _LIMIT_BYTES),
        Verdict(
            "start within the A/A spread of none",
            f"{ours:+.0f} ms; nine in ten A/A pairs within {noise:.0f} ms",
            ours <= noise,
        ),
    ]


def _measure(starts: int) -> Report:
    report = Report("frontend", facts())
    with (
        tempfile.TemporaryDirectory(prefix="gpushare-bench-", ignore_cleanup_errors=True) as folder,
        contextlib.ExitStack() as running,
        chromium() as browser,
    ):
        workplace = Workplace(Path(folder))
        workplace.prepare()
        servers = {
            name: running.enter_context(Server(workplace, name.replace(" ", "-"), extension, lab=True))
            for name, extension in _ARMS.items()
        }
        report.facts["Chromium"] = browser.version
        sizes = {name: javascript_at_start(browser, server) for name, server in servers.items()}
        times = _measure_starts(browser, servers, starts)
    report.tables = [_size_table(sizes), _start_table(times)]
    report.verdicts = _verdicts(sizes, times)
    report.figures = {"javascript": sizes, "start_ms": times}
    return report


def main() -> None:
    """Measure, print, and keep the results of a full run."""
    options = _options()
    report = _measure(3 if options.quick else options.starts)
    report.show()
    if not options.quick:
        for path in report.write(options.results):
            print(f"written: {path.name}")


if __name__ == "__main__":
    main()
