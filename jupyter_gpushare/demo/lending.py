"""Training that lives on what is parked: the demo does by hand what a broker does on a shared installation.

While a notebook is parked, a job takes as much of the first GPU as the notebook gave back. When the notebook wants it
back, the job ends.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.demo.machine import start_holder
from jupyter_gpushare.demo.server import ServerError
from jupyter_gpushare.devices.simulated.machine import CONTEXT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.demo.processes import Child
    from jupyter_gpushare.demo.server import Server
    from jupyter_gpushare.demo.workspace import Workspace
    from jupyter_gpushare.session.wire import KernelModel, Snapshot

__all__ = ["Lending"]

#: So that people see first that the GPU is free, and no job starts for a notebook that is wanted again at once.
_FREE_FIRST_S: Final = 4.0
#: What must stay free beside a job, for notebooks that begin meanwhile.
_LEFT_FREE: Final = 4 * 10**9
_AGAIN_S: Final = 1.0


class Lending:
    """One job for each notebook that is parked.

    Args:
        workspace: the demo's places.
        environment: what jobs run in.
        started: gets each job at once, to end it.
    """

    def __init__(self, workspace: Workspace, environment: dict[str, str], started: Callable[[Child], None]) -> None:
        self._workspace, self._environment, self._started = workspace, environment, started
        self._jobs: dict[str, Child] = {}
        self._is_stopping = False

    def stop(self) -> None:
        """Follow no longer. A cancellation alone may be lost: Python 3.11's ``wait_for`` swallows a late one."""
        self._is_stopping = True

    async def follow(self, server: Server) -> None:
        """Start and end jobs as notebooks are parked and want to come back, as long as *server* lives."""
        while server.child.exit_code is None and not self._is_stopping:
            try:
                async for snapshot in server.snapshots():
                    if self._is_stopping:
                        return
                    await self._look(snapshot)
            except (ServerError, OSError):
                await asyncio.sleep(_AGAIN_S)  # it ends, or somebody restarts it

    async def _look(self, snapshot: Snapshot) -> None:
        parked = {kernel.id: kernel for kernel in snapshot.kernels if _is_parked(kernel)}
        for kernel_id in self._jobs.keys() - parked.keys():
            await asyncio.to_thread(self._jobs.pop(kernel_id).end)
        for kernel_id in parked.keys() - self._jobs.keys():
            if job := self._job_for(parked[kernel_id], snapshot):
                self._jobs[kernel_id] = job

    def _job_for(self, kernel: KernelModel, snapshot: Snapshot) -> Child | None:
        assert kernel.parking is not None  # noqa: S101  # it is parked
        first, lent = snapshot.devices[0], kernel.parking.memory or 0
        free = first.usable - (first.used.value or first.usable)
        if time.time() - kernel.parking.since < _FREE_FIRST_S or free < lent + _LEFT_FREE or lent <= CONTEXT_BYTES:
            return None
        memory = f"{(lent - CONTEXT_BYTES) >> 20}MiB"
        job = start_holder(self._workspace, self._environment, memory=memory, wave=False)
        self._started(job)
        return job


def _is_parked(kernel: KernelModel) -> bool:
    return kernel.parking is not None and kernel.parking.status == "parked"
