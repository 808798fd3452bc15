"""The broker killed at every step of each kind of change, and of its start, while holders come, go, park and resume."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.broker.admin_wire import DrainRequest, ReclaimRequest, StopParkingRequest
from jupyter_gpushare.broker.client import BrokerAway, BrokerError
from jupyter_gpushare.rules.change import Verb
from scripts.soak.broker_hand import COMMITS, MOMENTS, OPENING
from scripts.soak.broker_site import BrokerSite

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Sequence

    from scripts.soak.record import Block

__all__ = ["GOAL", "NAME", "STEPS", "closing", "done", "run"]

NAME: Final = "broker-kills"
STEPS: Final = (*(f"{moment} {verb.value}" for verb in COMMITS for moment in MOMENTS), *OPENING)
_EACH: Final = 30
_LEAST: Final = 1
GOAL: Final = _EACH * len(STEPS)
_COMES_S: Final = 60.0
_TOO_MANY: Final = 10
_AWAY_S: Final = 7.0
_PROVOKE_S: Final = 0.5


async def run(block: Block, *, steps: Sequence[str] = STEPS, few: bool = False) -> None:
    """One kill at each of *steps*, in any order; *few* holders make a small block."""
    async with BrokerSite.open(block) as site:
        await site.populate(**({"sessions": 3, "jobs": 2, "rushed": 1} if few else {}))
        for step in site.choose.sample(steps, len(steps)):
            if len(block.violations) < _TOO_MANY:
                await _one(site, step)
        await site.settle()


def done(counts: Counter[str]) -> int:
    """How much of the goal is reached."""
    return sum(min(counts[f"killed {step}"], _EACH) for step in STEPS)


def closing(counts: Counter[str]) -> list[str]:
    """Whether every step had its turns."""
    fewest = min(STEPS, key=lambda step: counts[f"killed {step}"])
    return [f"{len(STEPS)} steps, each at least {counts[f'killed {fewest}']} times (the fewest: {fewest})"]


async def _one(site: BrokerSite, step: str) -> None:
    if step in OPENING:
        site.kill()
        await site.died()
        await site.look(step)
        site.give_order(step)
        await site.start(is_doomed=True)
        has_died = await site.died()
    else:
        provoking = asyncio.create_task(_provoke(site, step.rpartition(" ")[2]))
        site.give_order(step)
        has_died = await site.died(_COMES_S)
        provoking.cancel()
        await asyncio.gather(provoking, return_exceptions=True)
    if not has_died:
        site.order.unlink(missing_ok=True)
        site.block.violated(f"the broker never came to {step!r}")
        return
    site.block.counts["kills"] += 1
    site.block.counts[f"killed {step}"] += 1
    await _go_on(site, step)


async def _go_on(site: BrokerSite, step: str) -> None:
    """Holders go on without it; a new broker has the same books and finds them all again."""
    await site.look(step)
    holder = site.one("running")
    if holder is not None:
        await holder.check()
    await site.start()
    if step.rpartition(" ")[2] in (Verb.DEVICE_CHANGED, Verb.PARKING_SWITCHED):
        await _undo(site)
    await site.until_connected(step)


async def _provoke(site: BrokerSite, verb: str) -> None:
    """Bring about what does not come by itself, until the broker has died of it."""
    while True:
        try:
            await _bring_about(site, verb)
        except (BrokerAway, BrokerError):
            site.block.counts["asked in vain"] += 1
        await asyncio.sleep(_PROVOKE_S)


async def _bring_about(site: BrokerSite, verb: str) -> None:
    match verb:
        case Verb.RECLAIMED:
            if (job := site.one("running", kind="training")) is not None and job.lease is not None:
                await _ask(site, "reclaim", ReclaimRequest(job.lease.id))
        case Verb.DEVICE_CHANGED:
            device = site.choose.choice(site.machine.devices).uuid
            await _ask(site, "drain", DrainRequest(device=device))
            await _ask(site, "drain", DrainRequest(device=device, undo=True))
        case Verb.PARKING_SWITCHED:
            await _ask(site, "stop-parking", StopParkingRequest(stop=True))
            await _ask(site, "stop-parking", StopParkingRequest(stop=False))
        case _:
            _misbehave(site, verb)


def _misbehave(site: BrokerSite, verb: str) -> None:
    """Have some holder that runs do what holders should not."""
    holder = site.one("running", kind="interactive" if verb == Verb.NOT_PARKED else "")
    if holder is None:
        return
    if verb == Verb.FENCED:
        holder.say_stale()
    elif verb == Verb.NOT_PARKED:
        holder.is_clumsy = True
    elif verb in (Verb.VANISHED, Verb.RETURNED) and not any(each.is_gone for each in site.holders):
        site.vanish(holder, _AWAY_S)


async def _undo(site: BrokerSite) -> None:
    """What the admin did is undone, whether or not the broker that died had kept it."""
    for device in site.machine.devices:
        await _ask(site, "drain", DrainRequest(device=device.uuid, undo=True))
    await _ask(site, "stop-parking", StopParkingRequest(stop=False))


async def _ask(site: BrokerSite, path: str, body: Any) -> None:
    await site.client.request("POST", f"admin/{path}", body)
