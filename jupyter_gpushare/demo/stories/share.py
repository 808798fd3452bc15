"""A notebook and training on one GPU: while the notebook idles its share trains, and its next cell has it back."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING, ClassVar, Final

from jupyter_gpushare.demo.broker import DemoBroker, two_projects
from jupyter_gpushare.demo.cells import Cells
from jupyter_gpushare.demo.jobs import Job, steps_per_s
from jupyter_gpushare.demo.machine import create_machine, start_holder
from jupyter_gpushare.demo.server import API
from jupyter_gpushare.demo.stories.training_story import TrainingStory, lease_of
from jupyter_gpushare.demo.story import expect, step
from jupyter_gpushare.demo.workspace import NOTEBOOKS
from jupyter_gpushare.devices.simulated.machine import DeviceSpec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_gpushare.session.wire import Snapshot

__all__ = ["ALLOCATE", "COMPARE", "COUNTED_S", "DOUBLED", "HELD", "MANY", "UNCHANGED", "ShareStory"]

_NOTEBOOK: Final = "tour.ipynb"
HELD: Final = 4 * 10**9
_IDLE_S: Final = 3.0
COUNTED_S: Final = 3.0
_POLL_S: Final = 0.02
MANY: Final = 25
#: A second job doubles what training gets done; a machine that is busy with other things gives a little less.
DOUBLED: Final = 1.6
UNCHANGED: Final = 1.4
#: How ``run`` ends on SIGTERM, as a shell says it.
_TERMINATED: Final = 128 + signal.SIGTERM

ALLOCATE: Final = f"""\
from jupyter_gpushare.devices.simulated import cuda
weights = cuda.allocate({HELD})
weights.fill(7)
before = weights.checksum()"""
COMPARE: Final = "print(weights.checksum() == before)"


class ShareStory(TrainingStory):
    """Real processes throughout: a broker, a Jupyter server, and two ``jupyter gpushare run`` jobs."""

    name: ClassVar[str] = "share"
    title: ClassVar[str] = "while a notebook idles its half of the GPU trains, and its next cell has it back"
    requires: ClassVar[Mapping[str, str]] = {"ipykernel": "demo", "numpy": "demo"}
    has_broker: ClassVar[bool] = True

    devices: ClassVar[Sequence[DeviceSpec]] = (DeviceSpec(),)
    _first: Job
    _second: Job

    @step("broker", "a broker gives a notebook server half of the one GPU", sabotage="the server does without a broker")
    async def _join(self, *, broken: bool) -> str:
        create_machine(self.workspace, self.devices)
        await self.start_broker()
        if broken:
            self.environment = self.workspace.environment(private_runtime=True)
        await self.start_server()
        snapshot = await self.until("a lease and its device", _has_share)
        self.cells = await Cells.open(self.server, _NOTEBOOK)
        return f"{lease_of(snapshot).message.text} It lies on {snapshot.devices[0].name}."

    @step("train", "a job trains on the other half", sabotage="its program ends after one step")
    async def _train(self, *, broken: bool) -> str:
        self._first = self.start_job("sweep-1", program=["--steps", "1"] if broken else [])
        await self.until_job("its first steps", lambda: self._first.steps > 0)
        rate = self.figures["steps_per_s_before"] = self._rate_alone = await steps_per_s([self._first], COUNTED_S)
        expect(rate > 0, f"it makes no steps: {self._first.child.log_tail()}")
        return f"sweep-1 makes {rate:.1f} steps a second"

    @step("wait", "the notebook holds 4 GB; a second job has to wait", sabotage="the first job ends")
    async def _wait(self, *, broken: bool) -> str:
        await self.run(ALLOCATE)
        if broken:
            await asyncio.to_thread(self._first.child.end)
        self._second = self.start_job("sweep-2")
        lease = await self.until_lease("sweep-2", "its lease", lambda lease: lease.status != "granted")
        expect(lease.status == "queued", f"it is {lease.status}")
        expect(lease.reason is not None, "nobody says why")
        return f"sweep-2 is number {lease.place} in line: {'' if lease.reason is None else lease.reason.text}"

    @step("lend", "the notebook is idle for 3 s: training has its half", sabotage="Keep for 1 h is pressed")
    async def _lend(self, *, broken: bool) -> str:
        if broken:
            wish = {"seconds": 3600, "kernel_id": self.cells.kernel_id}
            await self.server.request("POST", API + "keep", wish)
        await self.set_idle_timeout(_IDLE_S)
        snapshot = await self.until("a countdown", lambda seen: self.parks_at(seen) is not None, within=MANY)
        timeout = self.parks_at(snapshot) or 0.0
        await self.until_job("the second job's first step", lambda: self._second.steps > 0)
        took = self.figures["timeout_to_training_s"] = time.time() - timeout
        snapshot = await self.until("who uses it", lambda seen: seen.lease is not None and bool(seen.lease.lent_to))
        return f"{took:.1f} s after the timeout sweep-2 made its first step. {lease_of(snapshot).message.text}"

    @step("double", "training gets twice as much done", sabotage="the second job is stopped")
    async def _double(self, *, broken: bool) -> str:
        if broken:
            await asyncio.to_thread(self._second.child.end)
        rate = self.figures["steps_per_s_during"] = await steps_per_s([self._first, self._second], COUNTED_S)
        told = f"{rate:.1f} steps a second instead of {self._rate_alone:.1f}"
        expect(rate >= DOUBLED * self._rate_alone, told)
        return told

    @step("call-back", "a cell is run: training leaves, and nothing is lost", sabotage="the kernel is restarted first")
    async def _call_back(self, *, broken: bool) -> str:
        if broken:
            await self.server.request("POST", f"api/kernels/{self.cells.kernel_id}/restart")
        began = time.monotonic()
        same = await self.run(COMPARE)
        took = self.figures["cell_to_result_s"] = time.monotonic() - began
        expect(same.strip() == "True", f"the contents changed: {same}")
        await self.set_idle_timeout(None)
        lease = await self.until_lease("sweep-2", "it gone", lambda lease: lease.status in ("parked", "queued"))
        held = await asyncio.to_thread(self.held_by_device)
        expect(len(held) == 2, f"on the device are {len(held)} processes instead of the notebook and one job")  # noqa: PLR2004
        return f"the cell's result came after {took:.1f} s, its contents unchanged; sweep-2 is {lease.status}"

    @step("after", "training goes on with what is its own", sabotage="Release is pressed meanwhile")
    async def _go_on(self, *, broken: bool) -> str:
        if broken:
            await self.release("park")
            await self.until_lease("sweep-2", "it again", lambda lease: lease.status == "running")
        rate = self.figures["steps_per_s_after"] = await steps_per_s([self._first, self._second], COUNTED_S)
        expect(0 < rate < UNCHANGED * self._rate_alone, f"{rate:.1f} steps a second, before {self._rate_alone:.1f}")
        return f"{rate:.1f} steps a second, as before"

    @step("again", "Release: the second job goes on where it was", sabotage="the job was started anew meanwhile")
    async def _lend_again(self, *, broken: bool) -> str:
        if broken:
            await asyncio.to_thread(self._second.child.end)
            (self.workspace.root / "sweep-2.npz").unlink(missing_ok=True)
            self._second = self.start_job("sweep-2")
        done = self._second.steps
        await self.release("park")
        began = time.monotonic()
        await self.until_job("its next step", lambda: self._second.steps > done)
        took, made = time.monotonic() - began, self._second.made()
        expect(made == list(range(len(made))), f"it goes on with step {made[done]} after step {made[done - 1]}")
        return f"after {took:.1f} s it goes on with step {done}; no step is missing, none came twice"

    @step("shutdown", "everything ends", sabotage="a process is forgotten")
    async def _shut_down(self, *, broken: bool) -> str:
        for job in (self._second, self._first):
            code = await asyncio.to_thread(job.child.end, self.deadline_s)
            self.children.remove(job.child)
            expect(code == _TERMINATED, f"{job.name} ended with code {code}: {job.child.log_tail()}")
        leases = await self.broker.leases()
        expect([lease.project for lease in leases] == [NOTEBOOKS], f"leases that are left: {leases}")
        if broken:
            start_holder(self.workspace, self.environment, wave=False)
        return await self.end_all()

    async def start_broker(self) -> None:
        """One half of a GPU for notebooks and one for training."""
        self.broker = await DemoBroker.start(
            self.workspace,
            self.environment,
            two_projects(training="0.5"),
            deadline_s=self.deadline_s,
            started=self.children.append,
        )


def _has_share(snapshot: Snapshot) -> bool:
    return snapshot.lease is not None and snapshot.lease.status == "running" and bool(snapshot.devices)
