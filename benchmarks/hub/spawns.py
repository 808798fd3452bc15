"""From the request for a server to the start of its process, on a hub with GPU shares and on one without, in turns."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

import msgspec

from benchmarks.hub.stamp import FILE
from benchmarks.servers import ROOT
from jupyter_gpushare.demo.hub.running import DemoHub
from jupyter_gpushare.demo.hub.staging import ANA, broker_of, plan_of, two_teams
from jupyter_gpushare.demo.machine import create_machine
from jupyter_gpushare.demo.processes import end_processes
from jupyter_gpushare.demo.workspace import Workspace

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from jupyter_gpushare.demo.hub.visitor import Visitor

__all__ = ["Spawns", "measure"]

_DEADLINE_S: Final = 90.0
_LIGHT: Final = (sys.executable, "-m", "jupyter_gpushare.demo.hub.light_server")
_PROGRAM: Final = "from benchmarks.hub.stamp import install\ninstall()\n"


@dataclass(frozen=True, slots=True)
class Spawns:
    """Seconds from the request to the process; of the same rounds, in order."""

    with_us: list[float] = field(default_factory=list)
    without: list[float] = field(default_factory=list)
    no_project: list[float] = field(default_factory=list)
    no_gpu: list[float] = field(default_factory=list)

    @property
    def added(self) -> list[float]:
        """What each round had more with us than without."""
        return [ours - plain for ours, plain in zip(self.with_us, self.without, strict=True)]


async def measure(rounds: int) -> Spawns:
    """Start and stop a server on each hub in turns, each round in another order. The servers are light ones."""
    found = Spawns()
    async with AsyncExitStack() as stack:
        ours = await stack.enter_async_context(_Measured(shares=True))
        plain = await stack.enter_async_context(_Measured(shares=False))
        turns = [
            (ours, {"share": "0.5", "share_project": "team-a"}, found.with_us),  # as the spawn page sends it
            (plain, {}, found.without),
            (ours, {"share": "0.5"}, found.no_project),
            (ours, {"share": "none"}, found.no_gpu),
        ]
        for hub, options, _ in turns:
            await hub.spawn(options)  # what is done only once is not what everybody pays
        for number in range(rounds):
            first = number % len(turns)
            for hub, options, times in [*turns[first:], *turns[:first]]:
                times.append(await hub.spawn(options))
    return found


class _Measured:
    """One hub, and a visitor of it who starts servers over REST."""

    def __init__(self, *, shares: bool) -> None:
        self._workspace = Workspace.create()
        self._stamps: Path = self._workspace.root / "stamps"
        self._shares = shares
        self._hub: DemoHub | None = None
        self._visitor: Visitor | None = None

    async def __aenter__(self) -> Self:
        create_machine(self._workspace)
        environment = self._workspace.environment(private_runtime=True) | {FILE: str(self._stamps)}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), environment.get("PYTHONPATH")]))
        plan = plan_of(self._workspace, environment, two_teams("1"), traits={"Spawner.cmd": list(_LIGHT)})
        if not self._shares:
            plan = msgspec.structs.replace(plan, setup=None)
        directory = self._workspace.root / "hub"
        self._hub = DemoHub.begin(plan, environment, directory, deadline_s=_DEADLINE_S, program=_PROGRAM)
        try:
            await self._hub.wait()
            self._visitor = await self._hub.sign_in(ANA)
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._visitor is not None:
            await self._visitor.close()
        if self._hub is not None:
            await asyncio.to_thread(self._hub.end)
        await asyncio.to_thread(end_processes, self._workspace.root)
        self._workspace.remove()

    async def spawn(self, options: dict[str, str]) -> float:
        """Start a server with *options* and stop it; seconds from the request to its process."""
        assert self._visitor is not None
        before = len(self._moments())
        began = time.monotonic()
        answer = await self._visitor.api("POST", f"users/{ANA}/server", json=options)
        answer.raise_for_status()
        await self._visitor.until_ready()
        moments = self._moments()
        if len(moments) != before + 1:
            raise RuntimeError(f"{len(moments) - before} processes were begun for one server")
        await self._visitor.stop_server()
        if self._shares:
            await self._visitor.until("the end of its lease", self._is_over)
        return moments[-1] - began

    async def _is_over(self) -> bool:
        """Whether the server before has left the books: a start that comes sooner waits for that."""
        assert self._hub is not None
        assert self._visitor is not None
        return not await (await broker_of(self._hub, self._visitor)).leases()

    def _moments(self) -> list[float]:
        text = self._stamps.read_text(encoding="ascii") if self._stamps.exists() else ""
        return [float(line) for line in text.splitlines()]
