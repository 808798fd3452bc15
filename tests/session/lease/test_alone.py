"""The broker is away for long, and a job has the share on loan: the session calls it back itself, on the same host."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.session.parking.conftest import CHECK, HOLD

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.session.lease.conftest import Kept, Others

GPUSHARE = [sys.executable, "-m", "jupyter_gpushare.app"]
TRAIN = [sys.executable, "-m", "jupyter_gpushare.demo.train_numpy", "--steps", "1000000"]


@pytest.fixture(name="gpushare_options")
def _gpushare_options(kept: Kept, directory: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A session of that broker, impatient with one that is away, in a place of the test's own."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(directory))
    return {"broker": f"unix:{kept.socket}", "broker_grace_s": 1.0}


class Job:
    """`jupyter gpushare run` with a program that trains.

    Attributes:
        said: what the two printed is in this file.
    """

    def __init__(self, kept: Kept, directory: Path, locks: Path) -> None:
        self.said = directory / "job.log"
        self._losses = directory / "losses.jsonl"
        self._argv = [*GPUSHARE, "run", "--locks", str(locks), "--project", "default", "--gpu", "1", "--name", "job"]
        self._argv += ["--", *TRAIN, "--losses", str(self._losses)]
        self._environ = {**os.environ, "GPUSHARE_BROKER": f"unix:{kept.socket}"}
        self._process: asyncio.subprocess.Process | None = None

    @property
    def steps(self) -> int:
        """How far it is."""
        return len(self._losses.read_text().splitlines()) if self._losses.exists() else 0

    async def start(self) -> None:
        """Begin to wait for a share."""
        with self.said.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._argv, env=self._environ, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
            )

    async def end(self) -> int:
        """End it as its owner does; its exit code."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
        return await asyncio.wait_for(self._process.wait(), 60)


@pytest.fixture(name="job")
def _job(kept: Kept, directory: Path, tmp_path: Path, jp_asyncio_loop: asyncio.AbstractEventLoop) -> Iterator[Job]:
    job = Job(kept, directory, tmp_path / "locks")
    yield job
    jp_asyncio_loop.run_until_complete(job.end())


def of_job(kept: Kept) -> Any:
    """The job's lease in the books; None without one."""
    assert kept.broker is not None
    jobs = [lease for lease in kept.broker.books.leases.values() if lease.name == "job"]
    return jobs[0] if jobs else None


async def test_a_job_on_the_same_host_leaves_without_the_broker(
    kept: Kept, others: Others, job: Job, start_kernel: Any, run: Any, park: Any, until: Any, page_of: Any, api: Any
) -> None:
    """The cell waits until the job has left, as people can read; both go on, and so they do with a broker again."""
    kernel_id = await start_kernel()
    await run(kernel_id, HOLD)
    for _ in kept.broker.books.devices if kept.broker else ():
        if kept.broker and len(kept.broker.books.leases) < len(kept.broker.books.devices):
            await others.hold("1")
    await park(kernel_id)
    await until(lambda: kept.status() == "parked")
    await job.start()
    await until(lambda: job.steps > 3)
    assert of_job(kept).grants[0].device == kept.lease().grants[0].device
    page = await page_of(kernel_id)
    await kept.stop()
    cell = page.execute(CHECK)
    await until(lambda: _shown(api, "LEASE_ASKS_ALONE"))
    reply = (await until(lambda: page.answers(cell, "execute_reply")))[0]
    assert reply["status"] == "ok"
    steps = job.steps
    assert (await run(kernel_id, CHECK))["status"] == "ok"
    assert job.steps == steps, job.said.read_text()
    assert "CAME_BACK_ALONE" in [notice["message"]["code"] for notice in (await api("session"))["notices"]]
    await kept.start()
    # The one with the promise may be first or last to come back: until both are the job may have been called anew.
    await until(lambda: kept.status() == "running" and of_job(kept).status.value in ("parked", "queued"))
    steps = job.steps
    await park(kernel_id)
    await until(lambda: job.steps > steps)
    assert (await run(kernel_id, CHECK))["status"] == "ok"


async def _shown(api: Any, code: str) -> bool:
    return bool((await api("session"))["lease"]["message"]["code"] == code)
