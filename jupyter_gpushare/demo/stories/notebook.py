"""One notebook on one machine: it takes GPU memory, computes beside a neighbour, and gives it all back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar, Final

from jupyter_gpushare.demo.cells import Cells
from jupyter_gpushare.demo.figures import gb, memory, utilisation
from jupyter_gpushare.demo.machine import create_machine, start_holder
from jupyter_gpushare.demo.stories.server_story import ServerStory
from jupyter_gpushare.demo.story import expect, step
from jupyter_gpushare.demo.workspace import SHARE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_gpushare.demo.processes import Child

__all__ = ["NotebookStory"]

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


class NotebookStory(ServerStory):
    """Take, compute, give back: everything but parking, which has a story of its own."""

    name: ClassVar[str] = "notebook"
    title: ClassVar[str] = "a notebook takes half a GPU, computes, and gives it back"
    requires: ClassVar[Mapping[str, str]] = {"ipykernel": "lab"}

    _neighbour: Child

    @step("machine", "a machine with two simulated GPUs is switched on", sabotage="it is not switched on")
    async def _switch_on(self, *, broken: bool) -> str:
        if not broken:
            create_machine(self.workspace)
        devices = await asyncio.to_thread(self.source.devices)
        expect(len(devices) == 2, f"the machine shows {len(devices)} devices instead of two")  # noqa: PLR2004
        return "; ".join(f"{each.name}, {each.usable.human} usable" for each in devices)

    @step("server", "a Jupyter server starts with half a GPU", sabotage="it starts without our extension")
    async def _start_server(self, *, broken: bool) -> str:
        await self.start_server(extension=not broken)
        session = await self.server.session()
        expect(session.share.text == SHARE, f"the session's share is {session.share.text} instead of {SHARE}")
        half = session.devices[0].usable // 2
        expect(session.share.request == half, f"the share is {session.share.request} bytes instead of {half}")
        return f"{session.share.description}: {gb(half)} of {session.devices[0].name}. {session.state.text}"

    @step("kernel", "a notebook starts its kernel", sabotage="the kernel is killed as it starts")
    async def _start_kernel(self, *, broken: bool) -> str:
        self.cells = await Cells.open(self.server, _NOTEBOOK)
        if broken:
            await self.server.request("DELETE", f"api/kernels/{self.cells.kernel_id}")
        row = self.row_of(await self.server.session())
        expect(row.path == _NOTEBOOK, f"the row is called {row.path!r}")
        expect(row.memory.value == 0, f"the row shows {memory(row.memory)} {row.memory.reason}")
        return f"{row.path} has a row; it holds {memory(row.memory)}"

    @step("allocate", "its cell allocates 6 GB and fills them", sabotage="the cell allocates nothing")
    async def _allocate(self, *, broken: bool) -> str:
        await self.run("before = None" if broken else _ALLOCATE)
        held, asked = await asyncio.to_thread(self.held_by_device), _KEPT + _CACHED
        expect(sum(held.values()) >= asked, f"the device shows {gb(sum(held.values()))} held instead of {gb(asked)}")
        return f"the device shows {gb(sum(held.values()))}, the process's context included"

    @step("row", "the notebook's row shows these bytes", sabotage="a process outside the notebook holds them instead")
    async def _compare_row(self, *, broken: bool) -> str:
        if broken:
            await self.run("del weights, batch; cuda.empty_cache()")
            self.begin_holder("6GiB", wave=False)
        asked = _KEPT + _CACHED
        snapshot = await self.until("6 GB in the row", lambda seen: (self.row_of(seen).memory.value or 0) >= asked)
        row, held = self.row_of(snapshot), await asyncio.to_thread(self.held_by_device)
        expect(row.memory.value == sum(held.values()), f"row {row.memory.value} bytes, device {sum(held.values())}")
        return f"{row.path}: {memory(row.memory)}, {row.memory.value} bytes, as the device says"

    @step("neighbour", "another holder comes to the same GPU and moves", sabotage="it never comes")
    async def _meet_neighbour(self, *, broken: bool) -> str:
        if not broken:
            self._neighbour = self.begin_holder("8GiB", wave=True)
        before = self.row_of(await self.server.session()).memory.value
        snapshot = await self.until("another holder", lambda seen: bool(seen.devices[0].other_holders))
        first = snapshot.devices[0].others.value
        snapshot = await self.until("the other moving", lambda seen: seen.devices[0].others.value != first)
        row, others = self.row_of(snapshot), snapshot.devices[0].others
        expect(row.memory.value == before, f"our row changed to {memory(row.memory)}")
        return f"others moved from {gb(first or 0)} to {memory(others)}; our row stayed at {memory(row.memory)}"

    @step("compute", "its cell computes", sabotage="the cell sleeps instead")
    async def _compute(self, *, broken: bool) -> str:
        await self.cells.begin("import time; time.sleep(600)" if broken else _COMPUTE)
        snapshot = await self.until("compute in the row", lambda seen: (self.row_of(seen).utilisation.value or 0) > 0)
        row = self.row_of(snapshot)
        await self.stop_cell()
        return f"{utilisation(row.utilisation)} of the device's time. {snapshot.state.text}"

    @step("magic", "%gpushare answers in the notebook", sabotage="the kernel's token is exchanged for another")
    async def _ask_magic(self, *, broken: bool) -> str:
        if broken:
            await self.run("import os; os.environ['GPUSHARE_KERNEL_TOKEN'] = 'of-another-kernel'")
        shown = await self.run("%gpushare")
        held = memory(self.row_of(await self.server.session()).memory)
        expect(held in shown, f"%gpushare does not tell of {held}: {shown}")
        return shown

    @step("free-cache", "freed memory is given back, variables stay", sabotage="Release is not pressed")
    async def _free_cache(self, *, broken: bool) -> str:
        await self.run("del batch")
        before = self.row_of(await self.server.session()).memory.value or 0
        said = "nobody pressed Release" if broken else await self.release("free_cache")
        gone = f"less than {gb(before)} in the row ({said})"
        snapshot = await self.until(gone, lambda seen: before - (self.row_of(seen).memory.value or 0) >= _CACHED)
        same = await self.run("print(weights.checksum() == before)")
        expect(same.strip() == "True", f"the kept variable's contents changed: {same}")
        return f"{said} Row: {gb(before)} → {memory(self.row_of(snapshot).memory)}; kept contents are unchanged"

    @step("busy-refusal", "a busy kernel is not ended without a word", sabotage="its cell has been interrupted before")
    async def _refuse_busy(self, *, broken: bool) -> str:
        await self.cells.begin(_COMPUTE)
        # The page hears of a cell's begin a moment before the server has read what runs.
        await self.until("the cell in the row", lambda seen: bool(self.row_of(seen).running))
        if broken:
            await self.stop_cell()
        answer = await self.ask_release("end_kernel")
        expect(answer.code == 409, f"the server did not refuse: HTTP {answer.code}, {answer.message}")  # noqa: PLR2004
        expect(_COMPUTE in answer.message, f"it does not say what runs: {answer.message}")
        expect(bool(answer.body["confirm"]), "nobody could agree to it")
        row = self.row_of(await self.server.session())
        expect(row.execution_state == "busy", f"the kernel is {row.execution_state} afterwards")
        return f"HTTP 409: {answer.message}"

    @step("end-kernel", "confirmed, the kernel is ended", sabotage="a process that the notebook started keeps memory")
    async def _end_kernel(self, *, broken: bool) -> str:
        if broken:
            await self.stop_cell()
            await self.run(_START_CHILD)
            await self.until("the child", lambda seen: self.row_of(seen).processes > 1)
        said = await self.release("end_kernel", agree=True)
        answer = await self.server.request("GET", "api/kernels")
        expect(self.cells.kernel_id not in [kernel["id"] for kernel in answer.body], "the kernel still lives")
        return said

    @step("attested", "the device shows it gone", sabotage="a stranger takes the memory meanwhile")
    async def _attest(self, *, broken: bool) -> str:
        if broken:
            self.begin_holder("1GiB", wave=False)
            await self.until("the stranger", lambda seen: seen.devices[0].other_holders == 2)  # noqa: PLR2004
        held = await asyncio.to_thread(self.held_by_device)
        del held[self._neighbour.pid]
        expect(not held, f"still on the device: {', '.join(f'pid {pid} {gb(size)}' for pid, size in held.items())}")
        session = await self.server.session()
        expect(session.memory.value == 0, f"the session still shows {memory(session.memory)}")
        return f"only the other holder is on the device; the session holds {memory(session.memory)}"

    @step("shutdown", "everything ends", sabotage="a process is forgotten")
    async def _shut_down(self, *, broken: bool) -> str:
        if broken:
            start_holder(self.workspace, self.environment, wave=False)
        return await self.end_all()
