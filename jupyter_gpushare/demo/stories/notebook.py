"""One notebook on one machine: it takes GPU memory, computes beside a neighbour, and gives it all back."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from jupyter_gpushare.demo.cells import Cells
from jupyter_gpushare.demo.figures import gb, memory, utilisation
from jupyter_gpushare.demo.machine import create_machine, start_holder
from jupyter_gpushare.demo.processes import end_processes, marked_processes
from jupyter_gpushare.demo.server import API, Server
from jupyter_gpushare.demo.story import StepError, Story, expect, step
from jupyter_gpushare.demo.workspace import SHARE, Workspace
from jupyter_gpushare.devices.simulated.source import SimulatedSource
from jupyter_gpushare.rules.loss import Loss
from jupyter_gpushare.session.wire import KernelModel, ReleaseModel, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_gpushare.demo.processes import Child
    from jupyter_gpushare.demo.server import Answer

__all__ = ["NotebookStory"]

#: How many snapshots a step looks through for its event: a count, so that a slow machine changes no verdict.
_SNAPSHOTS: Final = 6
_NOTEBOOK: Final = "tour.ipynb"
_KEPT: Final = 2 * 10**9
_CACHED: Final = 4 * 10**9

_ALLOCATE: Final = f"""\
from jupyter_gpushare.devices.simulated import cuda
weights, batch = cuda.allocate({_KEPT}), cuda.allocate({_CACHED})
weights.fill(7)
batch.fill(8)
before = weights.checksum()"""
_COMPUTE: Final = "from jupyter_gpushare.devices.simulated import cuda; cuda.compute(80, 600)"
_START_CHILD: Final = """\
import subprocess, sys
holder = [sys.executable, "-m", "jupyter_gpushare.devices.simulated.holder", "--memory", "1GiB"]
subprocess.Popen(holder, start_new_session=True)"""


class NotebookStory(Story):
    """Every figure is read from the server or from the device, never taken from what the story itself asked for."""

    name: ClassVar[str] = "notebook"
    title: ClassVar[str] = "a notebook takes half a GPU, computes, and gives it back"
    requires: ClassVar[Mapping[str, str]] = {"ipykernel": "lab"}

    _server: Server
    _cells: Cells
    _neighbour: Child

    def __init__(self, deadline_s: float) -> None:
        super().__init__(deadline_s)
        self._workspace = Workspace.create()
        self._environment = self._workspace.environment(private_runtime=True)
        self._source = SimulatedSource(self._workspace.machine)
        self._children: list[Child] = []

    def clean_up(self) -> None:
        """End what still runs, the server first so that it ends its kernels, and delete the directory."""
        for child in reversed(self._children):
            child.end()
        end_processes(self._workspace.root)
        self._source.close()
        self._workspace.remove()

    @step("machine", "a machine with two simulated GPUs is switched on", sabotage="it is not switched on")
    async def _switch_on(self, *, broken: bool) -> str:
        if not broken:
            create_machine(self._workspace)
        devices = await asyncio.to_thread(self._source.devices)
        expect(len(devices) == 2, f"the machine shows {len(devices)} devices instead of two")  # noqa: PLR2004
        return "; ".join(f"{each.name}, {each.usable.human} usable" for each in devices)

    @step("server", "a Jupyter server starts with half a GPU", sabotage="it starts without our extension")
    async def _start_server(self, *, broken: bool) -> str:
        self._workspace.configure(port=0, extension=not broken)
        self._server = await Server.start(
            self._workspace,
            self._environment,
            module="jupyter_server",
            deadline_s=self.deadline_s,
            started=self._children.append,
        )
        session = await self._server.session()
        expect(session.share.text == SHARE, f"the session's share is {session.share.text} instead of {SHARE}")
        half = session.devices[0].usable // 2
        expect(session.share.request == half, f"the share is {session.share.request} bytes instead of {half}")
        return f"{session.share.description}: {gb(half)} of {session.devices[0].name}. {session.state.text}"

    @step("kernel", "a notebook starts its kernel", sabotage="the kernel is killed as it starts")
    async def _start_kernel(self, *, broken: bool) -> str:
        self._cells = await Cells.open(self._server, _NOTEBOOK)
        if broken:
            await self._server.request("DELETE", f"api/kernels/{self._cells.kernel_id}")
        row = self._row(await self._server.session())
        expect(row.path == _NOTEBOOK, f"the row is called {row.path!r}")
        expect(row.memory.value == 0, f"the row shows {memory(row.memory)} {row.memory.reason}")
        return f"{row.path} has a row; it holds {memory(row.memory)}"

    @step("allocate", "its cell allocates 6 GB and fills them", sabotage="the cell allocates nothing")
    async def _allocate(self, *, broken: bool) -> str:
        await self._run("before = None" if broken else _ALLOCATE)
        held, asked = await asyncio.to_thread(self._held_by_device), _KEPT + _CACHED
        expect(sum(held.values()) >= asked, f"the device shows {gb(sum(held.values()))} held instead of {gb(asked)}")
        return f"the device shows {gb(sum(held.values()))}, the process's context included"

    @step("row", "the notebook's row shows these bytes", sabotage="a process outside the notebook holds them instead")
    async def _compare_row(self, *, broken: bool) -> str:
        if broken:
            await self._run("del weights, batch; cuda.empty_cache()")
            self._start_holder("6GiB", wave=False)
        asked = _KEPT + _CACHED
        snapshot = await self._until("6 GB in the row", lambda seen: (self._row(seen).memory.value or 0) >= asked)
        row, held = self._row(snapshot), await asyncio.to_thread(self._held_by_device)
        expect(row.memory.value == sum(held.values()), f"row {row.memory.value} bytes, device {sum(held.values())}")
        return f"{row.path}: {memory(row.memory)}, {row.memory.value} bytes, as the device says"

    @step("neighbour", "another holder comes to the same GPU and moves", sabotage="it never comes")
    async def _meet_neighbour(self, *, broken: bool) -> str:
        if not broken:
            self._neighbour = self._start_holder("8GiB", wave=True)
        before = self._row(await self._server.session()).memory.value
        snapshot = await self._until("another holder", lambda seen: bool(seen.devices[0].other_holders))
        first = snapshot.devices[0].others.value
        snapshot = await self._until("the other moving", lambda seen: seen.devices[0].others.value != first)
        row, others = self._row(snapshot), snapshot.devices[0].others
        expect(row.memory.value == before, f"our row changed to {memory(row.memory)}")
        return f"others moved from {gb(first or 0)} to {memory(others)}; our row stayed at {memory(row.memory)}"

    @step("compute", "its cell computes", sabotage="the cell sleeps instead")
    async def _compute(self, *, broken: bool) -> str:
        await self._cells.begin("import time; time.sleep(600)" if broken else _COMPUTE)
        snapshot = await self._until("compute in the row", lambda seen: (self._row(seen).utilisation.value or 0) > 0)
        row = self._row(snapshot)
        await self._stop_cell()
        return f"{utilisation(row.utilisation)} of the device's time. {snapshot.state.text}"

    @step("magic", "%gpushare answers in the notebook", sabotage="the kernel's token is exchanged for another")
    async def _ask_magic(self, *, broken: bool) -> str:
        if broken:
            await self._run("import os; os.environ['GPUSHARE_KERNEL_TOKEN'] = 'of-another-kernel'")
        shown = await self._run("%gpushare")
        held = memory(self._row(await self._server.session()).memory)
        expect(held in shown, f"%gpushare does not tell of {held}: {shown}")
        return shown

    @step("free-cache", "freed memory is given back, variables stay", sabotage="Release is not pressed")
    async def _free_cache(self, *, broken: bool) -> str:
        await self._run("del batch")
        before = self._row(await self._server.session()).memory.value or 0
        said = "nobody pressed Release" if broken else await self._release("free_cache")
        gone = f"less than {gb(before)} in the row ({said})"
        snapshot = await self._until(gone, lambda seen: before - (self._row(seen).memory.value or 0) >= _CACHED)
        same = await self._run("print(weights.checksum() == before)")
        expect(same.strip() == "True", f"the kept variable's contents changed: {same}")
        return f"{said} Row: {gb(before)} → {memory(self._row(snapshot).memory)}; kept contents are unchanged"

    @step("busy-refusal", "a busy kernel is not ended without a word", sabotage="its cell has been interrupted before")
    async def _refuse_busy(self, *, broken: bool) -> str:
        await self._cells.begin(_COMPUTE)
        if broken:
            await self._stop_cell()
        answer = await self._ask_release("end_kernel")
        expect(answer.code == 409, f"the server did not refuse: HTTP {answer.code}, {answer.message}")  # noqa: PLR2004
        expect(_COMPUTE in answer.message, f"it does not say what runs: {answer.message}")
        expect(bool(answer.body["confirm"]), "nobody could agree to it")
        row = self._row(await self._server.session())
        expect(row.execution_state == "busy", f"the kernel is {row.execution_state} afterwards")
        return f"HTTP 409: {answer.message}"

    @step("end-kernel", "confirmed, the kernel is ended", sabotage="a process that the notebook started keeps memory")
    async def _end_kernel(self, *, broken: bool) -> str:
        if broken:
            await self._stop_cell()
            await self._run(_START_CHILD)
            await self._until("the child", lambda seen: self._row(seen).processes > 1)
        said = await self._release("end_kernel", agree=True)
        answer = await self._server.request("GET", "api/kernels")
        expect(self._cells.kernel_id not in [kernel["id"] for kernel in answer.body], "the kernel still lives")
        return said

    @step("attested", "the device shows it gone", sabotage="a stranger takes the memory meanwhile")
    async def _attest(self, *, broken: bool) -> str:
        if broken:
            self._start_holder("1GiB", wave=False)
            await self._until("the stranger", lambda seen: seen.devices[0].other_holders == 2)  # noqa: PLR2004
        held = await asyncio.to_thread(self._held_by_device)
        del held[self._neighbour.pid]
        expect(not held, f"still on the device: {', '.join(f'pid {pid} {gb(size)}' for pid, size in held.items())}")
        session = await self._server.session()
        expect(session.memory.value == 0, f"the session still shows {memory(session.memory)}")
        return f"only the other holder is on the device; the session holds {memory(session.memory)}"

    @step("shutdown", "everything ends", sabotage="a process is forgotten")
    async def _shut_down(self, *, broken: bool) -> str:
        if broken:
            start_holder(self._workspace, self._environment, wave=False)
        codes = [await asyncio.to_thread(child.end, self.deadline_s) for child in reversed(self._children)]
        expect(not any(codes), f"exit codes {codes}: {self._server.child.log_tail()}")
        left = await asyncio.to_thread(marked_processes, self._workspace.root)
        expect(not left, f"still running: {', '.join(str(process.pid) for process in left)}")
        return "server, kernels and the other holder ended by themselves; no process is left"

    async def _until(self, what: str, seen: Callable[[Snapshot], bool]) -> Snapshot:
        """The first of the next snapshots in which *seen* is true; fails the step when none is."""
        states = []
        async with aclosing(self._server.snapshots()) as snapshots:
            async for snapshot in snapshots:
                if seen(snapshot):
                    return snapshot
                states.append(snapshot.state.text)
                if len(states) == _SNAPSHOTS:
                    break
        raise StepError(f"{_SNAPSHOTS} snapshots do not show {what}. The last says: {states[-1]}")

    def _row(self, snapshot: Snapshot) -> KernelModel:
        row = next((row for row in snapshot.kernels if row.id == self._cells.kernel_id), None)
        if row is None:
            raise StepError(f"the notebook has no row. {snapshot.state.text}")
        return row

    async def _run(self, code: str) -> str:
        """Run a cell; what it printed and showed. Its error fails the step."""
        outcome = await self._cells.run(code)
        expect(not outcome.error, f"the cell ended with {outcome.error}")
        return outcome.text

    async def _stop_cell(self) -> None:
        await self._cells.interrupt()
        outcome = await self._cells.finish()
        expect(outcome.error.startswith("KeyboardInterrupt"), f"the cell ended with {outcome.error or 'nothing'}")

    async def _ask_release(self, level: str, confirm: str = "") -> Answer:
        wish = {"level": level, "kernel_id": self._cells.kernel_id, "confirm": confirm}
        return await self._server.request("POST", API + "releases", wish)

    async def _release(self, level: str, *, agree: bool = False) -> str:
        """Press Release, *agree* to what the server announces, and wait for what it says of the end."""
        answer = await self._ask_release(level)
        if agree:
            expect(answer.code == 409, f"it is not announced: HTTP {answer.code}, {answer.message}")  # noqa: PLR2004
            answer = await self._ask_release(level, answer.body["confirm"])
        expect(answer.code == 202, f"HTTP {answer.code}, {answer.message}")  # noqa: PLR2004
        release = msgspec.convert(answer.body, ReleaseModel)
        async with aclosing(self._server.snapshots()) as snapshots:
            async for snapshot in snapshots:
                release = next((each for each in snapshot.releases if each.id == release.id), release)
                if release.status != "running":
                    break
        expect(release.status == "released", release.message.text)
        expect(level != "end_kernel" or release.loss == Loss.KERNEL_ENDED_BY_OWNER, f"its loss is {release.loss}")
        return release.message.text

    def _start_holder(self, amount: str, *, wave: bool) -> Child:
        holder = start_holder(self._workspace, self._environment, memory=amount, wave=wave)
        self._children.append(holder)
        return holder

    def _held_by_device(self) -> dict[int, int]:
        """Bytes by pid on the first device, as the device itself says."""
        return {each.pid: each.memory.value or 0 for each in self._source.read()[0].processes or ()}
