"""``jupyter gpushare run``: a training job that lives on free and lent shares."""

from __future__ import annotations

import asyncio
import os
import shlex
from typing import TYPE_CHECKING, Final, cast

import psutil
from jupyter_core.application import JupyterApp
from traitlets import Bool, Enum, Float, Integer, Unicode

from jupyter_gpushare.app.hub_token import with_hub_token
from jupyter_gpushare.app.run_line import RunLine
from jupyter_gpushare.broker.client import BROKER, BrokerAway, BrokerClient, BrokerError, Endpoint, NotAnEndpointError
from jupyter_gpushare.broker.job_socket import jobs_directory
from jupyter_gpushare.broker.wire import ProcessModel, ProjectsAnswer
from jupyter_gpushare.devices.identity import identify, myself
from jupyter_gpushare.parking.driver import default_budget
from jupyter_gpushare.parking.places import state_directory
from jupyter_gpushare.training.alone import listen
from jupyter_gpushare.training.child import Command, adopt_orphans
from jupyter_gpushare.training.claim import ClaimOptions, OptionError, claim_of
from jupyter_gpushare.training.gpu_state import GpuState, ParkingChoice
from jupyter_gpushare.training.job import SOCKET
from jupyter_gpushare.training.last_will import LastWill
from jupyter_gpushare.training.memory_cap import AUTO, CapError, automatic_cap, parse_cap
from jupyter_gpushare.training.safe_points import SafePoints
from jupyter_gpushare.training.signals import OwnerSignals
from jupyter_gpushare.training.supervisor import OWN_GRACE_S, UNAVAILABLE, Supervisor
from jupyter_gpushare.training.terminal import Terminal
from jupyter_gpushare.training.words import announcement

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.broker.wire import ClaimModel, LeaseModel

__all__ = ["RunApp"]

_USAGE: Final = 64  # sysexits.h


