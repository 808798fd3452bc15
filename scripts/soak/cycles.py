"""Park and resume, again and again: several kernels, another program on the freed memory, every byte checked."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from scripts.soak.clients import CellFailed, Client
from scripts.soak.harness import MIB, Notebook, Site
from scripts.soak.leftovers import left_after_all, left_while_running
from scripts.soak.log import errors_in_log

if TYPE_CHECKING:
    from collections import Counter

    from scripts.soak.neighbour import Neighbour
    from scripts.soak.record import Block

__all__ = ["GOAL", "NAME", "ROUNDS", "done", "run"]

NAME: Final = "cycles"
GOAL: Final = 1000
ROUNDS: Final = 100
_KERNELS: Final = 4
_CROWDED: Final = 0.05
_OTHERS: Final = 200 * MIB
_TOO_MANY: Final = 20


@dataclass
class _Kept:
    """A kernel and what is known of it from outside."""

    notebook: Notebook
    console: Client
    sums: list[str] = field(default_factory=list)
    is_parked: bool = False


async def run(block: Block, *, rounds: int = ROUNDS, kernels: int = _KERNELS) -> None:
    """*rounds* cycles over *kernels* kernels."""
    choose = random.Random(f"{NAME} {block.seed}")  # noqa: S311  # a seed repeats the block
    async with Site.open(interval_s=0.05, background_interval_s=0.2) as site:
        neighbour = await site.start_neighbour()
        await neighbour.ask(f"hold {16 * MIB}")
        held = await neighbour.ask("sum")
        kept = [await _start(site, f"cycle-{number}", choose) for number in range(kernels)]
        while block.counts["cycles"] < rounds and len(block.violations) < _TOO_MANY:
            await _step(block, choose.choice(kept), neighbour, choose)
        for each in kept:
            if each.is_parked:
                await _bring_back(block, each, neighbour, choose)
        block.require(await neighbour.ask("sum") == held, "the neighbour's own memory has changed")
        for left in await left_while_running(site):
            block.violated(left)
        for error in errors_in_log(site):
            block.violated(error)
        await neighbour.end()
        await site.stop_server()
        for left in await left_after_all(site):
            block.violated(left)


def done(counts: Counter[str]) -> int:
    """How much of the goal is reached."""
    return counts["cycles"]


async def _start(site: Site, name: str, choose: random.Random) -> _Kept:
    notebook = await site.start_kernel(name)
    sizes = [choose.choice([4096, MIB // 2, MIB, 3 * MIB + 17, 16 * MIB]) for _ in range(choose.randint(2, 8))]
    told = await notebook.begin([*sizes, choose.randint(1, 40 * MIB)], choose.randrange(1 << 30))
    return _Kept(notebook, site.open_console(notebook.id), told["sums"])


async def _step(block: Block, each: _Kept, neighbour: Neighbour, choose: random.Random) -> None:
    try:
        if each.is_parked:
            await _bring_back(block, each, neighbour, choose)
        else:
            await _take_away(block, each, choose)
    except (CellFailed, TimeoutError) as trouble:
        block.violated(f"kernel {each.notebook.id}, {'resuming' if each.is_parked else 'parking'}: {trouble}")
        each.is_parked = await each.notebook.status() == "parked"


async def _take_away(block: Block, each: _Kept, choose: random.Random) -> None:
    notebook = each.notebook
    if choose.random() < 0.5:  # noqa: PLR2004  # every other time
        number, seed = choose.randrange(len(each.sums)), choose.randrange(1 << 30)
        told = await notebook.page.run(f"inside.change({number}, {seed})", "inside.told()")
        each.sums = told["sums"]
    ended = await notebook.park()
    block.counts[f"park {ended.code}"] += 1
    each.is_parked = ended.is_parked
    if ended.is_parked:
        state = await notebook.state()
        block.require(state == "checkpointed", f"kernel {notebook.id} is said to be parked, and is {state}")
    elif ended.code not in ("CELL_RUNNING", "BACKGROUND_WORK"):
        block.violated(f"kernel {notebook.id} was not parked: {ended}")


async def _bring_back(block: Block, each: _Kept, neighbour: Neighbour, choose: random.Random) -> None:
    block.counts["overwritten MiB"] += await neighbour.ask(f"churn {_OTHERS}") // MIB
    way = choose.choice(["execute", "button", "console"])
    if choose.random() < _CROWDED:
        way = "button, in a crowd"
        told = await _in_a_crowd(block, each, neighbour)
    elif way == "button":
        await each.notebook.resume()
        told = await each.notebook.told()
    else:
        told = await each.notebook.told(each.console if way == "console" else None)
    block.counts[f"by {way}"] += 1
    block.counts["cycles"] += 1
    each.is_parked = False
    _compare(block, each, told)


async def _in_a_crowd(block: Block, each: _Kept, neighbour: Neighbour) -> dict[str, Any]:
    """Resume while there is no room, and make room only when it waits."""
    before = await neighbour.ask("sum")
    await neighbour.ask(f"crowd {MIB}")
    await each.notebook.site.server.request("POST", "gpushare/api/v1/resumes", {"kernel_id": each.notebook.id})
    await each.notebook.until_status("waiting")
    state = await each.notebook.state()
    block.require(state == "checkpointed", f"kernel {each.notebook.id} waits for room, and is {state}")
    block.counts["waited for room"] += 1
    await neighbour.ask(f"thin {len(before)}")
    return await each.notebook.told()


def _compare(block: Block, each: _Kept, told: dict[str, Any]) -> None:
    name = f"kernel {each.notebook.id}"
    block.require(told["sums"] == each.sums and not told["damaged"], f"{name}: memory has changed: {told}")
    block.require(not told["began_away"] + told["locked_under"], f"{name}: a cell ran while parked: {told}")
