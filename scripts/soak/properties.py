"""Searches on where `make test` repeats: a block is all property tests with a seed of its own and many examples."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from scripts.soak.record import ROOT

if TYPE_CHECKING:
    from collections import Counter

    from scripts.soak.record import Block

__all__ = ["GOAL", "NAME", "done", "property_tests", "run", "run_pytest"]

NAME: Final = "properties"
#: None: it searches for as long as it may.
GOAL: Final = 0
_PROPERTY_TEST: Final = re.compile(r"^from hypothesis", re.MULTILINE)
_COUNTED: Final = re.compile(r"(\d+) (passed|failed|errors?)")
_TEST_S: Final = 900


def property_tests() -> list[str]:
    """The files with property tests."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(file.relative_to(ROOT)) for file in files if _PROPERTY_TEST.search(file.read_text())]


async def run(block: Block) -> None:
    """All property tests, once."""
    files = property_tests()
    block.counts["files"] += len(files)
    await run_pytest(block, f"--hypothesis-seed={block.seed}", "-m", "not gpu and not long", *files)


async def run_pytest(block: Block, *arguments: str) -> None:
    """Run pytest with many examples, count what passed and failed, and keep what a failure said."""
    command = ["-m", "pytest", "-q", f"--timeout={_TEST_S}", *arguments]
    outcome = await asyncio.to_thread(_run, command)
    lines = outcome.stdout.strip().splitlines() or ["no output"]
    block.counts.update({what: int(count) for count, what in _COUNTED.findall(lines[-1])})
    if outcome.returncode:
        block.violated("\n".join([*lines[-60:], outcome.stderr]))


def done(counts: Counter[str]) -> int:
    """How much of the goal is reached."""
    return counts["files"]


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "GPUSHARE_HYPOTHESIS_PROFILE": "soak"}
    return subprocess.run([sys.executable, *command], cwd=ROOT, env=env, capture_output=True, text=True, check=False)
