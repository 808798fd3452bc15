"""The hub to click through: two people of two teams, simulated GPUs and training, until Ctrl-C."""

from __future__ import annotations

import asyncio
import json
import webbrowser
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.demo.hub.running import SERVICE, DemoHub
from jupyter_gpushare.demo.hub.staging import ADMIN, ANA, BO, broker_of, environment_of_job, plan_of, two_teams
from jupyter_gpushare.demo.jobs import Job
from jupyter_gpushare.demo.machine import create_machine
from jupyter_gpushare.demo.processes import end_processes, undisturbed
from jupyter_gpushare.demo.server import ServerError
from jupyter_gpushare.demo.workspace import Workspace

if TYPE_CHECKING:
    from rich.console import Console

    from jupyter_gpushare.demo.hub.plan import HubPlan
    from jupyter_gpushare.demo.processes import Child

__all__ = ["HubDemo"]

#: Bo's training. It fills both GPUs, one more than team-b's quota: what lies above it makes room for notebooks.
_JOBS: Final = (("sweep-1", "1"), ("sweep-2", "0.5"), ("sweep-3", "0.5"))
_WHO: Final = {
    ANA: "of team-a, whose quota is 1 GPU",
    BO: "of team-b, whose quota is 1 GPU; three training jobs of his have both GPUs",
    ADMIN: "the hub's admin",
}


class HubDemo:
    """One run of the demo's hub. `run` returns when the hub has ended; `clean_up` leaves nothing behind.

    Args:
        console: where it prints.
        port: the hub's, if it is free; else another.
        idle_s: after how many idle seconds a notebook is parked; None for never by itself.
        deadline_s: how long the hub may take to answer.
    """

    def __init__(self, console: Console, *, port: int, idle_s: float | None, deadline_s: float) -> None:
        self._console = console
        self._port, self._idle_s, self._deadline_s = port, idle_s, deadline_s
        self._workspace = Workspace.create()
        self._children: list[Child] = []

    async def run(self, *, open_browser: bool, as_json: bool) -> None:
        """Start everything, say where it is, and wait.

        Raises:
            HubError: JupyterHub or its proxy is not installed.
            ServerError: the hub did not start, or ended by itself.
        """
        create_machine(self._workspace)
        environment = self._workspace.environment()
        plan = plan_of(self._workspace, environment, two_teams("1"), idle_timeout_s=self._idle_s, port=self._port)
        self._add_notebooks(plan)
        hub = await DemoHub.start(
            plan,
            environment,
            self._workspace.root / "hub",
            deadline_s=self._deadline_s,
            started=self._children.append,
        )
        await self._start_training(hub, environment)
        self._announce_json(hub) if as_json else self._announce(hub)
        if open_browser:
            await asyncio.to_thread(webbrowser.open, hub.url)
        if code := await hub.child.exited():
            raise ServerError(f"JupyterHub ended with code {code}:\n{hub.child.log_tail()}")

    def clean_up(self) -> None:
        """End what still runs, the hub last so that its broker sees the jobs leave, and delete the directory."""
        with undisturbed():
            for child in reversed(self._children):
                child.end()
            end_processes(self._workspace.root)
            self._workspace.remove()

    def _add_notebooks(self, plan: HubPlan) -> None:
        """Everybody finds the guided notebook at home."""
        for person in plan.people:
            home = self._workspace.root / "hub" / "homes" / person.name
            home.mkdir(parents=True)
            (home / "welcome.ipynb").write_bytes(self._workspace.add_notebook("welcome.ipynb").read_bytes())

    async def _start_training(self, hub: DemoHub, environment: dict[str, str]) -> None:
        visitor = await hub.sign_in(BO)
        try:
            broker = await broker_of(hub, visitor)
            of_job = environment_of_job(environment, hub, visitor)
            for name, gpu in _JOBS:
                job = Job.start(self._workspace, of_job, name, gpu=gpu, project="team-b")
                self._children.append(job.child)
                await broker.until_has_share("training")
        finally:
            await visitor.close()

    def _announce(self, hub: DemoHub) -> None:
        print_plainly = self._console.out  # no wrapping and no markup: addresses and passwords are copied from here
        print_plainly("The two GPUs of this demo are SIMULATED: no real device is used, and no real speed is shown.")
        print_plainly(f"Everything lies in {self._workspace.root} and is deleted at the end.\n")
        print_plainly(f"    {hub.url}\n")
        for person in hub.plan.people:
            print_plainly(f"    {person.name:4}  password {person.password}   {_WHO[person.name]}")
        print_plainly(f"\nWho has which GPU:  {hub.url}{SERVICE}")
        print_plainly("Sign in as two people in two browsers, and watch each other. Ctrl-C here ends everything.")

    def _announce_json(self, hub: DemoHub) -> None:
        facts = {
            "url": hub.url,
            "pages": hub.url + SERVICE,
            "passwords": {person.name: person.password for person in hub.plan.people},
            "simulated": True,
            "pid": hub.child.pid,
            "directory": str(self._workspace.root),
        }
        self._console.out(json.dumps(facts), highlight=False)
