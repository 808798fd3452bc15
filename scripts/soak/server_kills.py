"""The server killed at every step and at random: the next start cleans up, says what was lost, and leaves nothing."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import psutil
from tornado.httpclient import HTTPClientError

from jupyter_gpushare.demo.server import ServerError
from jupyter_gpushare.devices.identity import is_alive
from scripts.soak.clients import CellFailed
from scripts.soak.harness import MIB, Notebook, Site, until
from scripts.soak.kills import PARKING, RESUMING
from scripts.soak.leftovers import left_after_all, left_while_running
from scripts.soak.log import errors_in_log

if TYPE_CHECKING:
    from collections import Counter

    from scripts.soak.neighbour import Neighbour
    from scripts.soak.record import Block

__all__ = ["GOAL", "NAME", "closing", "done", "run"]

NAME: Final = "server-kills"
_STEPS: Final = tuple(step.value for step in (*PARKING, *RESUMING))
_RANDOM: Final = "a random moment"
_EACH: Final = 30
_AT_RANDOM: Final = 200
#: Random moments beside one turn of every step, so that both goals are reached together.
_AT_RANDOM_A_BLOCK: Final = -(-_AT_RANDOM // _EACH)
#: Every step 30 times and 200 random moments; with less time, in the same proportion.
GOAL: Final = _EACH * len(_STEPS) + _AT_RANDOM
_LEAST: Final = 5
_LONGEST_PARK_S: Final = 0.4
_DYING_S: Final = 1.0
_TOO_MANY: Final = 10
_GONE_S: Final = 60.0


async def run(block: Block, *, moments: tuple[str, ...] = (*_STEPS, *[_RANDOM] * _AT_RANDOM_A_BLOCK)) -> None:
    """One kill at each of the *moments*, in any order."""
    choose = random.Random(f"{NAME} {block.seed}")  # noqa: S311  # a seed repeats the block
    async with Site.open(interval_s=0.05, background_interval_s=0.2) as site:
        neighbour = await site.start_neighbour()
        await neighbour.ask(f"hold {8 * MIB}")
        held = await neighbour.ask("sum")
        for moment in choose.sample(moments, len(moments)):
            if len(block.violations) < _TOO_MANY:
                await _one(block, site, moment, choose)
                block.require(await neighbour.ask("sum") == held, f"{moment}: the neighbour's memory has changed")
        await _end(block, site, neighbour)


def done(counts: Counter[str]) -> int:
    """How much of the goal is reached."""
    steps = sum(min(counts[f"killed at {step}"], _EACH) for step in _STEPS)
    return steps + min(counts[f"killed at {_RANDOM}"], _AT_RANDOM)


def closing(counts: Counter[str]) -> list[str]:
    """Whether every step had its turns."""
    fewest = min(counts[f"killed at {step}"] for step in _STEPS)
    at_random = counts[f"killed at {_RANDOM}"]
    verdict = "" if fewest >= _EACH else f", not the {_EACH} that were wanted"
    return [
        f"each step at least {fewest} times{verdict}, {at_random} random moments"
        + ("" if fewest >= _LEAST else ": run it for longer")
    ]


async def _one(block: Block, site: Site, moment: str, choose: random.Random) -> None:
    block.counts["kills"] += 1
    block.counts[f"killed at {moment}"] += 1
    try:
        notebook = await site.start_kernel(f"doomed-{block.counts['kills']}")
        await notebook.begin([4096, 2 * MIB], block.seed)
        was_parked = await _kill(notebook, moment, choose)
        await site.start_server()
        await _is_clean(block, notebook, moment, was_parked=was_parked)
    except (CellFailed, TimeoutError, ServerError, OSError) as trouble:
        block.violated(f"{moment}: {trouble!r}")


async def _kill(notebook: Notebook, moment: str, choose: random.Random) -> bool:
    """Have the server die then; whether the kernel's memory was away."""
    site, server = notebook.site, psutil.Process(notebook.site.server.child.pid)
    if moment in RESUMING:
        await until(lambda: _is_parked(notebook), "it can be parked")
    if moment == _RANDOM:
        moving = asyncio.ensure_future(_move(notebook, resuming=False))
        await asyncio.sleep(choose.uniform(0, _LONGEST_PARK_S))
        server.kill()
    else:
        site.give_order(moment, "server")
        moving = asyncio.ensure_future(_move(notebook, resuming=moment in RESUMING))
    await until(lambda: _is_over(site, moving), f"the server dies at {moment}")
    if site.server.child.exit_code is None:
        site.order.unlink(missing_ok=True)
        raise CellFailed(f"it never came to {moment}: {await moving}")
    was_parked = await _was_away(notebook)
    await moving
    return was_parked


async def _move(notebook: Notebook, *, resuming: bool) -> object:
    # The server dies meanwhile, and then whatever asks it fails.
    with suppress(CellFailed, ServerError, OSError, TimeoutError, HTTPClientError):
        return await (notebook.told() if resuming else notebook.park_when_quiet())
    return None


async def _is_parked(notebook: Notebook) -> bool:
    return (await notebook.park()).is_parked


async def _is_over(site: Site, moving: asyncio.Future[object]) -> bool:
    if moving.done() and site.server.child.exit_code is None:
        await asyncio.sleep(_DYING_S)  # its death may be seen a moment later
    return moving.done() or site.server.child.exit_code is not None


async def _was_away(notebook: Notebook) -> bool:
    """Whether the kernel's GPU memory is off the device; a kernel that has ended already tells nothing."""
    try:
        return await notebook.state() == "checkpointed"
    except Exception:  # noqa: BLE001  # it ends at its own pace, and nobody can be asked then
        return False


async def _is_clean(block: Block, notebook: Notebook, moment: str, *, was_parked: bool) -> None:
    """Nothing is left of the kernel, and its owner is told."""
    site = notebook.site

    async def is_gone() -> bool:
        return not is_alive(notebook.process)

    await until(is_gone, f"{moment}: the kernel of the dead server ends", _GONE_S)
    for left in await left_while_running(site):
        block.violated(f"{moment}: {left}")
    if moment == _RANDOM and not was_parked:
        return
    told = await until(lambda: _recoveries(site), f"{moment}: the next server says what became of it", _GONE_S)
    block.counts.update(f"told {notice['message']['code']}" for notice in told)
    losses = [notice for notice in told if notice["kind"] == "loss"]
    block.require(not was_parked or bool(losses), f"{moment}: memory was away, and no loss is told: {told}")


async def _recoveries(site: Site) -> list[dict[str, Any]]:
    return [notice for notice in await site.notices() if notice["message"]["code"].startswith("RECOVERED_")]


async def _end(block: Block, site: Site, neighbour: Neighbour) -> None:
    for error in errors_in_log(site):
        block.violated(error)
    await neighbour.end()
    await site.stop_server()
    for left in await left_after_all(site):
        block.violated(left)
