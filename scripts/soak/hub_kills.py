"""JupyterHub killed at every step of a server's start and stop, and at random: afterwards its servers and leases agree.

The hub, its proxy and our service are real processes; the servers are light ones, each a process that lives on when the
hub dies, as everybody's server does. After each kill the hub is started again on its own database. Then every lease
belongs to a server that the hub has, every server that picked a share has its lease, and whoever was in the way of the
kill starts a server again. What the hub itself loses sight of, a process that it had not written down, is counted.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import httpx
import psutil

from jupyter_gpushare.demo.hub.plan import Person
from jupyter_gpushare.demo.hub.staging import ADMIN
from jupyter_gpushare.demo.processes import marked_processes
from jupyter_gpushare.demo.server import ServerError
from jupyter_gpushare.devices.simulated.machine import DeviceSpec
from scripts.soak.harness import until
from scripts.soak.hub_hand import ORDER, STARTING, STOPPING
from scripts.soak.record import ROOT
from tests.hub.staged_hub import LIGHT, QUICK_POOL, StagedHub, staged

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import AsyncIterator, Sequence

    from jupyter_gpushare.demo.broker import DemoBroker
    from jupyter_gpushare.demo.hub.visitor import Visitor
    from scripts.soak.record import Block

__all__ = ["GOAL", "NAME", "closing", "done", "run"]

NAME: Final = "hub-kills"
_STEPS: Final = (*STARTING, *STOPPING)
_RANDOM: Final = "a random moment"
_EACH: Final = 5
_AT_RANDOM: Final = 10
GOAL: Final = _EACH * len(_STEPS) + _AT_RANDOM
_MOMENTS: Final = (*_STEPS, _RANDOM, _RANDOM)
_SHARE: Final = "0.5"
_DEADLINE_S: Final = 120.0
_LONGEST_S: Final = 1.2
_BYSTANDER: Final = "bystander"
_PERSON: Final = "person"
_POLICY: Final = (
    f'[broker]\nadmins = ["{ADMIN}"]\n[projects.everybody]\nquota = 2\nmembers = ["{_PERSON}", "{_BYSTANDER}"]\n'
    + QUICK_POOL
)
_PROGRAM: Final = "from scripts.soak.hub_hand import install\ninstall()\n"


async def run(block: Block, *, moments: Sequence[str] = _MOMENTS) -> None:
    """One kill at each of the *moments*, in any order."""
    choose = random.Random(f"{NAME} {block.seed}")  # noqa: S311  # a seed repeats the block
    async with _site() as site:
        await site.keep_bystander()
        for moment in choose.sample(list(moments), len(moments)):
            try:
                await _one(block, site, moment, choose)
            except (ServerError, TimeoutError, OSError, httpx.HTTPError, psutil.Error) as trouble:
                block.violated(f"{moment}: {trouble!r}: {site.staged.hub.child.log_tail(20)}")
                return
        await _end(block, site)


def done(counts: Counter[str]) -> int:
    """How much of the goal is reached."""
    steps = sum(min(counts[f"killed: {step}"], _EACH) for step in _STEPS)
    return steps + min(counts[f"killed: {_RANDOM}"], _AT_RANDOM)


def closing(counts: Counter[str]) -> list[str]:
    """Whether every step had its turns."""
    fewest = min(counts[f"killed: {step}"] for step in _STEPS)
    return [f"each of {len(_STEPS)} steps at least {fewest} times, {counts[f'killed: {_RANDOM}']} random moments"]


class Site:
    """The hub that is killed, one person who is in the way of it, and a bystander whose server runs throughout."""

    def __init__(self, staged_hub: StagedHub) -> None:
        self.staged = staged_hub
        self.order = staged_hub.workspace.root / "order"
        self.bystander = ""

    async def start(self) -> None:
        """Start the hub and wait until it and its service answer."""
        self.staged.begin(_PROGRAM)
        await self.staged.hub.wait()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[Visitor, Visitor, DemoBroker]]:
        """The person's browser, the bystander's, and the broker as the admin asks it."""
        async with AsyncExitStack() as stack:
            person, bystander = await stack.enter_async_context(self.staged.visitors(_PERSON, _BYSTANDER))
            yield person, bystander, await stack.enter_async_context(self.staged.broker())

    async def keep_bystander(self) -> None:
        """Have the bystander's server run, and remember its lease."""
        async with self.open() as (_, bystander, broker):
            await bystander.spawn(_SHARE)
            await bystander.until_ready()
            self.bystander = await until(lambda: _lease_of(broker, _BYSTANDER), "the bystander's lease", _DEADLINE_S)

    async def until_dead(self, moment: str) -> None:
        """Wait until the hub's process has died of the order."""

        async def is_dead() -> bool:
            return self.staged.hub.child.exit_code is not None

        await until(is_dead, f"the hub dies at {moment}", _DEADLINE_S)

    def processes_of(self, person: str) -> list[psutil.Process]:
        """The processes of *person*'s servers."""
        return [each for each in marked_processes(self.staged.workspace.root) if _runs_for(each, person)]


