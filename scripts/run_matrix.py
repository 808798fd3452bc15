"""Runs `make test-matrix`: what an installation may choose, one part after the other, and adds up what they counted.

The ledger on PostgreSQL; JupyterHub 5.5, whose packages are in `build/matrix/hub-5.5`; hubs of both versions whose own
database and ledger are on PostgreSQL (what `make test` runs is 6.1 on SQLite); and what needs programs of others:
Prometheus, the idle culler, an API fuzzer. Every part runs even if one before it failed, and one in which no test was
found has failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from scripts.run_tests import RESULTS, ROOT, Outcome, count_junit, tell

_OLD_HUB = ROOT / "build" / "matrix" / "hub-5.5" / "bin" / "python"
_PLAIN = "not browser and not long and not matrix"
_WHOLE_HUBS = ["tests/hub/test_whole_way.py", "tests/hub/test_bad_luck.py", "-m", f"hub and {_PLAIN}"]
_HUB_ON_POSTGRESQL = {"GPUSHARE_HUB_DATABASES": "postgresql"}


@dataclass(frozen=True)
class Part:
    """Some tests under one choice."""

    name: str
    arguments: list[str]
    python: Path = Path(sys.executable)
    environment: dict[str, str] = field(default_factory=dict)


PARTS = [
    Part("ledger-postgresql", ["tests/broker/ledger"], environment={"GPUSHARE_LEDGERS": "postgresql"}),
    Part("hub-5.5", ["tests/hub", "-m", _PLAIN], python=_OLD_HUB),
    Part("hub-5.5-postgres", _WHOLE_HUBS, python=_OLD_HUB, environment=_HUB_ON_POSTGRESQL),
    Part("hub-6.1-postgres", _WHOLE_HUBS, environment=_HUB_ON_POSTGRESQL),
    Part("programs", ["tests", "--ignore=tests/mutations", "-m", "matrix"]),
]


def run_part(part: Part) -> Outcome:
    """Run *part* and read its report."""
    report = RESULTS / f"matrix-{part.name}.xml"
    report.unlink(missing_ok=True)
    print(f"\n[matrix] {part.name}", flush=True)
    started = time.monotonic()
    command = [str(part.python), "-m", "pytest", *part.arguments, f"--junit-xml={report}", "--durations=3", "-q"]
    code = subprocess.run(command, cwd=ROOT, env={**os.environ, **part.environment}, check=False).returncode
    passed, failed, skipped = count_junit(report) if report.exists() else (0, 0, 0)
    failed = max(failed, int(code != 0), int(not passed))
    return Outcome(part.name, passed, failed, skipped, time.monotonic() - started)


def main(names: list[str]) -> int:
    """Run the parts of these *names*, all of them when empty; the exit code."""
    if strangers := sorted(set(names) - {part.name for part in PARTS}):
        print(f"{', '.join(strangers)}: no such part; there are {', '.join(part.name for part in PARTS)}")
        return 2
    RESULTS.mkdir(parents=True, exist_ok=True)
    return tell([run_part(part) for part in PARTS if part.name in (names or [part.name])], "matrix")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
