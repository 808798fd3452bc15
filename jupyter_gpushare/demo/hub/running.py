"""A JupyterHub in a process of its own: started, waited for, asked, ended with everything that it started."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import TYPE_CHECKING, Final

import httpx

from jupyter_gpushare.demo.hub.visitor import Visitor
from jupyter_gpushare.demo.processes import Child
from jupyter_gpushare.demo.server import ServerError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_gpushare.demo.hub.plan import HubPlan

__all__ = ["SERVICE", "DemoHub"]

#: Where the pages and the API of the service are, below the hub's address.
SERVICE: Final = "/services/gpushare/"
_POLL_S: Final = 0.2
_GRACE_S: Final = 30.0
_CONFIGURATION: Final = """\
from pathlib import Path

from jupyter_gpushare.demo.hub.configuration import configure
from jupyter_gpushare.demo.hub.plan import HubPlan

configure(get_config(), HubPlan.read(Path({plan!r})))
"""


class DemoHub:
    """The hub that *plan* describes, in the process *child*. *deadline_s* bounds each wait."""

    def __init__(self, plan: HubPlan, child: Child, deadline_s: float) -> None:
        self.plan, self.child, self.deadline_s = plan, child, deadline_s
        self.url = plan.url

    @classmethod
    def begin(
        cls, plan: HubPlan, environment: dict[str, str], directory: Path, *, deadline_s: float, program: str = ""
    ) -> DemoHub:
        """Start it in *directory*, where its log and its configuration are; `wait` says when it answers.

        *program* is Python that its process runs first, for those who look at it from inside.
        """
        directory.mkdir(parents=True, exist_ok=True)
        kept = directory / "plan.json"
        plan.write(kept)
        file = directory / "jupyterhub_config.py"
        file.write_text(program + _CONFIGURATION.format(plan=str(kept)), encoding="utf-8")
        argv = [sys.executable, "-m", "jupyterhub", "-f", str(file)]
        return cls(plan, Child(argv, _of_hub(environment), directory, directory / "hub.log"), deadline_s)

    @classmethod
    async def start(
        cls,
        plan: HubPlan,
        environment: dict[str, str],
        directory: Path,
        *,
        deadline_s: float,
        started: Callable[[Child], None],
    ) -> DemoHub:
        """Start it and wait until it and its service answer. *started* gets the process at once, to end it.

        Raises:
            ServerError: it ended, or did not answer within *deadline_s*.
        """
        hub = cls.begin(plan, environment, directory, deadline_s=deadline_s)
        started(hub.child)
        await hub.wait()
        return hub

    async def wait(self, *, service: bool = True) -> None:
        """Wait until the hub answers through its proxy, and with *service* GPU shares do too.

        Raises:
            ServerError: it ended, or did not answer within the deadline.
        """
        # The hub itself first, past its proxy, which would have it make a page of each answer that is none.
        addresses = [f"http://127.0.0.1:{self.plan.hub_port}/hub/health", f"{self.url}/hub/health"]
        if service and self.plan.setup is not None:
            addresses.append(f"{self.url}{SERVICE}api/v1/health")
        give_up = time.monotonic() + self.deadline_s
        async with httpx.AsyncClient(timeout=self.deadline_s) as client:
            for address in addresses:
                while not await _answers(client, address):
                    self._check(give_up, address)
                    await asyncio.sleep(_POLL_S)

    async def sign_in(self, name: str) -> Visitor:
        """A browser in which *name* has signed in."""
        person = next(person for person in self.plan.people if person.name == name)
        return await Visitor.sign_in(self.url, name, person.password, self.deadline_s)

    def end(self) -> int:
        """End it in order, with its proxy, its service and its people's servers; returns its exit code."""
        return self.child.end(_GRACE_S)

    def _check(self, give_up: float, address: str) -> None:
        if self.child.exit_code is not None:
            raise ServerError(
                f"JupyterHub ended with code {self.child.exit_code}. It printed:\n{self.child.log_tail()}"
            )
        if time.monotonic() > give_up:
            raise ServerError(f"{address} does not answer. JupyterHub printed:\n{self.child.log_tail(30)}")


async def _answers(client: httpx.AsyncClient, address: str) -> bool:
    try:
        return (await client.get(address)).is_success
    except httpx.TransportError:
        return False


def _of_hub(environment: dict[str, str]) -> dict[str, str]:
    """Ours is the Python that its commands belong to, and none of our own choices is the hub's."""
    kept = {name: value for name, value in environment.items() if name not in ("GPUSHARE_BROKER", "GPUSHARE_SHARE")}
    return kept | {"PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])}  # noqa: PTH120  # never resolved: it may be a link of a venv
