"""``python -m scripts.soak [PART ...] [--minutes 30] [--seed N]``.

A part runs block after block, each with its own seed, until it has done what it wants to do or its minutes are over.
Counts are appended to build/soak.jsonl as blocks end, so an interrupted run goes on where it was: without ``--seed``
it begins after the last seed that was tried. A block with violations prints the seed that repeats it.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any

from scripts.soak import (
    background,
    broker_hour,
    broker_kills,
    broker_moments,
    broker_starts,
    cycles,
    histories,
    hub_kills,
    kills,
    ledgers,
    properties,
    race,
    server_kills,
    thorough,
)
from scripts.soak.record import Block, append, next_seed, summed

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence

_ALL = (
    properties,
    thorough,
    histories,
    cycles,
    race,
    kills,
    server_kills,
    background,
    ledgers,
    broker_kills,
    broker_moments,
    broker_starts,
    broker_hour,
    hub_kills,
)
PARTS: dict[str, Any] = {part.NAME: part for part in _ALL}


def run_block(part: Any, seed: int) -> Block:
    """One block, kept whatever happens in it."""
    block = Block(part.NAME, seed)
    try:
        asyncio.run(part.run(block))
    except Exception:  # noqa: BLE001  # the next block may tell more, and the summary must come
        block.violated(f"the block itself failed: {traceback.format_exc()}")
    append(block)
    return block


def show(name: str, block: Block, done: int, goal: int) -> None:
    """One line of progress."""
    counts = ", ".join(f"{count} {what}" for what, count in sorted(block.counts.items()))
    wrong = f"; {len(block.violations)} VIOLATIONS" if block.violations else ""
    until_goal = f" ({done} of {goal})" if goal else ""
    print(f"[soak] {name} seed {block.seed}{until_goal}: {counts}{wrong}", flush=True)


def run_part(part: Any, seed: int, minutes: float) -> list[Block]:
    """Blocks until the goal or the time is reached, one at least."""
    until = time.monotonic() + minutes * 60
    blocks: list[Block] = []
    print(f"[soak] {part.NAME}: from seed {seed}, at most {minutes:g} minutes", flush=True)
    while True:
        blocks.append(run_block(part, seed + len(blocks)))
        done = part.done(summed(blocks)) if part.GOAL else 0
        show(part.NAME, blocks[-1], done, part.GOAL)
        if time.monotonic() >= until or (part.GOAL and done >= part.GOAL):
            return blocks


def summarise(part: Any, blocks: list[Block]) -> int:
    """The part's last words; how many violations there were."""
    counts: Counter[str] = summed(blocks)
    wrong = [block for block in blocks if block.violations]
    print(f"\n[soak] {part.NAME}: {len(blocks)} blocks in {sum(block.seconds for block in blocks):.0f} s")
    for what, count in sorted(counts.items()):
        print(f"[soak]   {count:8} {what}")
    for line in getattr(part, "closing", lambda _: [])(counts):
        print(f"[soak]   {line}")
    for block in wrong:
        repeat = f"python -m scripts.soak {part.NAME} --minutes 0 --seed {block.seed}"
        print(f"[soak]   {len(block.violations)} violations; repeat: {repeat}")
    return sum(len(block.violations) for block in wrong)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts; 1 if anything was violated."""
    parser = argparse.ArgumentParser(prog="python -m scripts.soak", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--minutes", type=float, default=30.0, help="start no block of a part after this time")
    parser.add_argument("--seed", type=int, help="the first block's seed; without it, go on after the last run")
    options = parser.parse_args(arguments)
    if strangers := sorted(set(options.parts) - set(PARTS)):
        parser.error(f"no such part: {', '.join(strangers)}; there are {', '.join(PARTS)}")
    # Ended from outside, it still ends what it started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    ran = []
    for name in options.parts or PARTS:
        seed = next_seed(name) if options.seed is None else options.seed
        ran.append((PARTS[name], run_part(PARTS[name], seed, options.minutes)))
    violations = sum(summarise(part, blocks) for part, blocks in ran)
    print(f"[soak] violations: {violations or 'none'}")
    return int(violations > 0)


if __name__ == "__main__":
    sys.exit(main())
