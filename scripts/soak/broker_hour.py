"""The broker dead for an hour: sixteen parked notebooks, half of what they lent in the hands of training, come back.

Every notebook has a real server and a real kernel, and every job is one of ``jupyter gpushare run``. The hour is one of
the sessions' own clock. Before it is over nobody may have come back, after it everybody must, with every byte.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.broker.wire import LeasesAnswer
from jupyter_gpushare.demo.cells import Cells
from jupyter_gpushare.demo.jobs import Job
from jupyter_gpushare.demo.server import API, Server
from scripts.soak.broker_clock import CLOCK
from scripts.soak.broker_site import BrokerSite
from scripts.soak.harness import MIB, until

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import AsyncIterator

    from jupyter_gpushare.demo.processes import Child
    from scripts.soak.record import Block

__all__ = ["GOAL", "NAME", "closing", "done", "run"]

NAME: Final = "broker-hour"
GOAL: Final = 16
_SESSIONS: Final = 16
_JOBS: Final = 4
_HOUR_S: Final = 3600.0
_AT_ONCE: Final = 4
_WAITS_S: Final = 5.0
#: What comes back wants a margin besides.
_USABLE: Final = 512 * MIB
_DEADLINE_S: Final = 180.0
_FILL: Final = f"""\
from jupyter_gpushare.devices.simulated import cuda
weights = cuda.allocate({16 * MIB})
weights.fill(7)
before = weights.checksum()"""
_COMPARE: Final = "print(weights.checksum() == before)"


async def run(block: Block, *, sessions: int = _SESSIONS, jobs: int = _JOBS) -> None:
    """One hour of *sessions*, two to a device, and *jobs* of one GPU each."""
    hosts = ("simulated",) * (sessions // 2)
    async with BrokerSite.open(block, hosts=hosts, grace_s=30, usable=_USABLE) as site, Hour.open(site) as hour:
        await hour.begin(sessions)
        await hour.park_all()
        await hour.lend(jobs)
        await hour.pass_without_a_broker()
        await hour.come_together()


def done(counts: Counter[str]) -> int:
    """How much of the goal is reached."""
    return counts["sessions that came back alone"]


def closing(counts: Counter[str]) -> list[str]:
    """How many of how many."""
    return [f"{counts['sessions that came back alone']} of {counts['sessions']} parked sessions resumed after the hour"]


class Hour:
    """Servers with a notebook each, and jobs."""

    def __init__(self, site: BrokerSite) -> None:
        self._site = site
        self._block = site.block
        self._children: list[Child] = []
        self._servers: list[Server] = []
        self._cells: list[Cells] = []
        self._jobs: list[Job] = []
        self._clock = site.workspace.root / "clock"
        self._environment = site.environment | {CLOCK: str(self._clock)}

    @classmethod
    @asynccontextmanager
    async def open(cls, site: BrokerSite) -> AsyncIterator[Hour]:
        """Nothing runs yet; everything is ended afterwards."""
        hour = cls(site)
        try:
            yield hour
        finally:
            for cells in hour._cells:
                cells.close()
            for child in hour._children:
                await asyncio.to_thread(child.end, 15)

    async def begin(self, sessions: int) -> None:
        """Start the servers, a few at a time, with a notebook that holds memory in each."""
        self._configure()
        slots = asyncio.Semaphore(_AT_ONCE)

        async def one(number: int) -> None:
            async with slots:
                server = await Server.start(
                    self._site.workspace,
                    self._environment,
                    module="jupyter_server",
                    deadline_s=4 * _DEADLINE_S,  # a cell may wait for longer than anything else
                    started=self._children.append,
                )
                cells = await Cells.open(server, f"hour-{number}.ipynb")
                await self._leases("running", number)
                outcome = await cells.run(_FILL)
                self._block.require(not outcome.error, f"notebook {number} has no memory: {outcome.error}")
                self._servers.append(server)
                self._cells.append(cells)

        await asyncio.gather(*(one(number) for number in range(sessions)))
        self._block.counts["sessions"] += sessions

    async def park_all(self) -> None:
        """Press Release in each, and wait until every lease is parked."""
        for server, cells in zip(self._servers, self._cells, strict=True):
            wish = {"level": "park", "kernel_id": cells.kernel_id, "when": "now"}
            begun = await server.request("POST", API + "releases", wish)
            self._block.require(begun.code == 202, f"a notebook cannot be parked: {begun.body}")  # noqa: PLR2004
        await self._leases("parked", len(self._servers))

    async def lend(self, jobs: int) -> None:
        """Start jobs on what is lent, and wait until each trains."""
        self._jobs = [
            Job.start(self._site.workspace, self._environment, f"hour-{n}", gpu="1", memory="8MiB") for n in range(jobs)
        ]
        self._children += [job.child for job in self._jobs]
        await self._steps("on what was lent")

    async def pass_without_a_broker(self) -> None:
        """Kill it and run a cell in each: all wait, until the hour is over, and then all have their result."""
        self._site.kill()
        await self._site.died()
        await until(self._all_away, "every session sees that the broker is away", _DEADLINE_S)
        results = [asyncio.create_task(cells.run(_COMPARE)) for cells in self._cells]
        await asyncio.wait(results, timeout=_WAITS_S)
        early = sum(result.done() for result in results)
        self._block.require(not early, f"{early} came back before the hour was over")
        self._clock.write_text(str(_HOUR_S + 1))
        await asyncio.wait(results, timeout=_DEADLINE_S)
        for number, result in enumerate(results):
            told = result.result() if result.done() else None
            is_back = told is not None and told.text.strip() == "True"
            self._block.counts["sessions that came back alone"] += is_back
            self._block.require(is_back, f"notebook {number} after the hour: {told or await self._said(number)}")
            result.cancel()

    async def come_together(self) -> None:
        """A new broker finds all of them as they are, training goes on, and the books hold."""
        await self._site.start()
        await self._leases("running", len(self._servers))
        for cells in self._cells:
            told = await asyncio.wait_for(cells.run(_COMPARE), _DEADLINE_S)
            self._block.require(told.text.strip() == "True", f"after the broker's return: {told}")
        for server, cells in zip(self._servers, self._cells, strict=True):
            wish = {"level": "park", "kernel_id": cells.kernel_id, "when": "now"}
            await server.request("POST", API + "releases", wish)
        await self._steps("after the broker's return")
        for job in self._jobs:
            made = job.made()
            self._block.require(made == list(range(len(made))), f"{job.name}: steps are missing, or came twice: {made}")
            self._block.counts["steps"] += len(made)
        self._site.kill()
        await self._site.died()
        await self._site.look("after the hour")

    def _configure(self) -> None:
        workspace = self._site.workspace
        workspace.configure(port=0, idle_timeout_s=None)
        path = workspace.settings / "jupyter_server_config.json"
        config = json.loads(path.read_text())
        config["ServerApp"]["jpserver_extensions"]["scripts.soak.broker_clock"] = True
        config["GpuShare"]["broker_grace_s"] = _HOUR_S
        path.write_text(json.dumps(config))

    async def _leases(self, status: str, count: int) -> None:
        """Wait until so many sessions are in *status*."""

        async def reached() -> bool:
            leases = (await self._site.client.request("GET", "leases", type=LeasesAnswer)).leases
            return sum(each.kind == "interactive" and each.status == status for each in leases) >= count

        await until(reached, f"{count} sessions are {status}", _DEADLINE_S)

    async def _steps(self, when: str) -> None:
        before = [job.steps for job in self._jobs]

        async def all_trained() -> bool:
            return all(job.steps > had for job, had in zip(self._jobs, before, strict=True))

        try:
            await until(all_trained, f"every job trains {when}", _DEADLINE_S)
        except TimeoutError as trouble:
            self._block.violated(f"{trouble}: {[(job.steps, job.child.log_tail(3)) for job in self._jobs]}")

    async def _all_away(self) -> bool:
        for server in self._servers:
            lease = (await server.session()).lease
            if lease is None or lease.connection != "away":
                return False
        return True

    async def _said(self, number: int) -> Any:
        seen = await self._servers[number].session()
        return [seen.lease, *(row.parking for row in seen.kernels)]
