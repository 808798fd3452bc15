"""The demo's own broker: a real one, in a process of its own, over the demo's machine and with its own books."""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.client import BrokerAway, BrokerClient, Endpoint
from jupyter_gpushare.broker.places import PlaceError, check_socket_path
from jupyter_gpushare.broker.wire import BrokerModel, LeaseModel, LeasesAnswer
from jupyter_gpushare.demo.processes import Child
from jupyter_gpushare.demo.server import ServerError
from jupyter_gpushare.demo.workspace import NOTEBOOKS, TRAINING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_gpushare.broker.wire import LeaseKind
    from jupyter_gpushare.demo.workspace import Workspace

__all__ = ["DemoBroker", "two_projects"]

_POLICY: Final = """\
[projects.{notebooks}]
quota = {notebooks_quota}

[projects.{training}]
quota = {training_quota}

[pools.default]
minimum_turn = "0s"
backoff = "1s"
grace = "30s"

[hosts."*"]
parking_budget = "128GiB"
"""
_POLL_S: Final = 0.05


def two_projects(*, training: str) -> str:
    """What the demo's broker is told: half a GPU for notebooks, *training* GPUs for training.

    A job that had to leave does not stand back for minutes. The budget is of the host that is simulated: the broker
    books a job's whole share for its copy, and what is really copied the processes themselves book on the real host.
    """
    return _POLICY.format(notebooks=NOTEBOOKS, notebooks_quota="0.5", training=TRAINING, training_quota=training)


@dataclass(frozen=True)
class DemoBroker:
    """A broker that we started, in the process *child*, asked through *client*. *deadline_s* bounds each wait."""

    child: Child
    client: BrokerClient
    deadline_s: float

    @classmethod
    async def start(
        cls,
        workspace: Workspace,
        environment: dict[str, str],
        policy: str,
        *,
        deadline_s: float,
        started: Callable[[Child], None],
    ) -> DemoBroker:
        """Start a broker with the text of a ``gpushare.toml`` and wait until it answers.

        *started* gets the process at once, to end it.

        Raises:
            ServerError: it ended, or did not answer within *deadline_s*.
            PlaceError: the temporary directory is too deep for a socket; says what to do.
        """
        socket = _checked(workspace.broker_socket)
        configuration = workspace.root / "gpushare.toml"
        configuration.write_text(policy, encoding="utf-8")
        places = ["--socket", str(socket), "--state", str(workspace.root / "books"), "--config", str(configuration)]
        argv = [sys.executable, "-m", "jupyter_gpushare.app", "broker", *places]
        child = Child(argv, environment, workspace.root, workspace.root / "broker.log")
        started(child)
        broker = cls(child, BrokerClient(Endpoint.at_socket(socket)), deadline_s)
        await broker._wait_until_answers()
        return broker

    async def leases(self) -> list[LeaseModel]:
        """Every lease, in the order in which they were claimed."""
        answer = await self.client.request("GET", "leases", type=LeasesAnswer)
        return sorted(answer.leases, key=lambda lease: lease.submitted)

    async def lease(self, name: str) -> LeaseModel | None:
        """The lease that people call *name*."""
        return next((lease for lease in await self.leases() if lease.name == name), None)

    async def until_has_share(self, kind: LeaseKind) -> None:
        """Wait until a lease of that *kind* has its share.

        Raises:
            ServerError: none has within the deadline.
        """
        give_up = time.monotonic() + self.deadline_s
        while not any(lease.kind == kind and lease.grants for lease in await self.leases()):
            if time.monotonic() > give_up:
                raise ServerError(f"Nothing {kind} got its share. The broker printed:\n{self.child.log_tail()}")
            await asyncio.sleep(_POLL_S)

    async def _wait_until_answers(self) -> None:
        give_up = time.monotonic() + self.deadline_s
        while True:
            try:
                await self.client.request("GET", "", type=BrokerModel)
            except BrokerAway as away:
                if self.child.exit_code is not None or time.monotonic() > give_up:
                    raise ServerError(f"The broker did not start ({away}):\n{self.child.log_tail()}") from None
                await asyncio.sleep(_POLL_S)
            else:
                return


def _checked(socket: Path) -> Path:
    try:
        return check_socket_path(socket)
    except PlaceError:
        short = f"{socket} is too long for a Unix socket: set TMPDIR to a directory with a shorter path"
        raise PlaceError(short) from None
