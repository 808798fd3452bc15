"""``python -m benchmarks.hub.culling [--quick]``: what a round of culling costs over ten thousand servers.

Exits 1 where two cullers that must decide alike do not; the figures are for reading, not for passing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.request import urlopen

from benchmarks.hub.culling.one_round import ARMS, HOOKED, PLAIN, ROUNDS
from benchmarks.machine import facts
from benchmarks.results import FOLDER, Report, Table, Verdict, spread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.hub.culling.world import Kind

_KINDS: Final[tuple[Kind, ...]] = ("quiet", "usual", "mixed")
_ADDED: Final = 0.10
_OF_ITS_TIME: Final = 1 / 3

Times = dict[str, list[float]]


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hub.culling", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of it once, to see that it works; not kept")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of each (default: 9)")
    parser.add_argument("--servers", type=int, default=10_000, help="servers of the hub (default: 10000)")
    parser.add_argument("--results", type=Path, default=FOLDER, help="the folder to write to")
    return parser.parse_args(arguments)


@contextlib.contextmanager
def _hub(kind: Kind, servers: int) -> Iterator[str]:
    """A stub with so many servers; its address."""
    command = [sys.executable, "-m", "benchmarks.hub.culling.stub", kind, str(servers)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as stub:
        assert stub.stdout is not None
        try:
            yield f"http://127.0.0.1:{json.loads(stub.stdout.readline())['port']}"
        finally:
            stub.terminate()


def _round(arm: str, url: str) -> tuple[float, list[str]]:
    """CPU seconds of one round, and who was stopped."""
    command = [sys.executable, "-m", "benchmarks.hub.culling.one_round", arm, url]
    took = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)
    with urlopen(f"{url}/stopped") as answer:  # noqa: S310  # our own stub
        return took["cpu_s"], json.load(answer)["stopped"]


def _measure(kind: Kind, servers: int, rounds: int) -> tuple[Times, dict[str, list[str]]]:
    """All of them in turn, each time beginning with another."""
    times: Times = {arm: [] for arm in ARMS}
    stopped: dict[str, list[str]] = {}
    with _hub(kind, servers) as url:
        for number in range(rounds):
            for place in range(len(ARMS)):
                arm = ARMS[(place + number) % len(ARMS)]
                cpu_s, stopped[arm] = _round(arm, url)
                times[arm].append(cpu_s)
    return times, stopped


def _ratio(times: Times, arm: str) -> float:
    """The median of the ratios of interleaved rounds to those of the plain idle culler."""
    return statistics.median(own / plain for own, plain in zip(times[arm], times[PLAIN], strict=True))


def _table(kind: Kind, times: Times, stopped: dict[str, list[str]]) -> Table:
    rows = [[arm, spread(times[arm]), f"{_ratio(times, arm):.2f}", str(len(stopped[arm]))] for arm in ARMS]
    return Table(
        f"A {kind} hub",
        ["culler", "CPU s, median (lowest to highest)", "of the idle culler's", "servers stopped"],
        rows,
    )


def _verdicts(all_times: dict[Kind, Times], all_stopped: dict[Kind, dict[str, list[str]]]) -> list[Verdict]:
    added = {kind: _ratio(all_times[kind], HOOKED) - 1 for kind in ("quiet", "usual")}
    part = max(_ratio(times, ROUNDS) for times in all_times.values())
    alike = all(stopped[HOOKED] == stopped[ROUNDS] for stopped in all_stopped.values())
    return [
        Verdict(
            "our hook adds at most 10 % to a round of the idle culler",
            ", ".join(f"{kind}: {value:+.1%}" for kind, value in added.items()),
            max(added.values()) <= _ADDED,
        ),
        Verdict("our own rounds take at most a third of its CPU time", f"{part:.2f} at most", part <= _OF_ITS_TIME),
        Verdict("both stop the same servers", "the same in every world" if alike else "they differ", alike),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and keep the results of a full run."""
    options = _options(arguments)
    rounds, servers = (1, options.servers // 10) if options.quick else (options.rounds, options.servers)
    report = Report("culling", facts() | {"servers": f"{servers:,}"})
    times: dict[Kind, Times] = {}
    stopped: dict[Kind, Any] = {}
    for kind in _KINDS:
        times[kind], stopped[kind] = _measure(kind, servers, rounds)
        report.tables.append(_table(kind, times[kind], stopped[kind]))
    report.verdicts = _verdicts(times, stopped)
    report.figures = {
        "cpu_s": times,
        "stopped": {kind: {a: len(b) for a, b in stopped[kind].items()} for kind in _KINDS},
    }
    report.show()
    if not options.quick:
        for path in report.write(options.results):
            print(f"written: {path.name}")
    return 0 if report.verdicts[-1].met else 1


if __name__ == "__main__":
    sys.exit(main())
