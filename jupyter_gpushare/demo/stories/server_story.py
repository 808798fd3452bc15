"""What stories about a server on a simulated machine have in common: its places, its processes, what can be asked."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from jupyter_gpushare.demo.machine import start_holder
from jupyter_gpushare.demo.processes import end_processes, marked_processes
from jupyter_gpushare.demo.server import API, FrontEnd, Server
from jupyter_gpushare.demo.story import StepError, Story, expect
from jupyter_gpushare.demo.workspace import Workspace
from jupyter_gpushare.devices.simulated.source import SimulatedSource
from jupyter_gpushare.rules.loss import Loss
from jupyter_gpushare.session.wire import KernelModel, ReleaseModel, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.demo.cells import Cells
    from jupyter_gpushare.demo.processes import Child
    from jupyter_gpushare.demo.server import Answer

__all__ = ["ServerStory"]

#: How many snapshots a step looks through for its event: a count, so that a slow machine changes no verdict.
_SNAPSHOTS: Final = 6


class ServerStory(Story):
    """Every figure is read from the server or from the device, never taken from what the story itself asked for.

    Attributes:
        has_broker: whether the story's server and jobs join a broker of its own.
    """

    has_broker: ClassVar[bool] = False
    server: FrontEnd
    cells: Cells

    def __init__(self, deadline_s: float) -> None:
        super().__init__(deadline_s)
        self.workspace = Workspace.create()
        self.environment = self.workspace.environment(private_runtime=True, broker=self.has_broker)
        self.source = SimulatedSource(self.workspace.machine)
        self.children: list[Child] = []

    def clean_up(self) -> None:
        """End what still runs, the server first so that it ends its kernels, and delete the directory."""
        for child in reversed(self.children):
            child.end()
        end_processes(self.workspace.root)
        self.source.close()
        self.workspace.remove()

    async def start_server(self, *, extension: bool = True) -> None:
        """Start the server; nothing is parked by itself unless a step says so."""
        self.workspace.configure(port=0, extension=extension, idle_timeout_s=None)
        self.server = await Server.start(
            self.workspace,
            self.environment,
            module="jupyter_server",
            deadline_s=self.deadline_s,
            started=self.children.append,
        )

    async def end_all(self) -> str:
        """End the server and everybody else, politely; fails the step unless nothing is left."""
        codes = {child: await asyncio.to_thread(child.end, self.deadline_s) for child in reversed(self.children)}
        wrong = [f"exit code {code}: {child.log_tail()}" for child, code in codes.items() if code]
        expect(not wrong, "\n".join(wrong))
        left = await asyncio.to_thread(marked_processes, self.workspace.root)
        expect(not left, f"still running: {', '.join(str(process.pid) for process in left)}")
        return "server, kernels and the other holder ended by themselves; no process is left"

    async def until(self, what: str, seen: Callable[[Snapshot], bool], *, within: int = _SNAPSHOTS) -> Snapshot:
        """The first of the next *within* snapshots in which *seen* is true; fails the step when none is."""
        states = []
        async with aclosing(self.server.snapshots()) as snapshots:
            async for snapshot in snapshots:
                if seen(snapshot):
                    return snapshot
                states.append(snapshot.state.text)
                if len(states) == within:
                    break
        raise StepError(f"{within} snapshots do not show {what}. The last says: {states[-1]}")

    def row_of(self, snapshot: Snapshot) -> KernelModel:
        """The notebook's row; fails the step when it has none."""
        row = next((row for row in snapshot.kernels if row.id == self.cells.kernel_id), None)
        if row is None:
            raise StepError(f"the notebook has no row. {snapshot.state.text}")
        return row

    async def run(self, code: str) -> str:
        """Run a cell; what it printed and showed. Its error fails the step."""
        outcome = await self.cells.run(code)
        expect(not outcome.error, f"the cell ended with {outcome.error}")
        return outcome.text

    async def stop_cell(self) -> None:
        """Interrupt the running cell, as the stop button does."""
        await self.cells.interrupt()
        outcome = await self.cells.finish()
        expect(outcome.error.startswith("KeyboardInterrupt"), f"the cell ended with {outcome.error or 'nothing'}")

    async def ask_release(self, level: str, confirm: str = "") -> Answer:
        """Ask the server to release; its answer."""
        wish = {"level": level, "kernel_id": self.cells.kernel_id, "confirm": confirm}
        return await self.server.request("POST", API + "releases", wish)

    async def release(self, level: str, *, agree: bool = False) -> str:
        """Press Release, *agree* to what the server announces, and wait for what it says of the end."""
        if not agree:  # the server may hear of a cell's end a moment after its front end
            await self.until("the cell's end", lambda seen: self.row_of(seen).busy_since is None)
        answer = await self.ask_release(level)
        if agree:
            expect(answer.code == 409, f"it is not announced: HTTP {answer.code}, {answer.message}")  # noqa: PLR2004
            answer = await self.ask_release(level, answer.body["confirm"])
        expect(answer.code == 202, f"HTTP {answer.code}, {answer.message}")  # noqa: PLR2004
        release = msgspec.convert(answer.body, ReleaseModel)
        async with aclosing(self.server.snapshots()) as snapshots:
            async for snapshot in snapshots:
                release = next((each for each in snapshot.releases if each.id == release.id), release)
                if release.status != "running":
                    break
        expect(release.status == "released", release.message.text)
        expect(level != "end_kernel" or release.loss == Loss.KERNEL_ENDED_BY_OWNER, f"its loss is {release.loss}")
        return release.message.text

    def begin_holder(self, amount: str, *, wave: bool) -> Child:
        """Start another holder on the first device."""
        holder = start_holder(self.workspace, self.environment, memory=amount, wave=wave)
        self.children.append(holder)
        return holder

    def held_by_device(self) -> dict[int, int]:
        """Bytes by pid on the first device, as the device itself says."""
        return {each.pid: each.memory.value or 0 for each in self.source.read()[0].processes or ()}
