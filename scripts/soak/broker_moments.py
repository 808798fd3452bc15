"""The broker killed at random moments under load: light holders, a real notebook server, and real jobs of `run`."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.broker.wire import LeasesAnswer
from jupyter_gpushare.demo.cells import Cells
from jupyter_gpushare.demo.jobs import Job
from jupyter_gpushare.demo.server import API, Server
from scripts.soak.broker_site import BrokerSite
from scripts.soak.harness import MIB, until

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import AsyncIterator

    from jupyter_gpushare.broker.wire import LeaseModel
    from jupyter_gpushare.demo.processes import Child
    from scripts.soak.record import Block

__all__ = ["GOAL", "NAME", "closing", "done", "run"]

NAME: Final = "broker-moments"
GOAL: Final = 200
_KILLS: Final = 25
_JOBS: Final = 2
_WAITED_FOR: Final = 0.25
#: With the notebook's server.
_REAL: Final = _JOBS + 1
_LONGEST_S: Final = 3.0
_GRACE_S: Final = 30.0
_TOO_MANY: Final = 10
_TERMINATED: Final = 128 + 15
#: What comes back wants a margin besides.
_USABLE: Final = 512 * MIB
_DEADLINE_S: Final = 90.0
_FILL: Final = f"""\
from jupyter_gpushare.devices.simulated import cuda
weights = cuda.allocate({16 * MIB})
weights.fill(7)
before = weights.checksum()"""
_COMPARE: Final = "print(weights.checksum() == before)"


async def run(block: Block, *, kills: int = _KILLS, few: bool = False) -> None:
    """So many kills; *few* light holders make a small block."""
    async with (
        BrokerSite.open(block, hosts=("simulated",) * 4, grace_s=_GRACE_S, usable=_USABLE) as site,
        RealOnes.open(site) as real,
    ):
        await site.populate(sessions=2 if few else 4, jobs=1 if few else 2, rushed=1, most=0.1)
        await real.begin()
        for _ in range(kills):
            if len(block.violations) < _TOO_MANY:
                await asyncio.sleep(site.choose.uniform(0, _LONGEST_S))
                await _one(site)
        await real.finish()
        await site.settle()


def done(counts: Counter[str]) -> int:
    """How much of the goal is reached."""
    return counts["kills"]


def closing(counts: Counter[str]) -> list[str]:
    """What the real ones did meanwhile."""
    return [
        f"{counts['cells']} cells of a notebook and {counts['steps']} steps of training beside {counts['kills']} kills"
    ]


async def _one(site: BrokerSite) -> None:
    site.kill()
    await site.died()
    site.block.counts["kills"] += 1
    await site.look("a random moment")
    await site.start()
    # The real ones take their time to come back after many kills: sometimes they are waited for, sometimes killed at.
    is_quiet = site.choose.random() < _WAITED_FOR
    await site.until_connected("a random moment", others=_REAL if is_quiet else 0)
    if is_quiet:
        await site.excess_is_over("a random moment")


class RealOnes:
    """A notebook that is parked and runs cells in turn, and jobs that train without end."""

    def __init__(self, site: BrokerSite) -> None:
        self._site = site
        self._block = site.block
        self._children: list[Child] = []
        self._jobs: list[Job] = []
        self._is_over = False
        self._turns: asyncio.Task[None] | None = None
        self._choose = random.Random(f"{site.block.seed} notebook")  # noqa: S311  # a seed repeats the block

    @classmethod
    @asynccontextmanager
    async def open(cls, site: BrokerSite) -> AsyncIterator[RealOnes]:
        """None of them runs yet; all are ended afterwards."""
        real = cls(site)
        try:
            yield real
        finally:
            await real._close()

    async def begin(self) -> None:
        """Start them, and keep them busy."""
        workspace = self._site.workspace
        workspace.configure(port=0, idle_timeout_s=None)
        self._server = await Server.start(
            workspace,
            self._site.environment,
            module="jupyter_server",
            deadline_s=_DEADLINE_S,
            started=self._children.append,
        )
        self._jobs = [
            Job.start(workspace, self._site.environment, f"real-{n}", gpu="0.5", memory="8MiB") for n in range(_JOBS)
        ]
        self._children += [job.child for job in self._jobs]
        self._cells = await Cells.open(self._server, "real.ipynb")
        await self._cell(_FILL)
        self._turns = asyncio.create_task(self._take_turns())

    async def finish(self) -> None:
        """Bring each to an end that it would have had without any kill, and count what it did."""
        self._is_over = True
        if self._turns is not None:
            await self._turns
        # One that is parked waits for its device, which another of them may have until it is ended itself.
        for job in [each for each in self._jobs if not await self._goes_on(each, may_wait=True)]:
            await self._goes_on(job)
        self._cells.close()
        await asyncio.to_thread(self._server.child.end, 30)

    async def _goes_on(self, job: Job, *, may_wait: bool = False) -> bool:
        """See *job* go on, and end it; False if it *may_wait* for its device, and does."""
        before = job.steps

        async def goes_on() -> bool:
            return job.steps > before or job.child.exit_code is not None

        try:
            await until(goes_on, f"{job.name} goes on", _DEADLINE_S)
        except TimeoutError as trouble:
            leases = [each for each in await self._leases() if each.name == job.name]
            if may_wait and leases and await self._site.make_way(leases[0]):
                return False
            self._block.violated(f"{trouble}: {leases} {job.child.log_tail()}")
        await self._end(job)
        return True

    async def _end(self, job: Job) -> None:
        code = await asyncio.to_thread(job.child.end, 30)
        self._block.require(code == _TERMINATED, f"{job.name} ended with {code}: {job.child.log_tail()}")
        made = job.made()
        self._block.require(
            made == list(range(len(made))), f"{job.name}: steps are missing, or came twice: {made[-20:]}"
        )
        self._block.counts["steps"] += len(made)

    async def _leases(self) -> list[LeaseModel]:
        return (await self._site.client.request("GET", "leases", type=LeasesAnswer)).leases

    async def _take_turns(self) -> None:
        while not self._is_over:
            try:
                await self._park()
                await asyncio.sleep(self._choose.uniform(0, 1.5))
                told = await self._cell(_COMPARE)
            except TimeoutError as trouble:
                self._block.violated(f"the notebook: {trouble}")
                return
            self._block.require(told == "True", f"the notebook's memory changed: {told}")
            self._block.counts["cells"] += 1

    async def _cell(self, code: str) -> str:
        try:
            outcome = await asyncio.wait_for(self._cells.run(code), _DEADLINE_S)
        except TimeoutError:
            leases = [each for each in await self._leases() if each.kind == "interactive"]
            raise TimeoutError(f"no answer to {code!r}: {leases} {self._server.child.log_tail()}") from None
        return outcome.error or outcome.text.strip()

    async def _park(self) -> None:
        wish = {"level": "park", "kernel_id": self._cells.kernel_id, "when": "now"}
        begun = await self._server.request("POST", API + "releases", wish)
        if begun.code != 202:  # noqa: PLR2004
            self._block.counts[f"not parked: {_code(begun.body)}"] += 1
            return
        path = f"{API}releases/{begun.body['id']}?no_track_activity=1"

        async def ended() -> Any:
            now = (await self._server.request("GET", path)).body
            return now if now["status"] != "running" else None

        now = await until(ended, "a park ends", _DEADLINE_S)
        self._block.counts["parked" if now["status"] == "released" else f"not parked: {_code(now)}"] += 1

    async def _close(self) -> None:
        if self._turns is not None:
            self._turns.cancel()
            await asyncio.gather(self._turns, return_exceptions=True)
        for child in self._children:
            await asyncio.to_thread(child.end, 15)


def _code(body: Any) -> str:
    message = body.get("error") or body.get("message") or {}
    return str(message.get("values", {}).get("reason_code") or message.get("code"))