@asynccontextmanager
async def _site() -> AsyncIterator[Site]:
    who = (Person(_PERSON), Person(_BYSTANDER), Person(ADMIN, is_admin=True))
    traits = {"Spawner.cmd": LIGHT, "JupyterHub.cleanup_servers": False, "Spawner.http_timeout": 120}
    with staged(_POLICY, devices=[DeviceSpec()], who=who, traits=traits) as staged_hub:
        site = Site(staged_hub)
        staged_hub.environment |= {ORDER: str(site.order)}
        staged_hub.environment["PYTHONPATH"] = f"{ROOT}:{staged_hub.environment.get('PYTHONPATH', '')}"
        await site.start()
        yield site


async def _one(block: Block, site: Site, moment: str, choose: random.Random) -> None:
    await _kill(site, moment, choose)
    block.counts["kills"] += 1
    block.counts[f"killed: {moment}"] += 1
    await site.start()
    async with site.open() as (person, bystander, broker):
        has_server = await _agree(moment, person, broker)
        block.counts["its server was there afterwards" if has_server else "its server was not there afterwards"] += 1
        if not has_server:
            block.counts["processes that the hub itself had lost sight of"] += await _end_orphans(site)
            await person.spawn(_SHARE)
        await person.until_ready()
        await until(
            lambda: _lease_of(broker, _PERSON), f"{moment}: a lease for the server that was started", _DEADLINE_S
        )
        await person.stop_server()
        await until(lambda: _has_none(broker, _PERSON), f"{moment}: the end of the lease", _DEADLINE_S)
        record = await bystander.server()
        block.require(bool(record and record["ready"]), f"{moment}: the bystander's server is {record}")
        lease = await _lease_of(broker, _BYSTANDER)
        block.require(lease == site.bystander, f"{moment}: the bystander's lease is {lease}, not {site.bystander}")


async def _kill(site: Site, moment: str, choose: random.Random) -> None:
    async with site.open() as (person, _, broker):
        is_stopping = moment in STOPPING or (moment == _RANDOM and choose.random() < 1 / 2)
        if is_stopping:
            await person.spawn(_SHARE)
            await person.until_ready()
            await until(lambda: _lease_of(broker, _PERSON), f"{moment}: its lease", _DEADLINE_S)
        if moment != _RANDOM:
            site.order.write_text(moment)
        acting = asyncio.ensure_future(_act(person, is_stopping=is_stopping))
        if moment == _RANDOM:
            await asyncio.sleep(choose.uniform(0, _LONGEST_S))
            site.staged.kill()
        await site.until_dead(moment)
        await acting


async def _act(person: Visitor, *, is_stopping: bool) -> None:
    with suppress(httpx.HTTPError, ServerError):  # whom it asks dies meanwhile
        if is_stopping:
            await person.stop_server()
        else:
            await person.spawn(_SHARE)


async def _agree(moment: str, person: Visitor, broker: DemoBroker) -> bool:
    """Wait until the hub and the books say the same of the person's server; whether there is one."""

    async def same() -> tuple[bool] | None:
        record, lease = await person.server(), await _lease_of(broker, _PERSON)
        if record is not None and record["pending"]:
            return None
        has_server = bool(record and record["ready"])
        return (has_server,) if has_server == (lease is not None) == await _is_held(broker) else None

    (has_server,) = await until(same, f"{moment}: the hub's servers and the leases agree", _DEADLINE_S * 3)
    return bool(has_server)


async def _end_orphans(site: Site) -> int:
    """End what the hub started and had not written down when it was killed; how many there were."""
    orphans = await asyncio.to_thread(site.processes_of, _PERSON)
    for process in orphans:
        process.terminate()
    await asyncio.to_thread(psutil.wait_procs, orphans, 10)
    return len(orphans)


async def _lease_of(broker: DemoBroker, person: str) -> str | None:
    """The id of the lease of *person*'s server, whatever it is."""
    found = [lease.id for lease in await broker.leases() if lease.person == person]
    if len(found) > 1:
        raise RuntimeError(f"{person} has {len(found)} leases")
    return found[0] if found else None


async def _is_held(broker: DemoBroker) -> bool:
    """Whether the person's lease is held by its server."""
    return any(lease.person == _PERSON and lease.status == "running" for lease in await broker.leases())


async def _has_none(broker: DemoBroker, person: str) -> bool:
    return await _lease_of(broker, person) is None


async def _end(block: Block, site: Site) -> None:
    """Everybody stops: nothing is left."""
    async with site.open() as (_, bystander, broker):
        await bystander.stop_server()
        await until(lambda: _has_none(broker, _BYSTANDER), "the end of the bystander's lease", _DEADLINE_S)
        left = [lease.name for lease in await broker.leases()]
        block.require(not left, f"leases that are left: {left}")
    code = await asyncio.to_thread(site.staged.hub.end)
    block.require(code == 0, f"the hub ended with {code}: {site.staged.hub.child.log_tail(20)}")


def _runs_for(process: psutil.Process, person: str) -> bool:
    with suppress(psutil.Error, OSError):
        return bool(process.environ().get("JUPYTERHUB_USER") == person)
    return False
