"""A broker that is killed again and again, its ledger, a simulated machine, and light holders that keep it busy."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.client import BrokerAway, BrokerClient, Endpoint, Pauses
from jupyter_gpushare.broker.wire import BrokerModel, LeasesAnswer
from jupyter_gpushare.demo.processes import end_processes
from jupyter_gpushare.demo.workspace import NOTEBOOKS, TRAINING, Workspace
from jupyter_gpushare.devices.simulated.machine import DeviceSpec, Machine
from jupyter_gpushare.parking.simulated import SimulatedCheckpoint
from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.reason import Reason
from scripts.soak import broker_books
from scripts.soak.broker_body import Body
from scripts.soak.broker_books import compare, excess_on, lines_of, load, rests_though_there_is_room, told
from scripts.soak.broker_hand import ORDER
from scripts.soak.broker_holders import Holder, Witness, sized
from scripts.soak.broker_nursery import Nursery
from scripts.soak.broker_turns import Turns
from scripts.soak.harness import MIB, until
from scripts.soak.record import ROOT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from jupyter_gpushare.broker.wire import LeaseModel, LeaseTarget
    from jupyter_gpushare.rules.snapshot import Snapshot
    from scripts.soak.record import Block

__all__ = ["POLICY", "BrokerSite"]

#: The projects of sessions and of two kinds of jobs, of which one may reclaim what the other has above its quota.
POLICY: Final = f"""\
[broker]
holder_grace = "{{grace_s:g}}s"

[projects.{NOTEBOOKS}]
quota = 8

[projects.{TRAINING}]
quota = 0
weight = 1

[projects.rush]
quota = 0.5

[pools.default]
minimum_turn = "0s"
backoff = "1s"
grace = "30s"
lend_at_least = "0s"

