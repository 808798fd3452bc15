"""The hub of the pictures: four simulated GPUs and four teams, who run, park, lend, train and wait."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from jupyter_gpushare.demo.cells import Cells
from jupyter_gpushare.demo.hub.plan import Person
from jupyter_gpushare.demo.hub.running import SERVICE, DemoHub
from jupyter_gpushare.demo.hub.staging import ADMIN, broker_of, environment_of_job, plan_of
from jupyter_gpushare.demo.hub.visitor import Form
from jupyter_gpushare.demo.jobs import Job
from jupyter_gpushare.demo.machine import create_machine
from jupyter_gpushare.demo.processes import end_processes
from jupyter_gpushare.demo.server import ServerError
from jupyter_gpushare.demo.workspace import Workspace
from jupyter_gpushare.devices.simulated.machine import DeviceSpec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from jupyter_gpushare.broker.wire import LeaseModel
    from jupyter_gpushare.demo.broker import DemoBroker
    from jupyter_gpushare.demo.hub.visitor import Visitor

__all__ = ["HubStage", "staged"]

_DEADLINE_S: Final = 120.0
_GPUS: Final = 4
_PEOPLE: Final = (
    Person("ana", ("team-a",)),
    Person("ali", ("team-a",)),
    Person("eva", ("team-a",)),
    Person("bo", ("team-b",)),
    Person("cleo", ("team-c",)),
    Person("cora", ("team-c",)),
    Person("dan", ("team-d",)),
    Person(ADMIN, is_admin=True),
)
# Together the teams may want more than there is: somebody waits.
_POLICY: Final = f"""\
[broker]
admins = ["{ADMIN}"]

[projects.team-a]
quota = 2
person_limit = 1
members = ["@team-a"]
owners = ["eva"]

[projects.team-b]
quota = 1
members = ["@team-b"]

[projects.team-c]
quota = 2
members = ["@team-c"]

[projects.team-d]
quota = 1
members = ["@team-d"]

[pools.default]
minimum_turn = "0s"
backoff = "1s"
grace = "30s"

[hosts."*"]
parking_budget = "128GiB"
"""
#: Only ana's server has notebooks: the others' do no more than hold their shares.
_SERVERS: Final = """\
if [ "$JUPYTERHUB_USER" = ana ]; then exec "$0" -m jupyterhub.singleuser "$@"; fi
exec "$0" -m jupyter_gpushare.demo.hub.light_server"""
_OFFERED: Final = {"shares": ["0.25", "0.5..1", "1", "2x0.5", "4"], "default": "0.5..1", "custom": "2"}
_MODEL: Final = """\
from jupyter_gpushare.devices.simulated import cuda
model = cuda.allocate("7GiB")
model.fill(7)"""


class HubStage:
    """The hub, and people of it in browsers without scripts."""

    def __init__(self, workspace: Workspace, environment: dict[str, str], hub: DemoHub) -> None:
        self._workspace, self._environment, self.hub = workspace, environment, hub
        self._jobs: list[Job] = []
        self._visitors: dict[str, Visitor] = {}
        self._broker: DemoBroker

    async def open(self) -> Self:
        """Let everybody sign in."""
        for person in self.hub.plan.people:
            self._visitors[person.name] = await self.hub.sign_in(person.name)
        self._broker = await broker_of(self.hub, self._visitors[ADMIN])
        return self

    def password(self, person: str) -> str:
        """What *person* signs in with."""
        return next(each.password for each in self.hub.plan.people if each.name == person)

    async def close(self) -> None:
        """End the training and close the browsers."""
        for job in self._jobs:
            await asyncio.to_thread(job.child.end)
        for visitor in self._visitors.values():
            await visitor.close()

    async def set_out(self) -> None:
        """Notebooks and training, with one GPU still free."""
        await self._serve("ana", "0.25")
        await self._visitors["ana"].stop_server()
        await self._serve("ali", "0.5")
        await self._serve("ana", "0.5")
        await self._train("bo", "sweep-1", "1", "team-b")
        await self._serve("cleo", "0.5")

    async def fill(self) -> str:
        """Fill what is left, park a notebook, lend its share, have dan wait: the address of the page where he does."""
        await self._serve("eva", "1")
        await self._train("bo", "sweep-2", "0.5", "team-b")
        await self._park("ana")
        await self._train("cleo", "bert", "0.5", "team-c")
        await self._start("bo", "sweep-3", "1", "team-b")
        await self._start("ana", "seasons", "1", "team-a")
        await self._ask("ana", "1.5", "the deadline is on Friday")
        dan = self._visitors["dan"]
        answer = await dan.submit(await dan.spawn_page(), share="1")
        return await dan.wait_address(answer)

    async def _serve(self, person: str, share: str) -> None:
        visitor = self._visitors[person]
        await visitor.spawn(share)
        await visitor.until_ready()
        await self._until(person, "interactive", "running")

    async def _train(self, person: str, name: str, gpu: str, project: str) -> None:
        job = await self._start(person, name, gpu, project)
        await self._visitors[person].until(f"a step of {name}", partial(_has_steps, job))

    async def _start(self, person: str, name: str, gpu: str, project: str) -> Job:
        environment = environment_of_job(self._environment, self.hub, self._visitors[person])
        job = Job.start(self._workspace, environment, name, gpu=gpu, project=project)
        self._jobs.append(job)
        await self._visitors[person].until(f"the claim of {name}", partial(self._broker.lease, name))
        return job

    async def _park(self, person: str) -> None:
        server = self._visitors[person].front_end()
        cells = await Cells.open(server, "climate.ipynb")
        outcome = await cells.run(_MODEL)
        if outcome.error:
            raise ServerError(outcome.error)
        wish = {"level": "park", "kernel_id": cells.kernel_id, "confirm": ""}
        await server.request("POST", "gpushare/api/v1/releases", wish)
        await self._until(person, "interactive", "parked")
        cells.close()

    async def _ask(self, person: str, amount: str, why: str) -> None:
        visitor = self._visitors[person]
        form = Form((await visitor.page(f"{SERVICE}project?project=team-a")).text, "actions/ask")
        fields = {**form.fields, "what": "limit", "amount": amount, "why": why}
        (await visitor.client.post(form.action or "", data=fields)).raise_for_status()

    async def _until(self, person: str, kind: str, status: str) -> LeaseModel:
        async def look() -> LeaseModel | None:
            wanted = (person, kind, status)
            return next((it for it in await self._broker.leases() if (it.person, it.kind, it.status) == wanted), None)

        found: LeaseModel = await self._visitors[person].until(f"{status} {kind}", look)
        return found


async def _has_steps(job: Job) -> bool:
    return job.steps > 0


@contextlib.asynccontextmanager
async def staged() -> AsyncIterator[HubStage]:
    """The hub, with everybody signed in; nothing is left of it."""
    workspace = Workspace.create()
    create_machine(workspace, [DeviceSpec()] * _GPUS)
    environment = workspace.environment(private_runtime=True)
    traits = {"Spawner.cmd": ["sh", "-c", _SERVERS, sys.executable]}
    plan = plan_of(workspace, environment, _POLICY, idle_timeout_s=None, who=_PEOPLE, setup=_OFFERED, traits=traits)
    hub = DemoHub.begin(plan, environment, workspace.root / "hub", deadline_s=_DEADLINE_S)
    stage = HubStage(workspace, environment, hub)
    try:
        await hub.wait()
        yield await stage.open()
    finally:
        await stage.close()
        await asyncio.to_thread(hub.end)
        end_processes(workspace.root)
        workspace.remove()
