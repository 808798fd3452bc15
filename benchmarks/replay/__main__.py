"""``python -m benchmarks.replay [--trace FILE ...]``: a month of notebooks under each policy, with the product's rules.

Without ``--trace`` the sessions are drawn from published percentiles. Exits 0 when everything ran, whatever the figures
are: they are for reading, not for passing.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.machine import facts
from benchmarks.replay import generator
from benchmarks.replay.kept import kept_replay
from benchmarks.replay.policy import TIMEOUTS_MIN, Policy, oracle, ours, policies, reservation
from benchmarks.replay.run import Conditions, Outcome
from benchmarks.replay.site import GPUS_PER_HOST, hosts_for, peak_gpus
from benchmarks.replay.tables import Found, figures, plots, tables, verdicts
from benchmarks.replay.trace import Session, TraceError, read_trace
from benchmarks.results import FOLDER, Report
from jupyter_gpushare.quantity import Fraction

if TYPE_CHECKING:
    from collections.abc import Sequence

_QUICK = (reservation(), ours(10), oracle(10))


def main() -> None:
    """Replay, print, and keep the results of a full run."""
    options = _options()
    compared = _QUICK if options.quick else policies(options.timeouts)
    conditions = Conditions(seed=options.seed, part=Fraction.parse(options.share))
    report = Report("replay", facts())
    drawings: dict[str, str] = {}
    for name, sessions in _traces(options).items():
        _announce(name, sessions, conditions)
        found = _measure(name, sessions, compared, conditions, options)
        report.tables += tables(found)
        report.verdicts += verdicts(found)
        report.figures[name] = {"conditions": conditions.told(), **figures(found)}
        drawings |= {f"{name}-{end}": svg for end, svg in plots(found).items()}
    report.show()
    if not options.quick:
        _keep(report, drawings, options.results)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.replay", description="A trace under each policy.")
    parser.add_argument("--trace", type=Path, nargs="+", default=[], help="files of executions; without, drawn ones")
    parser.add_argument("--sessions", type=int, default=100, help="how many to draw without a trace")
    parser.add_argument("--first", type=int, help="only the first so many sessions of each trace")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same figures")
    parser.add_argument(
        "--share", default="1", help="the part of each of its GPUs that a session gets, for example 0.5"
    )
    parser.add_argument("--timeouts", type=float, nargs="+", default=TIMEOUTS_MIN, help="minutes after which we park")
    parser.add_argument("--keep", type=Path, help="a folder for finished runs: the same command goes on where it was")
    parser.add_argument("--quick", action="store_true", help="three policies, to see that it works; nothing is kept")
    parser.add_argument("--processes", type=int, default=1, help="how many policies at once")
    parser.add_argument("--results", type=Path, default=FOLDER, help="the folder to write to")
    return parser.parse_args()


def _traces(options: argparse.Namespace) -> dict[str, list[Session]]:
    if not options.trace:
        return {"drawn": generator.sessions(options.sessions, options.seed)}
    try:
        found = {path.stem: read_trace(path) for path in options.trace}
    except (OSError, TraceError) as error:
        raise SystemExit(f"replay: {error}") from None
    return {name: sessions[: options.first] for name, sessions in found.items()}


def _announce(name: str, sessions: Sequence[Session], conditions: Conditions) -> None:
    cells = sum(len(each.executions) for each in sessions)
    hosts = hosts_for(sessions, conditions.part) + conditions.spare
    print(
        f"{name}: {len(sessions)} sessions, {cells:,} cells; at most {peak_gpus(sessions)} GPUs reserved at once; "
        f"{hosts} hosts with {GPUS_PER_HOST} GPUs each, enough to reserve them all",
        flush=True,
    )


def _measure(
    name: str,
    sessions: Sequence[Session],
    compared: Sequence[Policy],
    conditions: Conditions,
    options: argparse.Namespace,
) -> Found:
    parking = [policy for policy in compared if policy.way == "park" and not policy.knows_gaps]
    runs = [(policy, conditions) for policy in compared] + [(policy, conditions.hostile()) for policy in parking]
    with ProcessPoolExecutor(options.processes) as pool:
        pending = [pool.submit(_one, name, sessions, policy, how, options.keep) for policy, how in runs]
        outcomes = [each.result() for each in pending]
    return Found(name, outcomes[: len(compared)], outcomes[len(compared) :])


def _one(name: str, sessions: Sequence[Session], policy: Policy, conditions: Conditions, keep: Path | None) -> Outcome:
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"  {name}, {policy.name}: {text}, {time.monotonic() - began:.0f} s", flush=True)

    if conditions.fails:
        policy = replace(policy, name=f"{policy.name}, bad luck")
    return kept_replay(keep, sessions, policy, conditions, say=say)


def _keep(report: Report, drawings: dict[str, str], folder: Path) -> None:
    for path in report.write(folder):
        print(f"written: {path.name}")
    for name, svg in drawings.items():
        path = folder / f"replay-{name}-{time.strftime('%Y-%m-%d')}.svg"
        path.write_text(svg)
        print(f"written: {path.name}")


if __name__ == "__main__":
    main()
