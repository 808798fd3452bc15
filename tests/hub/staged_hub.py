"""A real JupyterHub with its proxy and our service on a simulated machine of its own, as the demo starts it."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final

import psutil

from jupyter_gpushare.demo.hub.running import DemoHub
from jupyter_gpushare.demo.hub.staging import ADMIN, broker_of, environment_of_job, plan_of
from jupyter_gpushare.demo.jobs import Job
from jupyter_gpushare.demo.machine import create_machine
from jupyter_gpushare.demo.processes import end_processes
from jupyter_gpushare.demo.workspace import Workspace
from jupyter_gpushare.devices.simulated.machine import DeviceSpec
from tests.broker.ledger.postgresql_server import PostgresqlServer
from tests.kernel_ports.sitecustomize import next_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

    from jupyter_gpushare.broker.wire import LeaseModel
    from jupyter_gpushare.demo.broker import DemoBroker
    from jupyter_gpushare.demo.hub.plan import HubPlan, Person
    from jupyter_gpushare.demo.hub.visitor import Visitor
    from jupyter_gpushare.demo.processes import Child

#: The variable: ``postgresql`` puts the hub's database and the ledger there; SQLite without it.
DATABASES: Final = "GPUSHARE_HUB_DATABASES"
DEADLINE_S: Final = 120.0
_POLL_S: Final = 0.05
#: A server without notebooks, of which a hundred start while one real one does.
LIGHT: Final = [sys.executable, "-m", "jupyter_gpushare.demo.hub.light_server"]
QUICK_POOL: Final = """\
[pools.default]
minimum_turn = "0s"
backoff = "1s"
grace = "30s"

[hosts."*"]
parking_budget = "128GiB"
"""


async def until(what: str, look: Callable[[], Awaitable[Any]], deadline_s: float = DEADLINE_S) -> Any:
    """The first true value of *look*; prints how long it took."""
    began = time.monotonic()
    while not (found := await look()):
        if time.monotonic() - began > deadline_s:
            raise TimeoutError(f"{what}: nothing for {deadline_s:.0f} s")
        await asyncio.sleep(_POLL_S)
    sys.stdout.write(f"{what}: {time.monotonic() - began:.1f} s\n")
    return found


class StagedHub:
    """The hub of *plan* in *workspace*. `start` and `kill` may take turns; `close` leaves nothing behind."""

    def __init__(self, workspace: Workspace, environment: dict[str, str], plan: HubPlan) -> None:
        self.workspace, self.environment, self.plan = workspace, environment, plan
        self.children: list[Child] = []
        self.hub: DemoHub

    @property
    def url(self) -> str:
        """Where people find the hub."""
        return self.plan.url

    def start(self) -> None:
        """Start the hub and wait until it and its service answer."""
        self.begin()
        asyncio.run(self.hub.wait())

    def begin(self, program: str = "") -> None:
        """Start the hub; its process runs *program* first."""
        directory = self.workspace.root / "hub"
        self.hub = DemoHub.begin(self.plan, self.environment, directory, deadline_s=DEADLINE_S, program=program)
        self.children.append(self.hub.child)

    def kill(self) -> None:
        """Kill the hub's own process, and nothing that it started."""
        psutil.Process(self.hub.child.pid).kill()
        self.hub.child.end()

    def process(self, *words: str) -> psutil.Process:
        """The newest process below the hub with all of these words in its command."""
        below = psutil.Process(self.hub.child.pid).children(recursive=True)
        return max(
            (each for each in below if all(word in " ".join(each.cmdline()) for word in words)),
            key=lambda each: each.create_time(),
        )

    @asynccontextmanager
    async def visitors(self, *names: str) -> AsyncIterator[list[Visitor]]:
        """Browsers in which these people have signed in."""
        async with AsyncExitStack() as stack:
            found = []
            for name in names:
                visitor = await self.hub.sign_in(name)
                stack.push_async_callback(visitor.close)
                found.append(visitor)
            yield found

    @asynccontextmanager
    async def broker(self) -> AsyncIterator[DemoBroker]:
        """The hub's broker, asked by the admin, who is told every name."""
        async with self.visitors(ADMIN) as (admin,):
            yield await broker_of(self.hub, admin)

    async def leases(self) -> dict[str, LeaseModel]:
        """Every lease by the name that people call it, with its project before it."""
        async with self.broker() as broker:
            return {f"{lease.project}/{lease.name}": lease for lease in await broker.leases()}

    def start_job(self, visitor: Visitor, name: str, gpu: str, project: str) -> Job:
        """A training job in *visitor*'s name."""
        environment = environment_of_job(self.environment, self.hub, visitor)
        job = Job.start(self.workspace, environment, name, gpu=gpu, project=project)
        self.children.append(job.child)
        return job

    def close(self) -> None:
        """End everything and remove the directory."""
        for child in reversed(self.children):
            child.end()
        end_processes(self.workspace.root)
        self.workspace.remove()


@contextmanager
def staged(
    policy: str,
    *,
    devices: Sequence[DeviceSpec] = (DeviceSpec(), DeviceSpec()),
    who: tuple[Person, ...] | None = None,
    **more: Any,
) -> Iterator[StagedHub]:
    """A hub that is started by whoever wants it. *more* as for `plan_of`."""
    with _databases(more) as chosen:
        workspace = Workspace.create()
        create_machine(workspace, devices)
        environment = workspace.environment(private_runtime=True)
        plan = plan_of(workspace, environment, policy, who=who, next_port=lambda: next_port("127.0.0.1"), **chosen)
        site = StagedHub(workspace, environment, plan)
        try:
            yield site
        finally:
            site.close()


@contextmanager
def _databases(more: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """*more*, with the hub's database and the ledger where `make test-matrix` wants them."""
    if os.environ.get(DATABASES) != "postgresql":
        yield more
        return
    with PostgresqlServer.running() as server:
        setup = {"ledger": server.create_database()} | more.get("setup", {})
        hub = server.create_database().replace("postgresql://", "postgresql+psycopg://", 1)
        traits = {"JupyterHub.db_url": hub} | more.get("traits", {})
        yield {**more, "setup": setup, "traits": traits}
