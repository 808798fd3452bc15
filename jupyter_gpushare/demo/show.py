"""The demo to click through: JupyterLab on simulated GPUs, until Ctrl-C."""

from __future__ import annotations

import asyncio
import json
import os
import webbrowser
from typing import TYPE_CHECKING
from urllib.parse import quote

from jupyter_gpushare.demo.lending import Lending
from jupyter_gpushare.demo.machine import create_machine, start_holder
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
        environment = self._workspace.environment(simulated=not self._real)
        if not self._real:
            create_machine(self._workspace)
            self._children.append(start_holder(self._workspace, environment))
        self._workspace.configure(port=self._port, simulated=not self._real, idle_timeout_s=self._idle_s)
        server = await Server.start(
            self._workspace,
            environment,
            module="jupyterlab",
            deadline_s=self._deadline_s,
            started=self._children.append,
        )
        url = f"{server.url}lab/tree/{quote(notebook.name)}?token={server.token}"
        self._announce_json(server, url) if as_json else self._announce(url)
        if open_browser:
            await asyncio.to_thread(webbrowser.open, url)
        await self._wait(server, environment)

    def clean_up(self) -> None:
        """End what still runs, the server first so that it ends its kernels, and delete the temporary directory."""
        with undisturbed():
            for child in reversed(self._children):
                child.end()
            end_processes(self._workspace.root)
            self._workspace.remove()

    def _announce(self, url: str) -> None:
        print_plainly = self._console.out  # no wrapping and no markup: the address must survive being copied
        if self._real:
            print_plainly(f"Real GPUs: {self._names}.")
        else:
            print_plainly(
                "The two GPUs of this demo are SIMULATED: no real device is used, and no real speed is shown."
            )
            print_plainly("Another holder moves on the first of them.")
            print_plainly("While a notebook is parked, a training job uses what it gave back.")
        print_plainly(f"Notebooks: {self._workspace.notebooks}{'' if self._is_kept else ' (deleted at the end)'}")
        print_plainly(f"\n    {url}\n")
        print_plainly("Open this address in a browser. Ctrl-C here ends everything.")

    def _announce_json(self, server: Server, url: str) -> None:
        facts = {"url": url, "simulated": not self._real, "pid": server.child.pid}
        self._console.out(json.dumps(facts | {"directory": str(self._workspace.notebooks)}), highlight=False)

    @property
    def _is_kept(self) -> bool:
        return self._workspace.root not in self._workspace.notebooks.parents

    async def _wait(self, server: Server, environment: dict[str, str]) -> None:
        lending = Lending(self._workspace, environment, self._children.append)
        following = None if self._real else asyncio.create_task(lending.follow(server))
        try:
            code = await server.child.exited()
        finally:
            lending.stop()
            if following is not None:
                following.cancel()
        if code:
            raise ServerError(f"The server ended with code {code}:\n{server.child.log_tail()}")
