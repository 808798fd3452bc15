"""The checkpoint process killed at every step, around every driver call, and at random: everything is recovered."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, get_args

import psutil

from jupyter_gpushare.devices.simulated.faults import DiesAt, ParkingCall, When
from jupyter_gpushare.parking.sequence import Step
from scripts.soak.clients import CellFailed
from scripts.soak.harness import MIB, Notebook, Site, until
from scripts.soak.leftovers import left_after_all, left_while_running
from scripts.soak.log import errors_in_log

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Awaitable, Callable

    from scripts.soak.record import Block

__all__ = ["GOAL", "NAME", "PARKING", "RESUMING", "done", "run"]

NAME: Final = "kills"
PARKING: Final = (Step.BOOK, Step.PREFLIGHT, Step.LOCK, Step.CHECKPOINT, Step.ATTEST_PARKED, Step.PARKED)
RESUMING: Final = (Step.TOKEN, Step.ROOM, Step.RESTORE, Step.UNLOCK, Step.ATTEST_RUNNING)
_CALLS: Final = tuple((call, when) for call in get_args(ParkingCall) for when in get_args(When))
_RESUMING_CALLS: Final = ("claim", "restore", "unlock")
_EACH: Final = 30
_RANDOM: Final = 200
_BLOCKS: Final = 10
#: Kills in all blocks together: each step and each call 30 times, and 200 at random.
GOAL: Final = _EACH * (len(PARKING) + len(RESUMING) + len(_CALLS)) + _RANDOM
_LONGEST_MOVE_S: Final = 0.4
_TOO_MANY: Final = 20

Kill = tuple[str, "Callable[[_Victim], Awaitable[None]]"]


class _Victim:
    """One kernel whose checkpoint process is killed again and again."""

    def __init__(self, block: Block, notebook: Notebook, sums: list[str], choose: random.Random) -> None:
        self.block, self.notebook, self.sums, self.choose = block, notebook, sums, choose

    async def prepare(self, *, resuming: bool) -> None:
        """Let it be parked, or run."""
        if resuming:
            await until(self._is_parked, f"kernel {self.notebook.id} can be parked")

    async def move(self, *, resuming: bool) -> None:
        """Bring it back, or park it, whatever comes of that."""
        if resuming:
            await self.notebook.told()
        else:
            self.block.counts[f"park {(await self.notebook.park_when_quiet()).code}"] += 1

    async def recovered(self, after: str) -> None:
        """It must answer, with every byte as it was, and leave nothing behind."""
        told = await self.notebook.told()
        await self.notebook.until_status("running")
        as_it_was = told["sums"] == self.sums and not told["damaged"] + told["began_away"] + told["locked_under"]
        self.block.require(as_it_was, f"after {after}: {told}")
        for left in await left_while_running(self.notebook.site):
            self.block.violated(f"after {after}: {left}")

    async def _is_parked(self) -> bool:
        return (await self.notebook.park()).is_parked


async def run(
    block: Block, *, each: int = _EACH // _BLOCKS, around: int = _EACH // _BLOCKS, at_random: int = _RANDOM // _BLOCKS
) -> None:
    """Kills in any order: *each* at every step, *around* every call so many, and *at_random* more."""
    choose = random.Random(f"{NAME} {block.seed}")  # noqa: S311  # a seed repeats the block
    kills: list[Kill] = [(f"step {step}", _at_step(step)) for step in (*PARKING, *RESUMING)]
    calls: list[Kill] = [(f"{when} {call}", _around(call, when)) for call, when in _CALLS]
    order = [*(kills * each), *(calls * around), *([("a random moment", _at_random)] * at_random)]
    choose.shuffle(order)
    async with Site.open(interval_s=0.05, background_interval_s=0.2) as site:
        notebook = await site.start_kernel("victim")
        told = await notebook.begin([4096, 2 * MIB, MIB + 5], block.seed)
        victim = _Victim(block, notebook, told["sums"], choose)
        for name, kill in order:
            if len(block.violations) < _TOO_MANY:
                await _one(victim, name, kill)
        for error in errors_in_log(site):
            block.violated(error)
        await site.stop_server()
        for left in await left_after_all(site):
            block.violated(left)


def done(counts: Counter[str]) -> int:
    """How much of the goal is reached."""
    return counts["kills"]


async def _one(victim: _Victim, name: str, kill: Callable[[_Victim], Awaitable[None]]) -> None:
    victim.block.counts["kills"] += 1
    victim.block.counts[f"killed at {name}"] += 1
    try:
        await kill(victim)
        await victim.recovered(name)
    except (CellFailed, TimeoutError) as trouble:
        victim.block.violated(f"killed at {name}: {trouble}")


def _at_step(step: Step) -> Callable[[_Victim], Awaitable[None]]:
    """Kill when the journal says that the step begins."""

    async def kill(victim: _Victim) -> None:
        site, resuming = victim.notebook.site, step in RESUMING
        await victim.prepare(resuming=resuming)
        site.give_order(step.value, "checkpoint")
        await victim.move(resuming=resuming)
        if site.order.exists():
            site.order.unlink()
            victim.block.counts[f"never came to step {step}"] += 1

    return kill


def _around(call: ParkingCall, when: When) -> Callable[[_Victim], Awaitable[None]]:
    """Have the process die of its own driver call, before or after its effect, until it died once."""

    async def kill(victim: _Victim) -> None:
        site = victim.notebook.site
        resuming = call in _RESUMING_CALLS or (call == "get_state" and victim.choose.random() < 0.5)  # noqa: PLR2004
        await victim.prepare(resuming=resuming)
        before = [process.pid for process in site.checkpoint_processes()]
        site.machine.inject(DiesAt(call, when))
        moving = asyncio.ensure_future(victim.move(resuming=resuming))

        async def is_over() -> bool:
            return moving.done() or [process.pid for process in site.checkpoint_processes()] != before

        try:
            await until(is_over, f"death {when} {call}")
        finally:
            site.machine.clear(DiesAt)
        if moving.done() and [process.pid for process in site.checkpoint_processes()] == before:
            victim.block.counts[f"never died {when} {call}"] += 1
        await moving

    return kill


async def _at_random(victim: _Victim) -> None:
    """Kill at any moment of a park or a resume, or a little after it."""
    resuming = victim.choose.random() < 0.5  # noqa: PLR2004  # half of them
    await victim.prepare(resuming=resuming)
    moving = asyncio.ensure_future(victim.move(resuming=resuming))
    await asyncio.sleep(victim.choose.uniform(0, _LONGEST_MOVE_S / (10 if resuming else 1)))
    processes = victim.notebook.site.checkpoint_processes()
    victim.block.counts["none to kill at a random moment"] += not processes
    _kill_all(processes)
    await moving


def _kill_all(processes: list[Any]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # it was faster
            process.kill()