class RunApp(JupyterApp):
    """Run a training job on free and lent GPU shares: it waits, gives the GPU back when asked, and goes on."""

    name = "jupyter-gpushare-run"
    description = __doc__
    examples = (
        "jupyter gpushare run --project team-a --gpu 0.5 -- python train.py\n"
        "jupyter gpushare run --project team-a --gpu 0.5..1 --grace 60 --max-reclaims 10 -- ./train.sh --lr 0.1\n"
        "jupyter gpushare run --project team-a --gpu 16GiB -- papermill in.ipynb out.ipynb"
    )

    project = Unicode(help="Whose quota the job counts against. The only one there is, where there is only one.").tag(
        config=True
    )
    gpu = Unicode("1", help="How much GPU: 0.5, 0.25..0.8, 16GiB, 2, 0.5@a100.").tag(config=True)
    label = Unicode(help="What people call the job; the program's name otherwise.").tag(config=True)
    pool = Unicode(help="In which pool; any otherwise.").tag(config=True)
    max_reclaims = Integer(
        None, allow_none=True, help="End with a failure when the share is lost more often than this."
    ).tag(config=True)
    grace = Float(None, allow_none=True, help="Seconds to save its work; the pool's otherwise.").tag(config=True)
    start_cost = Float(0.0, help="Seconds of computing that a start costs: shorter loans are not for it.").tag(
        config=True
    )
    parking = Enum(
        ("auto", "always", "never"),
        "auto",
        help="Whether it is parked at its safe points; auto: on real GPUs where the doctor has qualified the host.",
    ).tag(config=True)
    memory_cap = Unicode(AUTO, help="Host memory that each process of the job may take: auto, none, or 16GiB.").tag(
        config=True
    )
    state_directory = Unicode(help="Where what is being parked is written down; the usual place otherwise.").tag(
        config=True
    )
    locks = Unicode(help="The directory for locks; without it the one that all of this host use.").tag(config=True)
    quiet = Bool(help="Say nothing but errors.").tag(config=True)

    aliases = {  # noqa: RUF012  # traitlets reads it from the class
        "project": "RunApp.project",
        "gpu": "RunApp.gpu",
        "name": "RunApp.label",
        "pool": "RunApp.pool",
        "max-reclaims": "RunApp.max_reclaims",
        "grace": "RunApp.grace",
        "start-cost": "RunApp.start_cost",
        "memory-cap": "RunApp.memory_cap",
        "locks": "RunApp.locks",
    }
    flags = {  # noqa: RUF012  # as above
        "park": ({"RunApp": {"parking": "always"}}, "Park it at its safe points wherever the driver can."),
        "no-park": ({"RunApp": {"parking": "never"}}, "Never park it: it saves its work and stops instead."),
        "quiet": ({"RunApp": {"quiet": True}}, "Say nothing but errors."),
    }

    def start(self) -> None:
        """Run the job, and exit as it does."""
        super().start()
        line = RunLine(quiet=self.quiet)
        if not self.extra_args:
            line.say("Which command? For example: jupyter gpushare run --project team-a --gpu 0.5 -- python train.py")
            self.exit(_USAGE)
        try:
            cap = _cap(self.memory_cap)
            code = asyncio.run(self._run(line, cap))
        except (OptionError, CapError, NotAnEndpointError) as error:
            line.problem(str(error))
            self.exit(_USAGE)
        except (BrokerError, BrokerAway, OSError) as error:
            line.problem(str(error))
            self.exit(UNAVAILABLE)
        self.exit(code)

    async def _run(self, line: RunLine, cap: Callable[[float], int | None]) -> int:
        client = BrokerClient(await self._endpoint())
        project = self.project or os.environ.get("GPUSHARE_PROJECT", "") or await _only_project(client)
        options = ClaimOptions(project, self.gpu, self.label, self.pool, self.max_reclaims, self.grace, self.start_cost)
        claim = claim_of(options, self.extra_args)
        adopt_orphans()
        gpu = GpuState(
            claim.key,
            choice=cast("ParkingChoice", self.parking),
            state=state_directory(self.state_directory),
            shared=self.locks or None,
            data_dir=self.data_dir,
            log=self.log,
        )
        try:
            return await self._supervise(line, client, claim, gpu, cap)
        finally:
            await gpu.close()

    async def _supervise(
        self,
        line: RunLine,
        client: BrokerClient,
        claim: ClaimModel,
        gpu: GpuState,
        cap: Callable[[float], int | None],
    ) -> int:
        command = Command(self.extra_args, os.environ, self.grace, cap)
        points = await SafePoints.open(lambda: supervisor.wake())  # noqa: PLW0108  # there is none yet
        will = LastWill.make(f"{SOCKET}={points.path}", OWN_GRACE_S if self.grace is None else self.grace)
        beside = [ProcessModel(each.pid, each.start) for each in (myself(), identify(will.pid)) if each is not None]
        supervisor = Supervisor(
            command,
            gpu,
            beside=beside,
            tell=line.say,
            announce=lambda loss: self.log.warning("loss: %s of %s", loss.value, claim.name),
            terminal=Terminal.ours(),
        )

        def on_lease(lease: LeaseModel) -> None:
            will.trust(client.endpoint, claim, holding.token)
            line.lease(lease)
            supervisor.wake()

        def on_change() -> None:
            line.connected(is_connected=holding.connected)
            supervisor.wake()

        line.say(f"{shlex.join(self.extra_args)[:200]}: {announcement(self.grace, parks=self.parking != 'never')}")
        holding = client.hold(
            claim,
            beside,
            on_lease=on_lease,
            on_change=on_change,
            on_refused=lambda error: line.problem(error.text),
            is_resident=lambda: supervisor.is_resident,
        )
        signals = OwnerSignals(supervisor, line.say)
        signals.install()
        alone = await listen(supervisor, jobs_directory(os.environ), f"{os.getpid()}-{claim.key[-8:]}")
        try:
            code = await supervisor.run(holding, points)
        finally:
            alone.close()
            signals.remove()
            await asyncio.to_thread(will.close, is_needed=supervisor.child is not None)
            line.close()
            await points.close()
            await holding.close()
        if holding.refusal is not None:
            line.problem(holding.refusal.text)
        return code

    async def _endpoint(self) -> Endpoint:
        environ = {**os.environ, BROKER: os.environ.get(BROKER, "").strip() or "start"}
        endpoint = await asyncio.to_thread(Endpoint.discover, with_hub_token(environ))
        if endpoint is None:
            raise NotAnEndpointError(
                f"{BROKER}={environ[BROKER]} finds no broker, and a job needs one to share a GPU: write {BROKER}=start"
            )
        return endpoint


def _cap(text: str) -> Callable[[float], int | None]:
    parsed = parse_cap(text)
    if isinstance(parsed, int):
        return lambda _: parsed
    if parsed != AUTO:
        return lambda _: None
    host, budget = psutil.virtual_memory().total, default_budget()
    return lambda part: automatic_cap(host=host, parking_budget=budget, part=part)


async def _only_project(client: BrokerClient) -> str:
    """The project that is meant where there is only one."""
    projects = (await client.request("GET", "projects", type=ProjectsAnswer)).projects
    if len(projects) == 1:
        return projects[0].name
    names = ", ".join(project.name for project in projects) or "none yet"
    raise OptionError(f"--project: say whose quota the job counts against; there are: {names}")
