"""Random histories on the pure rules: 200 events each, with crashes, and after every step a look at what is true."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TYPE_CHECKING, Final

from tests.rules.histories import play

if TYPE_CHECKING:
    from scripts.soak.record import Block

__all__ = ["GOAL", "HISTORIES", "NAME", "closing", "done", "one", "run"]

NAME: Final = "histories"
GOAL: Final = 10_000
HISTORIES: Final = 250


async def run(block: Block, *, histories: int = HISTORIES) -> None:
    """*histories* histories, on all cores. Their seeds follow from the block's: no two blocks play the same."""
    first = block.seed * HISTORIES
    loop = asyncio.get_running_loop()
    # Not forked: the process that waits has threads.
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        outcomes = [loop.run_in_executor(pool, one, seed) for seed in range(first, first + histories)]
        for outcome in asyncio.as_completed(outcomes):
            counts, violations = await outcome
            block.counts.update(counts)
            for violation in violations:
                block.violated(violation)


def one(seed: int) -> tuple[Counter[str], list[str]]:
    """One history: what it counted, and what must not have happened in it."""
    world = play(seed)
    return Counter(histories=1, steps=world.steps), [f"history {seed}: {each}" for each in world.violations[:5]]


def done(counts: Counter[str]) -> int:
    """How much of the goal is reached."""
    return counts["histories"]


def closing(counts: Counter[str]) -> list[str]:
    """What the counts mean."""
    return [f"I1-I4, I6 and I7 were looked at after {counts['steps']} steps of {counts['histories']} histories"]
