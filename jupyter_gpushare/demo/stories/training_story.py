"""What stories with a broker and training have in common: jobs that are started and waited for, and their leases."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.demo.jobs import Job
from jupyter_gpushare.demo.server import API
from jupyter_gpushare.demo.stories.server_story import ServerStory
from jupyter_gpushare.demo.story import StepError, expect

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jupyter_gpushare.broker.wire import LeaseModel
    from jupyter_gpushare.demo.broker import DemoBroker
    from jupyter_gpushare.session.wire import LeaseView, Snapshot

__all__ = ["TrainingStory", "lease_of"]

_POLL_S: Final = 0.02


class TrainingStory(ServerStory):
    """Real processes throughout: a broker, a Jupyter server, and ``jupyter gpushare run`` jobs.

    Attributes:
        broker: the one that server and jobs hold their leases of.
    """

    broker: DemoBroker

    def start_job(self, name: str, *, program: Sequence[str] = (), **more: Any) -> Job:
        """Start a job that wants half a GPU; it is ended with the story. *more* as for `Job.start`."""
        job = Job.start(self.workspace, self.environment_of_jobs(), name, gpu="0.5", program=program, **more)
        self.children.append(job.child)
        return job

    async def set_idle_timeout(self, seconds: float | None) -> None:
        """Park the notebook after so many idle seconds; None for never by itself."""
        policy = {"reset": True} if seconds is None else {"idle_timeout_s": seconds}
        answer = await self.server.request("PUT", f"{API}kernels/{self.cells.kernel_id}/policy", policy)
        expect(answer.code == 200, f"HTTP {answer.code}, {answer.message}")  # noqa: PLR2004

    async def until_job(self, what: str, happened: Callable[[], bool]) -> None:
        """Wait for something that jobs do; fails the step when the deadline passes."""
        give_up = time.monotonic() + self.deadline_s
        while not happened():
            if time.monotonic() > give_up:
                said = [f"{lease.name} is {lease.status}" for lease in await self.broker.leases()]
                raise StepError(f"{what} did not come in {self.deadline_s:.0f} s: {', '.join(said)}")
            await asyncio.sleep(_POLL_S)

    async def until_lease(self, name: str, what: str, holds: Callable[[LeaseModel], bool]) -> LeaseModel:
        """Wait for the lease that is called *name*; fails the step when the deadline passes."""
        give_up = time.monotonic() + self.deadline_s
        while True:
            lease = await self.broker.lease(name)
            if lease is not None and holds(lease):
                return lease
            if time.monotonic() > give_up:
                raise StepError(f"{what} did not come in {self.deadline_s:.0f} s: {name} is {lease and lease.status}")
            await asyncio.sleep(_POLL_S)

    def parks_at(self, snapshot: Snapshot) -> float | None:
        """When the notebook parks unless something happens, in seconds since the epoch; None for never."""
        parking = self.row_of(snapshot).parking
        return None if parking is None else parking.parks_at

    def environment_of_jobs(self) -> dict[str, str]:
        """What jobs run in: where their broker is."""
        return self.environment


def lease_of(snapshot: Snapshot) -> LeaseView:
    """The session's lease; fails the step when it has none."""
    if snapshot.lease is None:
        raise StepError(f"the server has no lease. {snapshot.state.text}")
    return snapshot.lease
