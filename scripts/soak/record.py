"""What was counted, kept block by block, so that an interrupted run loses at most one block."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["LOG", "ROOT", "Block", "append", "next_seed", "summed"]

ROOT = Path(__file__).parent.parent.parent
LOG = ROOT / "build" / "soak.jsonl"
_MOST_SHOWN = 200


@dataclass
class Block:
    """A piece of a part: what one seed gave.

    Attributes:
        part: of which part.
        seed: repeats it.
        counts: what was done, by name.
        violations: what must not have happened, each in a sentence.
        began: when, by a clock that only goes on.
        seconds: how long it took, once it has ended.
    """

    part: str
    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    seconds: float = 0.0

    def violated(self, what: str) -> None:
        """Remember a violation and show it at once."""
        self.violations.append(what[:2000])
        print(f"[soak] {self.part} seed {self.seed}: VIOLATION: {what}", flush=True)

    def require(self, holds: bool, what: str) -> None:  # noqa: FBT001  # an assertion reads best so
        """Remember *what* as a violation unless it *holds*."""
        if not holds:
            self.violated(what)

    def end(self) -> None:
        """Stop its clock."""
        self.seconds = round(time.monotonic() - self.began, 1)

    def line(self) -> dict[str, Any]:
        """What is kept of it."""
        return {
            "part": self.part,
            "seed": self.seed,
            "seconds": self.seconds,
            "counts": dict(sorted(self.counts.items())),
            "violations": self.violations[:_MOST_SHOWN],
        }


def append(block: Block, log: Path = LOG) -> None:
    """Keep *block*, which has ended."""
    block.end()
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as file:
        file.write(json.dumps(block.line()) + "\n")


def next_seed(part: str, log: Path = LOG) -> int:
    """The seed after the last one that was tried for *part*."""
    if not log.exists():
        return 1
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.strip()]
    tried = [int(line["seed"]) for line in lines if line.get("part", "properties") == part]
    return max(tried, default=0) + 1


def summed(blocks: list[Block]) -> Counter[str]:
    """The counts of all *blocks* together."""
    return sum((block.counts for block in blocks), Counter())
