"""One notebook that hands its GPU back and loses nothing: parked, its room lent, waiting, resumed; then by itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar, Final

from jupyter_gpushare.demo.cells import Cells
from jupyter_gpushare.demo.figures import gb, memory
from jupyter_gpushare.demo.machine import create_machine, start_holder
from jupyter_gpushare.demo.server import API
from jupyter_gpushare.demo.stories.server_story import ServerStory
from jupyter_gpushare.demo.story import expect, step
from jupyter_gpushare.devices.simulated.machine import CONTEXT_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_gpushare.demo.processes import Child
    from jupyter_gpushare.session.wire import ParkingModel, Snapshot

__all__ = ["ParkingStory"]

#: In snapshots: while bytes move they come three times a second, else about once.
_SOON: Final = 12
_MANY: Final = 25
_NOTEBOOK: Final = "tour.ipynb"
_HELD: Final = 6 * 10**9
_IDLE_S: Final = 3.0
#: What the training job leaves free: less than the notebook needs.
_TOO_LITTLE: Final = 2 * 10**9

_ALLOCATE: Final = f"""\
from jupyter_gpushare.devices.simulated import cuda
weights = cuda.allocate({_HELD})
weights.fill(7)
before = weights.checksum()"""
_COMPARE: Final = "print(weights.checksum() == before)"
_WORK_ON: Final = "import threading, time; threading.Thread(target=time.sleep, args=(600,), name='loader').start()"


class ParkingStory(ServerStory):
    """What is called parked here is what the device shows, and what is called intact is what a checksum says."""

    name: ClassVar[str] = "parking"
    title: ClassVar[str] = "an idle notebook gives its GPU back and loses nothing"
    requires: ClassVar[Mapping[str, str]] = {"ipykernel": "lab"}

    _job: Child

    @step("hold", "a notebook holds 6 GB with contents", sabotage="the cell allocates nothing")
    async def _hold(self, *, broken: bool) -> str:
        create_machine(self.workspace)
        await self.start_server()
        self.cells = await Cells.open(self.server, _NOTEBOOK)
        await self.run("before = None" if broken else _ALLOCATE)
        snapshot = await self.until("6 GB in the row", lambda seen: (self.row_of(seen).memory.value or 0) >= _HELD)
        return f"{_NOTEBOOK}: {memory(self.row_of(snapshot).memory)}. {snapshot.state.text}"

    @step("park", "Release is pressed: it is parked", sabotage="a thread of its own is at work in it")
    async def _park(self, *, broken: bool) -> str:
        if broken:
            await self.run(_WORK_ON)
        await self.release("park")
        held = await asyncio.to_thread(self.held_by_device)
        expect(not held, f"the device still shows {gb(sum(held.values()))}")
        snapshot = await self.until("the state of it", lambda seen: seen.state.code == "PARKED")
        expect(self.row_of(snapshot).execution_state == "idle", "the kernel is not alive and idle")
        return f"{snapshot.state.text} The device shows nothing of it; the kernel lives."

    @step("lend", "a training job takes the room", sabotage="it never comes")
    async def _lend(self, *, broken: bool) -> str:
        first = (await self.server.session()).devices[0]
        room = first.usable - CONTEXT_BYTES - _TOO_LITTLE
        if not broken:
            self._job = self.begin_holder(f"{room >> 20}MiB", wave=False)
        snapshot = await self.until("a job", lambda seen: (seen.devices[0].others.value or 0) >= room * 0.99)
        parked = self._parking(snapshot)
        expect(parked.status == "parked", f"the notebook is {parked.status}")
        return f"others hold {memory(snapshot.devices[0].others)} of {gb(first.usable)}; {parked.message.text}"

    @step("wait", "a cell is run: it waits for room", sabotage="the job ends at that moment")
    async def _wait(self, *, broken: bool) -> str:
        if broken:
            await asyncio.to_thread(self._job.end)
        await self.cells.send(_COMPARE)
        snapshot = await self.until("it waiting", lambda seen: self._status(seen) == "waiting")
        held = await asyncio.to_thread(self.held_by_device)
        expect(set(held) == {self._job.pid}, f"on the device: {held}")
        expect(self._parking(snapshot).held == 1, f"{self._parking(snapshot).held} cells wait")
        return snapshot.state.text

    @step("resume", "the job ends: everything is back", sabotage="the cell is interrupted while it waits")
    async def _resume(self, *, broken: bool) -> str:
        if broken:
            await self.cells.interrupt()
        await asyncio.to_thread(self._job.end)
        outcome = await self.cells.finish()
        expect(outcome.text.strip() == "True", f"the cell showed {outcome.text!r} {outcome.error}")
        snapshot = await self.until("the bytes", lambda seen: (self.row_of(seen).memory.value or 0) >= _HELD)
        return f"the cell ran; its contents are unchanged. {self._parking(snapshot).message.text}"

    @step("countdown", "idle, it is parked by itself after a warning", sabotage="Keep for 1 h is pressed")
    async def _count_down(self, *, broken: bool) -> str:
        kernel_id = self.cells.kernel_id
        if broken:
            await self.server.request("POST", API + "keep", {"seconds": 3600, "kernel_id": kernel_id})
        policy = {"idle_timeout_s": _IDLE_S}
        answer = await self.server.request("PUT", f"{API}kernels/{kernel_id}/policy", policy)
        expect(answer.code == 200, f"HTTP {answer.code}, {answer.message}")  # noqa: PLR2004
        warned = await self.until("a countdown", lambda seen: self._status(seen) == "counting_down", within=_SOON)
        snapshot = await self.until("it parked", lambda seen: self._status(seen) == "parked", within=_MANY)
        held = await asyncio.to_thread(self.held_by_device)
        expect(not held, f"the device still shows {gb(sum(held.values()))}")
        left = (self._parking(warned).parks_at or 0) - warned.at
        return f"{left:.0f} s were counted down. {self._parking(snapshot).message.text}"

    @step("wake", "the next cell brings it back", sabotage="the kernel is restarted first")
    async def _wake(self, *, broken: bool) -> str:
        if broken:
            await self.server.request("POST", f"api/kernels/{self.cells.kernel_id}/restart")
        await self.server.request("PUT", f"{API}kernels/{self.cells.kernel_id}/policy", {"reset": True})
        same = await self.run(_COMPARE)
        expect(same.strip() == "True", f"the contents changed: {same}")
        return f"contents are unchanged. {self._parking(await self.server.session()).message.text}"

    @step("magic", "%gpushare release parks it from its own cell", sabotage="the cell only frees its cache")
    async def _say_magic(self, *, broken: bool) -> str:
        said = await self.run("%gpushare release --cache" if broken else "%gpushare release")
        await self.until("it parked", lambda seen: self._status(seen) == "parked", within=_MANY)
        return said

    @step("shutdown", "everything ends", sabotage="a process is forgotten")
    async def _shut_down(self, *, broken: bool) -> str:
        if broken:
            start_holder(self.workspace, self.environment, wave=False)
        return await self.end_all()

    def _parking(self, snapshot: Snapshot) -> ParkingModel:
        parking = self.row_of(snapshot).parking
        assert parking is not None  # noqa: S101  # kernels that a server of ours started have it
        return parking

    def _status(self, snapshot: Snapshot) -> str:
        return self._parking(snapshot).status
