"""The tests that are too slow for every run of `make test`: a block is all of them, once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scripts.soak.properties import run_pytest

if TYPE_CHECKING:
    from collections import Counter

    from scripts.soak.record import Block

__all__ = ["GOAL", "NAME", "done", "run"]

NAME: Final = "thorough"
GOAL: Final = 1


async def run(block: Block) -> None:
    """All tests marked ``long`` that need no GPU."""
    await run_pytest(block, "-m", "long and not gpu", "-n", "2", "tests")
    block.counts["runs"] += 1


def done(counts: Counter[str]) -> int:
    """How much of the goal is reached."""
    return counts["runs"]
