"""A kernel with work in its background is never parked, however often it is tried, and its work never stands still."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any, Final

from scripts.soak.harness import MIB, Notebook, Site
from scripts.soak.leftovers import left_after_all, left_while_running
from scripts.soak.log import errors_in_log

if TYPE_CHECKING:
    from collections import Counter

    from scripts.soak.record import Block

__all__ = ["GOAL", "KINDS", "NAME", "done", "run"]

NAME: Final = "background"
GOAL: Final = 2000
ROUNDS: Final = 250
KINDS: Final = ("thread", "timer", "pool", "task", "call_later")
_LONGEST_PAUSE_S: Final = 0.3
_LONGEST_TRY_PAUSE_S: Final = 0.3
_EXPECTED: Final = ("BACKGROUND_WORK", "CELL_RUNNING", "KERNEL_DID_NOT_ANSWER")
_TOO_MANY: Final = 10


async def run(block: Block, *, rounds: int = ROUNDS, kinds: tuple[str, ...] = KINDS) -> None:
    """*rounds* tries to park, over a kernel for each of *kinds*, while the server tries by itself, too."""
    choose = random.Random(f"{NAME} {block.seed}")  # noqa: S311  # a seed repeats the block
    options: dict[str, Any] = {"interval_s": 0.1, "background_interval_s": 0.2}
    async with Site.open(**options, idle_timeout_s=1.0, warning_s=0.0) as site:
        kernels = {kind: await _start(site, kind, block.seed) for kind in kinds}
        tries = [_try(block, kernels[kind], kind, rounds // len(kinds), choose) for kind in kinds]
        await asyncio.gather(*tries)
        for kind, notebook in kernels.items():
            await _judge(block, notebook, kind)
        for left in await left_while_running(site):
            block.violated(left)
        for error in errors_in_log(site):
            block.violated(error)
        await site.stop_server()
        for left in await left_after_all(site):
            block.violated(left)


def done(counts: Counter[str]) -> int:
    """How much of the goal is reached."""
    return counts["tries"]


async def _start(site: Site, kind: str, seed: int) -> Notebook:
    notebook = await site.start_kernel(kind.replace("_", "-"))
    # In one cell: the server parks what is idle by itself.
    work = f"inside.work_in_background({kind!r}, {seed}, {_LONGEST_PAUSE_S})"
    await notebook.page.run(f"from scripts.soak import inside; inside.begin([4096, {MIB}], {seed}); {work}")
    return notebook


async def _try(block: Block, notebook: Notebook, kind: str, rounds: int, choose: random.Random) -> None:
    for _ in range(rounds):
        ended = await notebook.park()
        block.counts["tries"] += 1
        block.counts[f"{kind}: {ended.code}"] += 1
        if ended.code not in _EXPECTED:
            block.violated(f"{kind}: a kernel that works in its background: {ended}")
        if len(block.violations) >= _TOO_MANY:
            return
        await asyncio.sleep(choose.uniform(0, _LONGEST_TRY_PAUSE_S))


async def _judge(block: Block, notebook: Notebook, kind: str) -> None:
    """The driver never locked it, and its work went on."""
    told = await notebook.told()
    work = told["background"]
    block.counts["touches of the GPU"] += work["touches"]
    block.require(not told["locks"], f"{kind}: it was locked {told['locks']} times")
    block.require(not told["damaged"] and not work["failed"], f"{kind}: its memory or its work broke: {told}")
    await asyncio.sleep(4 * _LONGEST_PAUSE_S)
    after = (await notebook.told())["background"]["touches"]
    block.require(after > work["touches"] > 0, f"{kind}: its work stands still after {after} touches")
