"""The demo to click through: JupyterLab on simulated GPUs with a broker and training, until Ctrl-C."""

from __future__ import annotations

import asyncio
import json
import os
import webbrowser
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from jupyter_gpushare.demo.broker import DemoBroker, two_projects
from jupyter_gpushare.demo.jobs import Job
from jupyter_gpushare.demo.machine import create_machine, start_holder, until_holds
from jupyter_gpushare.demo.processes import end_processes, undisturbed
from jupyter_gpushare.demo.server import Server, ServerError
from jupyter_gpushare.demo.workspace import Workspace
from jupyter_gpushare.devices.device import DriverState
from jupyter_gpushare.devices.discovery import SIMULATED_MACHINE, open_source

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from jupyter_gpushare.demo.processes import Child

__all__ = ["Demo", "DemoError", "check_real_devices"]

#: What trains: a job that has the second GPU to itself, and one for which nothing is free until a notebook is parked.
_JOBS: Final = (("sweep-1", "1"), ("sweep-2", "0.75"))


class DemoError(RuntimeError):
    """The demo cannot be shown; the message says what to do."""


def check_real_devices() -> str:
    """The names of the real GPUs here.

    Raises:
        DemoError: there are none, with the driver's reason.
    """
    source = open_source({name: value for name, value in os.environ.items() if name != SIMULATED_MACHINE})
    try:
        driver, devices = source.driver(), source.devices()
    finally:
        source.close()
    if driver.state is not DriverState.READY:
        raise DemoError(f"{driver.reason} Or leave out --real: the demo then simulates its GPUs.")
    if not devices:
        raise DemoError("The driver works but shows no GPU. Leave out --real: the demo then simulates its GPUs.")
    return ", ".join(device.name for device in devices)


class Demo:
    """One run of the demo. `run` returns when the server has ended; `clean_up` leaves nothing behind.

    Args:
        console: where it prints.
        keep: a directory for the notebooks that stays; None for a temporary one.
        real: real GPUs instead of simulated ones, and then no other holder.
        port: the first port to try.
        idle_s: after how many idle seconds a notebook is parked; None for never by itself.
        deadline_s: how long the server may take to answer.
    """

    def __init__(
        self,
        console: Console,
        *,
        keep: Path | None,
        real: bool,
        port: int,
        idle_s: float | None,
        deadline_s: float,
    ) -> None:
        self._console = console
        self._real, self._port, self._idle_s, self._deadline_s = real, port, idle_s, deadline_s
        self._names = check_real_devices() if real else ""
        self._workspace = Workspace.create(keep)
        self._children: list[Child] = []

    async def run(self, *, open_browser: bool, as_json: bool) -> None:
        """Start everything, say where it is, and wait.

        Raises:
            ServerError: the server did not start, or ended by itself.
        """
        notebook = self._workspace.add_notebook("welcome_real.ipynb" if self._real else "welcome.ipynb")
        environment = self._workspace.environment(simulated=not self._real, broker=True)
        broker = None if self._real else await self._start_broker(environment)
        self._workspace.configure(port=self._port, simulated=not self._real, idle_timeout_s=self._idle_s)
        server = await Server.start(
            self._workspace,
            environment,
            module="jupyterlab",
            deadline_s=self._deadline_s,
            started=self._children.append,
        )
        if broker is not None:
            await self._start_training(broker, environment)
        url = f"{server.url}lab/tree/{quote(notebook.name)}?token={server.token}"
        self._announce_json(server, url) if as_json else self._announce(url, broker)
        if open_browser:
            await asyncio.to_thread(webbrowser.open, url)
        await self._wait(server)

    def clean_up(self) -> None:
        """End what still runs, the server first so that it ends its kernels, and delete the temporary directory."""
        with undisturbed():
            for child in reversed(self._children):
                child.end()
            end_processes(self._workspace.root)
            self._workspace.remove()

    def _announce(self, url: str, broker: DemoBroker | None) -> None:
        print_plainly = self._console.out  # no wrapping and no markup: the address must survive being copied
        if self._real:
            print_plainly(f"Real GPUs: {self._names}.")
        else:
            print_plainly(
                "The two GPUs of this demo are SIMULATED: no real device is used, and no real speed is shown."
            )
            print_plainly("Another holder moves on the first of them; a training job has the second.")
            print_plainly("While your notebooks are parked, another training job uses what they gave back.")
        print_plainly(f"Notebooks: {self._workspace.notebooks}{'' if self._is_kept else ' (deleted at the end)'}")
        print_plainly(f"\n    {url}\n")
        print_plainly("Open this address in a browser. Ctrl-C here ends everything.")
        if broker is not None:
            label = broker.client.endpoint.label
            print_plainly(f"Who has what, in another terminal:  GPUSHARE_BROKER={label} jupyter gpushare top")

    def _announce_json(self, server: Server, url: str) -> None:
        facts: dict[str, object] = {"url": url, "simulated": not self._real, "pid": server.child.pid}
        if not self._real:
            facts["broker"] = f"unix:{self._workspace.broker_socket}"
        self._console.out(json.dumps(facts | {"directory": str(self._workspace.notebooks)}), highlight=False)

    @property
    def _is_kept(self) -> bool:
        return self._workspace.root not in self._workspace.notebooks.parents

    async def _wait(self, server: Server) -> None:
        code = await server.child.exited()
        if code:
            raise ServerError(f"The server ended with code {code}:\n{server.child.log_tail()}")

    async def _start_broker(self, environment: dict[str, str]) -> DemoBroker:
        """Two GPUs, another holder on the first of them that takes part in no share, and who may have how much."""
        create_machine(self._workspace)
        holder = start_holder(self._workspace, environment)
        self._children.append(holder)
        # The broker has to see it before it decides where the notebooks go: beside it, so that the second GPU is empty.
        await until_holds(holder, self._deadline_s)
        return await DemoBroker.start(
            self._workspace,
            environment,
            two_projects(training="1.5"),
            deadline_s=self._deadline_s,
            started=self._children.append,
        )

    async def _start_training(self, broker: DemoBroker, environment: dict[str, str]) -> None:
        """One job on the second GPU, and one that waits for what the notebooks hand back: in this order.

        Raises:
            ServerError: the server or the first job has not got its share.
        """
        await broker.until_has_share("interactive")
        for name, gpu in _JOBS:
            self._children.append(Job.start(self._workspace, environment, name, gpu=gpu).child)
            await broker.until_has_share("training")
