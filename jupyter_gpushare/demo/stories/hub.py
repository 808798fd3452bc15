"""A JupyterHub with one GPU: a share is picked, training makes room, has it while its owner idles, gives it back."""

from __future__ import annotations

import asyncio
import re
import time
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from jupyter_gpushare.demo.cells import Cells
from jupyter_gpushare.demo.jobs import Job, steps_per_s
from jupyter_gpushare.demo.machine import create_machine, start_holder
from jupyter_gpushare.demo.stories.share import ALLOCATE, COMPARE, COUNTED_S, DOUBLED, HELD, MANY, UNCHANGED
from jupyter_gpushare.demo.stories.training_story import TrainingStory, lease_of
from jupyter_gpushare.demo.story import expect, step
from jupyter_gpushare.devices.simulated.machine import DeviceSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_gpushare.demo.hub.running import DemoHub
    from jupyter_gpushare.demo.hub.visitor import Visitor

__all__ = ["HubStory"]

_NOTEBOOK: Final = "secret-plans.ipynb"
_IDLE_S: Final = 3.0
_HALF: Final = "0.5"


class HubStory(TrainingStory):
    """Real throughout: JupyterHub, its proxy, our service in it, people's servers; browsers here have no scripts."""

    name: ClassVar[str] = "hub"
    title: ClassVar[str] = "a share picked on a JupyterHub trains while its owner idles, and comes back"
    requires: ClassVar[Mapping[str, str]] = {
        "jupyterhub": "hub",
        "httpx": "demo",
        "ipykernel": "demo",
        "jupyterlab": "demo",
        "numpy": "demo",
    }

    hub: DemoHub
    _ana: Visitor
    _bo: Visitor
    _admin: Visitor
    _jobs: tuple[Job, Job]

    @step("hub", "a JupyterHub with one GPU starts", sabotage="it starts without us")
    async def _start_hub(self, *, broken: bool) -> str:
        from jupyter_gpushare.demo.hub.running import DemoHub
        from jupyter_gpushare.demo.hub.staging import ADMIN, ANA, BO, broker_of, plan_of, two_teams

        create_machine(self.workspace, [DeviceSpec()])
        plan = plan_of(self.workspace, self.environment, two_teams(_HALF), idle_timeout_s=None)
        began = time.monotonic()
        self.hub = await DemoHub.start(
            msgspec.structs.replace(plan, setup=None) if broken else plan,
            self.environment,
            self.workspace.root / "hub",
            deadline_s=self.deadline_s,
            started=self.children.append,
        )
        took = self.figures["hub_up_s"] = time.monotonic() - began
        self._ana, self._bo, self._admin = [await self.hub.sign_in(name) for name in (ANA, BO, ADMIN)]
        form = await self._ana.spawn_page()
        expect(_HALF in form.choices.get("share", []), f"the spawn page offers no share: {form.text[:300]}")
        expect("simulated" in form.text.lower(), "the spawn page does not say that the GPU is simulated")
        self.broker = await broker_of(self.hub, self._admin)
        return f"after {took:.1f} s ana is offered {', '.join(form.choices['share'])}"

    @step("train", "bo's two jobs train on all of it", sabotage="one of them ends after a step")
    async def _train(self, *, broken: bool) -> str:
        second = self.start_job("sweep-2", project="team-b", program=["--steps", "1"] if broken else [])
        first = self.start_job("sweep-1", project="team-b")
        self._jobs = first, second
        await self.until_job("their second steps", lambda: all(job.steps > 1 for job in self._jobs))
        leases = [await self.broker.lease(job.name) for job in self._jobs]
        expect(all(lease and lease.status == "running" for lease in leases), "not both of them run")
        return "sweep-1 and sweep-2 have half of the GPU each; team-b's quota is a half"

    @step("pick", "ana picks half of it: training makes room", sabotage="she picks no GPU")
    async def _pick(self, *, broken: bool) -> str:
        began = time.monotonic()
        waited = await self._ana.spawn("none" if broken else _HALF)
        took = self.figures["pick_to_ready_s"] = time.monotonic() - began
        self.server = self._ana.front_end()
        snapshot = await self.until("her lease", lambda seen: seen.lease is not None and bool(seen.devices))
        lease = lease_of(snapshot)
        expect(snapshot.share.text == _HALF, f"her share is {snapshot.share.text}")
        left = [job.name for job in self._jobs if (await self._status(job)) not in ("running", "resuming")]
        expect(len(left) == 1, f"{', '.join(left) or 'no job'} made room")
        self._alone, self._waits = sorted(self._jobs, key=lambda job: job.name in left)
        line = f" (she was told to wait for {waited:.1f} s)" if waited else ""
        return f"her server is ready after {took:.1f} s{line}. {lease.message.text} {left[0]} made room."

    @step("refuse", "bo picks a whole GPU: more than his team has", sabotage="he picks none at all")
    async def _refuse(self, *, broken: bool) -> str:
        form = await self._bo.spawn_page()
        answer = await self._bo.submit(form, share="none" if broken else "1")
        from jupyter_gpushare.demo.hub.visitor import Form

        said = re.search(r"Error: (.*?) How much GPU", Form(answer.text).text)
        expect(said is not None and "quota" in said[1], f"HTTP {answer.status_code} and no word of a quota")
        expect(await self._bo.server() is None, "his server starts all the same")
        leases = [lease.name for lease in await self.broker.leases() if lease.kind == "interactive"]
        expect(len(leases) == 1, f"sessions' leases that are left: {', '.join(leases)}")
        return "" if said is None else f"HTTP {answer.status_code}: {said[1]}"

    @step("hold", "ana's notebook takes 4 GB", sabotage="the cell allocates nothing")
    async def _hold(self, *, broken: bool) -> str:
        self.cells = await Cells.open(self.server, _NOTEBOOK)
        await self.run("before = None" if broken else ALLOCATE)
        snapshot = await self.until("4 GB in the row", lambda seen: (self.row_of(seen).memory.value or 0) >= HELD)
        rate = self.figures["steps_per_s_before"] = self._rate = await steps_per_s(self._jobs, COUNTED_S)
        return f"{snapshot.state.text} Training makes {rate:.1f} steps a second."

    @step("lend", "it is idle for 3 s: training has its half", sabotage="Keep for 1 h is pressed")
    async def _lend(self, *, broken: bool) -> str:
        if broken:
            wish = {"seconds": 3600, "kernel_id": self.cells.kernel_id}
            await self.server.request("POST", "gpushare/api/v1/keep", wish)
        await self.set_idle_timeout(_IDLE_S)
        snapshot = await self.until("a countdown", lambda seen: self.parks_at(seen) is not None, within=MANY)
        timeout, done = self.parks_at(snapshot) or 0.0, self._waits.steps
        await self.until_job("a step of the job that waits", lambda: self._waits.steps > done)
        took = self.figures["timeout_to_training_s"] = time.time() - timeout
        snapshot = await self.until("who uses it", lambda seen: seen.lease is not None and bool(seen.lease.lent_to))
        return f"{took:.1f} s after the timeout {self._waits.name} made a step. {lease_of(snapshot).message.text}"

    @step("double", "training gets twice as much done", sabotage="the job on the loan is stopped")
    async def _double(self, *, broken: bool) -> str:
        if broken:
            await asyncio.to_thread(self._waits.child.end)
        rate = self.figures["steps_per_s_during"] = await steps_per_s(self._jobs, COUNTED_S)
        told = f"{rate:.1f} steps a second instead of {self._rate:.1f}"
        expect(rate >= DOUBLED * self._rate, told)
        return told

    @step("pages", "the hub's pages show it, and no names to others", sabotage="bo looks with the admin's eyes")
    async def _look(self, *, broken: bool) -> str:
        from jupyter_gpushare.demo.hub.running import SERVICE
        from jupyter_gpushare.demo.hub.visitor import Form

        began = time.monotonic()
        seen = await (self._admin if broken else self._bo).page(f"{SERVICE}overview")
        took = self.figures["overview_s"] = time.monotonic() - began
        text = Form(seen.text).text
        expect(seen.status_code == 200, f"HTTP {seen.status_code}: {text[:300]}")  # noqa: PLR2004
        expect("lent" in text and "team-b" in text, f"the overview does not tell of it: {text[:600]}")
        expect("ana" not in re.findall(r"\w+", text), "bo reads whose notebook it is")
        own = Form((await self._ana.page(f"{SERVICE}sessions")).text).text
        expect("parked" in own.lower(), f"her own page does not say that it is parked: {own[:600]}")
        return f"bo's overview came after {took * 1000:.0f} ms and names nobody; ana reads that hers is parked"

    @step("call-back", "ana runs a cell: training leaves", sabotage="the kernel is restarted first")
    async def _call_back(self, *, broken: bool) -> str:
        if broken:
            await self.server.request("POST", f"api/kernels/{self.cells.kernel_id}/restart")
        began = time.monotonic()
        same = await self.run(COMPARE)
        took = self.figures["cell_to_result_s"] = time.monotonic() - began
        expect(same.strip() == "True", f"the contents changed: {same}")
        await self.set_idle_timeout(None)
        await self.until_lease(self._waits.name, "it gone", lambda lease: lease.status in ("parked", "queued"))
        rate = self.figures["steps_per_s_after"] = await steps_per_s(self._jobs, COUNTED_S)
        expect(rate < UNCHANGED * self._rate, f"{rate:.1f} steps a second, before {self._rate:.1f}")
        return f"the cell's result came after {took:.1f} s, its contents unchanged; {rate:.1f} steps a second again"

    @step("stop", "ana stops her server: its half is free", sabotage="she closes the page and leaves it running")
    async def _stop(self, *, broken: bool) -> str:
        done, began = self._waits.steps, time.monotonic()
        if not broken:
            await self._ana.stop_server()
        await self._ana.until("the end of her lease", self._has_no_sessions)
        await self.until_job("the job on it", lambda: self._waits.steps > done)
        took = self.figures["stop_to_training_s"] = time.monotonic() - began
        return f"no lease of hers is left; after {took:.1f} s {self._waits.name} goes on there"

    @step("shutdown", "everything ends", sabotage="a process is forgotten")
    async def _shut_down(self, *, broken: bool) -> str:
        for job in self._jobs:
            await asyncio.to_thread(job.child.end, self.deadline_s)
            self.children.remove(job.child)
        leases = await self.broker.leases()
        expect(not leases, f"leases that are left: {', '.join(lease.name for lease in leases)}")
        for visitor in (self._ana, self._bo, self._admin):
            await visitor.close()
        if broken:
            start_holder(self.workspace, self.environment, wave=False)
        return await self.end_all()

    def environment_of_jobs(self) -> dict[str, str]:
        """Bo's jobs hold their leases of the hub's broker, in his name."""
        from jupyter_gpushare.demo.hub.staging import environment_of_job

        return environment_of_job(self.environment, self.hub, self._bo)

    async def _has_no_sessions(self) -> bool:
        return not [lease for lease in await self.broker.leases() if lease.kind == "interactive"]

    async def _status(self, job: Job) -> str:
        lease = await self.broker.lease(job.name)
        return "" if lease is None else lease.status
