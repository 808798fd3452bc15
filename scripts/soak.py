"""Searches on where `make test` repeats: rounds of all property tests, each with its own seed and many examples.

Counts are appended to build/soak.jsonl as the rounds end, so an interrupted run keeps them. A round that fails
prints the seed that repeats it: ``python scripts/soak.py --seed N --minutes 0``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOG = ROOT / "build" / "soak.jsonl"
PROPERTY_TEST = re.compile(r"^from hypothesis", re.MULTILINE)


def property_tests() -> list[str]:
    """The files with property tests."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(file.relative_to(ROOT)) for file in files if PROPERTY_TEST.search(file.read_text())]


def run_round(seed: int, files: list[str]) -> dict[str, object]:
    """One round over *files*; what it counted."""
    started = time.monotonic()
    outcome = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--timeout=900", f"--hypothesis-seed={seed}", "-m", "not gpu", *files],
        cwd=ROOT,
        env={**os.environ, "GPUSHARE_HYPOTHESIS_PROFILE": "soak"},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = outcome.stdout.strip().splitlines() or ["no output"]
    if outcome.returncode:
        print("\n".join(lines[-60:]), outcome.stderr, sep="\n")
    return {
        "seed": seed,
        "seconds": round(time.monotonic() - started),
        "rc": outcome.returncode,
        "closing": lines[-1].strip("= "),
    }


def next_seed() -> int:
    """The seed after the last one that was tried."""
    if not LOG.exists():
        return 1
    return max((int(json.loads(line)["seed"]) for line in LOG.read_text().splitlines()), default=0) + 1


def main() -> int:
    """Run rounds until the time is over, one at least; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0, help="start no round after this time")
    parser.add_argument("--seed", type=int, help="the first round's seed; without it, go on after the last run")
    options = parser.parse_args()
    LOG.parent.mkdir(exist_ok=True)
    seed = next_seed() if options.seed is None else options.seed
    files, until, failed = property_tests(), time.monotonic() + options.minutes * 60, []
    print(
        f"[soak] {len(files)} files with property tests, from seed {seed}, for {options.minutes:g} minutes", flush=True
    )
    while True:
        counted = run_round(seed, files)
        with LOG.open("a") as log:
            log.write(json.dumps(counted) + "\n")
        print(f"[soak] seed {seed}: {counted['closing']}", flush=True)
        if counted["rc"]:
            failed.append(seed)
        seed += 1
        if time.monotonic() >= until:
            break
    print(f"[soak] seeds that failed: {failed or 'none'}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