[hosts."*"]
parking_budget = "64GiB"
copies = 4
saves = 4
"""
_GRACE_S: Final = 5.0
_CONTEXT: Final = 2 * MIB
_USABLE: Final = 64 * MIB
#: A session's share changes between this and twice this while it runs: it never takes more.
_LEAST_SHARE: Final = 0.25
_SESSIONS: Final = 5
_JOBS: Final = 4
_RUSHED: Final = 2
_PAUSES: Final = Pauses(0.03, 0.2, 10.0)
_CONNECTED_S: Final = 60.0
_SETTLES_S: Final = 60.0


class BrokerSite:
    """Everything of one block.

    Attributes:
        workspace: where all of it lives.
        machine: the simulated machine, of two hosts unless all of it is to be one.
        holders: the light holders.
        witness: what they have seen.
        block: counts, and takes the violations.
    """

    def __init__(self, block: Block, workspace: Workspace, machine: Machine, nursery: Nursery) -> None:
        self.block, self.workspace, self.machine = block, workspace, machine
        self.choose = random.Random(f"{block.part} {block.seed}")  # noqa: S311  # a seed repeats the block
        self.holders: list[Holder] = []
        self.witness = Witness()
        self.pid = 0
        self._nursery = nursery
        self._driver = SimulatedCheckpoint(machine.path)
        self._ended: asyncio.Future[int] | None = None
        self._moves: list[asyncio.Task[None]] = []
        self._quiet = asyncio.Event()
        self._vanishing: asyncio.Task[None] | None = None
        self._made_way: set[str] = set()
        self._alone: set[str] = set()

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        block: Block,
        *,
        hosts: Sequence[str] = ("one", "one", "two", "two"),
        grace_s: float = _GRACE_S,
        usable: int = _USABLE,
    ) -> AsyncIterator[BrokerSite]:
        """A site with a broker that listens, and no holders yet. Everything is ended and removed afterwards.

        A holder that is away for longer than *grace_s* has vanished. Each device has *usable* bytes.
        """
        workspace = Workspace.create()
        spec = [DeviceSpec(total=Memory(usable + 8 * MIB), reserve=Memory(8 * MIB), host=host) for host in hosts]
        machine = Machine.create(workspace.machine, spec, context_bytes=_CONTEXT, copy_bytes_per_s=0)
        workspace.broker_socket.parent.mkdir(mode=0o700)
        (workspace.root / "gpushare.toml").write_text(POLICY.format(grace_s=grace_s))
        nursery = await Nursery.open(_environment(workspace), workspace.root / "broker.log")
        site = cls(block, workspace, machine, nursery)
        try:
            await site.start()
            yield site
        finally:
            await site.close()

    @property
    def environment(self) -> dict[str, str]:
        """What holders and brokers run in."""
        return _environment(self.workspace)

    @property
    def client(self) -> BrokerClient:
        """Asks the broker, whichever runs."""
        return BrokerClient(Endpoint.at_socket(self.workspace.broker_socket), 30.0, _PAUSES)

    @property
    def order(self) -> Path:
        """The file of the hand that kills; see `broker_hand`."""
        return _order(self.workspace)

    @property
    def address(self) -> str:
        """Of the ledger."""
        return f"sqlite:///{self.workspace.root / 'books' / 'broker.sqlite'}"

    def give_order(self, step: str) -> None:
        """Have the broker die at *step*."""
        written = self.order.with_suffix(".new")
        written.write_text(step)
        written.rename(self.order)

    async def start(self, *, is_doomed: bool = False) -> None:
        """Start a broker; one that is not doomed listens when this returns.

        Raises:
            TimeoutError: it does not listen.
        """
        root = self.workspace.root
        places = ["--socket", str(self.workspace.broker_socket), "--state", str(root / "books")]
        self.pid = await self._nursery.start([*places, "--config", str(root / "gpushare.toml")])
        self._ended = asyncio.ensure_future(self._nursery.ended(self.pid)) if is_doomed else None
        if is_doomed:
            return

        async def answers() -> bool:
            try:
                await self.client.request("GET", "")
            except BrokerAway:
                if not _lives(self.pid):
                    raise TimeoutError(f"the broker ended:\n{self.log_tail()}") from None
                return False
            return True

        await until(answers, "the broker listens", _CONNECTED_S)

    async def died(self, deadline_s: float = _CONNECTED_S) -> bool:
        """Wait until the broker has ended, for so long; whether it has."""
        if self._ended is None:
            self._ended = asyncio.ensure_future(self._nursery.ended(self.pid))
        await asyncio.wait([self._ended], timeout=deadline_s)
        if self._ended.done():
            self.block.require(
                self._ended.result() == -signal.SIGKILL,
                f"the broker ended with {self._ended.result()}: {self.log_tail()}",
            )
        return self._ended.done()

    def kill(self) -> None:
        """End the broker as ``kill -9`` does."""
        os.kill(self.pid, signal.SIGKILL)

    async def populate(
        self, *, sessions: int = _SESSIONS, jobs: int = _JOBS, rushed: int = _RUSHED, most: float = 1.0
    ) -> None:
        """Have light holders claim and run, and begin to want one thing after the other.

        None takes more than *most* of a device.
        """
        usable = {device.uuid: device.usable.bytes for device in self.machine.devices}
        names = [*(("interactive", NOTEBOOKS, f"session-{n}") for n in range(sessions))]
        names += [("training", TRAINING, f"job-{n}") for n in range(jobs)]
        names += [("training", "rush", f"rush-{n}") for n in range(rushed)]
        bodies = await asyncio.gather(*(Body.start(self.environment) for _ in names))
        for body, (kind, project, name) in zip(bodies, names, strict=True):
            holder = Holder(
                self.client,
                body,
                self._driver,
                self.witness,
                name=name,
                kind="interactive" if kind == "interactive" else "training",
                project=project,
                share="0.5",
                size=sized(usable, _CONTEXT, min(most, _LEAST_SHARE) if kind == "interactive" else most),
            )
            holder.begin()
            self.holders.append(holder)
            self._moves.append(asyncio.create_task(Turns(self.block, holder, self._quiet).take()))

    def one(self, *statuses: str, kind: str = "") -> Holder | None:
        """Any holder whose lease is in one of *statuses*."""
        found = [each for each in self.holders if each.status in statuses and kind in ("", each.kind)]
        return self.choose.choice(found) if found else None

    def vanish(self, holder: Holder, seconds: float) -> None:
        """Have *holder* be away for so long."""
        self._vanishing = asyncio.create_task(holder.vanish(seconds))

    async def look(self, moment: str) -> Snapshot:
        """With the broker dead: its books hold, and say of each lease at least what its holder was told."""
        books = await asyncio.to_thread(load, self.address)
        self._alone |= compare(self.block, moment, books, self.holders, lambda: lines_of(self.address))
        return books

    async def until_connected(self, moment: str, others: int = 0) -> None:
        """Wait until every holder has found the new broker, *others* besides ours too."""

        async def all_connected() -> bool:
            if not all(each.holding.connected or each.holding.is_over or each.is_gone for each in self.holders):
                return False
            ours = sum(each.holding.connected for each in self.holders)
            return not others or (await self.client.request("GET", "", type=BrokerModel)).holders >= ours + others

        try:
            await until(all_connected, "holders connect", _CONNECTED_S)
        except TimeoutError as trouble:
            away = [each.told() for each in self.holders if not each.holding.connected]
            self.block.violated(f"{moment}: {trouble}: {away}")

    async def excess_is_over(self, moment: str) -> None:
        """With everybody heard, nothing is promised twice on devices where somebody came back alone."""
        devices, self._alone = self._alone, set()
        if not devices:
            return

        async def is_over() -> bool:
            return not excess_on(await asyncio.to_thread(load, self.address), devices)

        try:
            await until(is_over, "what came back alone fits", _SETTLES_S)
        except TimeoutError as trouble:
            books = await asyncio.to_thread(load, self.address)
            self.block.violated(f"{moment}: {trouble}: {excess_on(books, devices)}")

    async def make_way(self, lease: LeaseModel | None) -> bool:
        """End the light jobs on the device that *lease* is parked from, if that is what it waits for; whether it is.

        It may wait for that only while the device has no room for it.
        """
        if lease is None or lease.reason is None or lease.reason.code != Reason.WAITING_FOR_SAME_DEVICE:
            return False
        books = await asyncio.to_thread(load, self.address)
        if rests := rests_though_there_is_room(books, lease.id):
            self.block.violated(f"it rests though there is room: {rests}")
        for other in self.holders:
            if other.kind == "training" and other.runs_on({grant.device for grant in lease.grants}):
                other.end()
                self._made_way.add(other.name)
                self.block.counts["ended for a parked job"] += 1
        return True

    async def settle(self) -> None:
        """Every lease moves on: all sessions park, all jobs run, all sessions run, all end, and nothing is left."""
        self._quiet.set()
        self._made_way.clear()
        await asyncio.gather(*self._moves, *filter(None, [self._vanishing]), return_exceptions=True)
        self._moves.clear()
        await self.until_connected("the end")
        await self.excess_is_over("the end")
        for holder in self.holders:
            if holder.lease is not None and holder.lease.id in holder.ending:
                await holder.until("ended")
        await self._everybody("interactive", "parked", "parked")
        await self._everybody("training", "running", "running")
        await self._everybody("interactive", "running", "running")
        for holder in self.holders:
            await holder.check()
        for holder in self.holders:
            holder.end()
        await asyncio.gather(*(each.until("ended") for each in self.holders))
        await until(self._has_none, "no lease is left", _CONNECTED_S)
        self.kill()
        await self.died()
        books = await self.look("the end")
        self.block.require(not books.leases, f"the end: leases are left: {sorted(books.leases)}")
        await self._audit()

    def log_tail(self, characters: int = 1500) -> str:
        """What brokers printed last."""
        log = self.workspace.root / "broker.log"
        return log.read_text(errors="replace")[-characters:] if log.exists() else ""

    async def close(self) -> None:
        """End what runs and remove what is left."""
        tasks = [*self._moves, *filter(None, [self._vanishing])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(each.close() for each in self.holders))
        if self._ended is None or not self._ended.done():
            if _lives(self.pid):
                self.kill()
            await self.died()
        await self._nursery.close()
        self._driver.close()
        await asyncio.to_thread(end_processes, self.workspace.root)
        self.machine.close()
        await asyncio.to_thread(broker_books.keep, self.block, self.workspace.root)
        self.workspace.remove()

    async def _everybody(self, kind: str, target: LeaseTarget, status: str) -> None:
        those = [each for each in self.holders if each.kind == kind]
        for holder in those:
            holder.renew()
            holder.is_clumsy = False
            if not holder.holding.is_over and target == "running":
                holder.want(target)
        for holder in those:
            try:
                if target == "parked":
                    await self._begin_to_park(holder)
                reached = await self._reached(holder, status)
            except TimeoutError as trouble:
                self.block.violated(f"the end: stuck: {trouble}{told(await asyncio.to_thread(load, self.address))}")
            else:
                is_there = reached == status or (reached == "ended" and holder.name in self._made_way)
                self.block.require(is_there, f"the end: {reached} instead of {status}: {holder.told()}")

    async def _reached(self, holder: Holder, status: str) -> str:
        """What *holder* has come to. A parked job may wait for its device for as long as other jobs have all of it."""
        try:
            return await holder.until(status, deadline_s=_SETTLES_S)
        except TimeoutError:
            await self.make_way(holder.lease)
        return await holder.until(status)

    async def _begin_to_park(self, holder: Holder) -> None:
        """Only what runs can be asked to park. Every session comes to run first, whatever the jobs do.

        For none is what it needs in pieces for ever: four sessions beside it and what `rush` deserves are 2.5 GPUs of
        four, so that one of them has half of it free once all training above quotas is reclaimed, as it is for a
        session inside its quota (docs/decisions/0020).
        """
        await holder.until("running", "parked")
        holder.want("parked")

    async def _has_none(self) -> bool:
        return not (await self.client.request("GET", "leases", type=LeasesAnswer)).leases

    async def _audit(self) -> None:
        broker_books.read_audit(self.block, await asyncio.to_thread(lines_of, self.address), self.holders)
        for what in ("parks", "resumes", "starts", "stops"):
            self.block.counts[what] += getattr(self.witness, what)
        for violation in self.witness.violations:
            self.block.violated(violation)


def _environment(workspace: Workspace) -> dict[str, str]:
    environment = workspace.environment(private_runtime=True, broker=True)
    return environment | {"PYTHONPATH": str(ROOT), ORDER: str(_order(workspace))}


def _order(workspace: Workspace) -> Path:
    return workspace.root / "broker-order"


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
        return file.read().rpartition(")")[2].split()[0] != "Z"
