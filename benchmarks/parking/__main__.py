"""``python -m benchmarks.parking [--simulated] [--quick]``: what parking takes on this machine's first GPU.

With ``--simulated`` it runs quickly on the simulated machine, which proves that the harness works and says nothing
about any device; nothing is kept then, unless a folder for results is given. Exits 0 when everything ran, whatever the
figures are, and 1 with the reason where there is no device to park on.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import json
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.machine import facts
from benchmarks.parking import moves, sharing
from benchmarks.parking.plan import FULL, GB, QUICK, Plan
from benchmarks.parking.tables import observed, tables, verdicts
from benchmarks.results import FOLDER, Report
from jupyter_gpushare.parking.seen import look_at_host
from tests.gpu.rig import GIB, real_rig, simulated_rig

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

    from tests.gpu.rig import Rig

_PACKAGES: Final = ("cuda-bindings", "torch", "jax", "cupy", "tensorflow")
_SEEN: Final = Path(__file__).parents[2] / "build" / "gpu.json"
_SIMULATED: Final = "a simulated machine: this proves that the harness works, and says nothing about any device"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.parking", description="What parking takes.")
    parser.add_argument("--simulated", action="store_true", help="on the simulated machine, to see that it works")
    parser.add_argument("--quick", action="store_true", help="two short rounds of small sizes; nothing is kept")
    parser.add_argument("--sizes", type=float, nargs="+", metavar="GB", help="sizes (default: 1 8 32 64)")
    parser.add_argument("--rounds", type=int, help=f"rounds of every size (default: {FULL.rounds})")
    parser.add_argument("--seen", type=Path, default=_SEEN, help="what `make test-gpu` wrote (default: build/gpu.json)")
    parser.add_argument("--results", type=Path, help="the folder to write to")
    return parser.parse_args()


def _plan(options: argparse.Namespace) -> Plan:
    plan = QUICK if options.quick or options.simulated else FULL
    if options.sizes:
        plan = replace(plan, sizes=tuple(round(size * GB) for size in options.sizes))
    return replace(plan, rounds=options.rounds or plan.rounds)


@contextmanager
def _rig(options: argparse.Namespace) -> Iterator[Rig | str]:
    if not options.simulated:
        with real_rig() as real:
            yield real
        return
    with (
        tempfile.TemporaryDirectory(prefix="gpushare-bench-") as folder,
        simulated_rig(Path(folder), total=80 * GIB) as simulated,
    ):
        yield simulated


def _about(rig: Rig) -> dict[str, str]:
    host = look_at_host(simulated=bool(rig.simulated))
    about = {
        "device": _SIMULATED if rig.simulated else rig.device.name,
        "usable memory": f"{rig.device.usable.bytes / GB:.1f} GB",
        "driver": rig.driver.version,
        "CUDA": rig.driver.cuda,
        "persistence mode": host.persistence,
        "ptrace_scope": host.ptrace_scope,
        "user id": str(host.uid),
        "host's process ids": "yes" if host.host_pids else "no",
    }
    return {**about, **{name: _version(name) for name in _PACKAGES}, **facts()}


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _measure(rig: Rig, plan: Plan, seen: Path) -> Report:
    report = Report("parking-simulated" if rig.simulated else "parking", _about(rig))
    moved = _timed("moves", moves.measure(rig, plan))
    shared = _timed("sessions on one device", sharing.measure(rig, plan))
    report.tables = tables(moved, shared)
    report.verdicts = verdicts(moved, shared)
    report.figures = {"plan": asdict(plan), "moves": asdict(moved), "sharing": asdict(shared)}
    if seen.is_file() and not rig.simulated:
        report.figures["seen"] = json.loads(seen.read_text())
        report.tables.append(observed(report.figures["seen"].get("figures", {})))
    return report


def _timed(what: str, measuring: Coroutine[Any, Any, Any]) -> Any:
    print(f"{what} ...", flush=True)
    began = time.monotonic()
    found = asyncio.run(measuring)
    print(f"{what}: {time.monotonic() - began:.0f} s", flush=True)
    return found


def main() -> int:
    """Measure, print, and keep the results of a full run on a real device."""
    options = _options()
    with _rig(options) as rig:
        if isinstance(rig, str):
            print(f"nothing can be measured: {rig}", file=sys.stderr)
            return 1
        report = _measure(rig, _plan(options), options.seen)
    report.show()
    is_kept = options.results is not None or not (options.quick or options.simulated)
    for path in report.write(options.results or FOLDER) if is_kept else []:
        print(f"written: {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
