"""Rounds of one notebook and one waiting job: idle, parked and lent, then a cell that calls the share back."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks.servers import ROOT
from jupyter_gpushare.demo.cells import Cells
from jupyter_gpushare.demo.machine import create_machine
from jupyter_gpushare.demo.stories.share import ShareStory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_gpushare.broker.wire import LeaseModel
    from jupyter_gpushare.demo.jobs import Job
    from jupyter_gpushare.session.wire import Snapshot

__all__ = ["PATHS", "Path", "Round", "measure"]

_IDLE_S: Final = 2.0
_DEADLINE_S: Final = 60.0
_SOME_STEPS: Final = 5
#: Each loss of its share doubles a job's back-off, which a round waits for: a new job begins with the shortest.
_ROUNDS_OF_A_JOB: Final = 4
_SNAPSHOTS: Final = 40
_FILL: Final = """\
from jupyter_gpushare.devices.simulated import cuda
weights = cuda.allocate({bytes})
weights.fill(7)
before = weights.checksum()"""
_COMPARE: Final = "print(weights.checksum() == before)"


@dataclass(frozen=True, slots=True)
class Path:
    """One way in which a job gives its share back.

    Attributes:
        name: for the tables.
        module: the training program.
        program: its options.
        grace_s: what the job asks for to save its work; None leaves it to the pool.
    """

    name: str
    module: str = "jupyter_gpushare.demo.train_numpy"
    program: Sequence[str] = ()
    grace_s: float | None = None

    @property
    def is_copied(self) -> bool:
        """Whether the job is parked: its memory is one of the two copies in the way of a cell."""
        return not self.program and self.module.endswith("train_numpy")


PATHS: Final = (
    Path("parked at a safe point"),
    Path("saves on SIGTERM and stops", program=("--no-safe-points",)),
    Path("ignores SIGTERM", module="benchmarks.latency.stubborn", grace_s=3.0),
)


@dataclass(frozen=True, slots=True)
class Round:
    """Times in seconds.

    Attributes:
        lent_s: from the notebook's idle timeout to the first step of the job.
        back_s: from sending a cell to its result.
        notebook_copy_s: what the copy of the notebook's memory takes at the machine's rate, one way.
        job_copy_s: that of the job's memory; 0 where it is not parked.
    """

    lent_s: float
    back_s: float
    notebook_copy_s: float
    job_copy_s: float


async def measure(path: Path, rounds: int, notebook_bytes: int, job_memory: str, rate: int) -> list[Round]:
    """Run *rounds* of them, each with the same notebook and job.

    Raises:
        StepError: something did not happen; says what.
    """
    story = ShareStory(_DEADLINE_S)
    # The stubborn job lies beside us, and not in the package.
    story.environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), story.environment.get("PYTHONPATH")]))
    try:
        create_machine(story.workspace, story.devices, copy_bytes_per_s=rate)
        await story.start_broker()
        await story.start_server()
        story.cells = await Cells.open(story.server, "bench.ipynb")
        await story.run(_FILL.format(bytes=notebook_bytes))
        first = story.start_job("beside", memory=job_memory)
        await story.until_job("the first job's steps", lambda: first.steps > 0)
        found: list[Round] = []
        while len(found) < rounds:
            job = await _waiting_job(story, path, job_memory, f"waiting-{len(found)}")
            found += [await _round(story, path, job, rate) for _ in range(min(_ROUNDS_OF_A_JOB, rounds - len(found)))]
            await asyncio.to_thread(job.child.end)
        return found
    finally:
        story.clean_up()


async def _waiting_job(story: ShareStory, path: Path, memory: str, name: str) -> Job:
    grace = [] if path.grace_s is None else ["--grace", str(path.grace_s)]
    job = story.start_job(name, memory=memory, options=grace, program=path.program, module=path.module)
    await story.until_lease(name, "its lease", lambda lease: lease.status == "queued")
    return job


async def _round(story: ShareStory, path: Path, job: Job, rate: int) -> Round:
    await story.until_lease(job.name, "the end of its back-off", _may_be_lent)
    held = await asyncio.to_thread(story.held_by_device)
    notebook = max(held.values())
    done = job.steps
    await story.set_idle_timeout(_IDLE_S)
    snapshot = await story.until("a countdown", lambda seen: _parks_at(story, seen) is not None, within=_SNAPSHOTS)
    timeout = _parks_at(story, snapshot) or 0.0
    await story.until_job("a step on the loan", lambda: job.steps > done)
    lent_s = time.time() - timeout
    await story.until_job("more steps", lambda: job.steps > done + _SOME_STEPS)
    copied = await asyncio.to_thread(story.held_by_device)
    await story.set_idle_timeout(None)
    began = time.monotonic()
    same = await story.run(_COMPARE)
    back_s = time.monotonic() - began
    if same.strip() != "True":
        raise RuntimeError(f"the notebook's contents changed: {same}")
    await story.until_lease(job.name, "it gone", lambda lease: lease.status in ("queued", "parked"))
    return Round(lent_s, back_s, notebook / rate, max(copied.values()) / rate if path.is_copied else 0.0)


def _may_be_lent(lease: LeaseModel) -> bool:
    return lease.reason is None or lease.reason.code != "WAITING_FOR_BACK_OFF"


def _parks_at(story: ShareStory, snapshot: Snapshot) -> float | None:
    parking = story.row_of(snapshot).parking
    return None if parking is None else parking.parks_at
