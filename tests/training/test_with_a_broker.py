"""The command itself, with a real broker, and a notebook server's lease that lends its device and wants it back."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Self

import pytest

from jupyter_gpushare.broker.client import BrokerClient, Endpoint, Holding
from jupyter_gpushare.broker.wire import ClaimModel, LeaseModel, LeasesAnswer
from tests.training.conftest import ROOT
from tests.training.fake_broker import PATIENT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from jupyter_gpushare.devices.simulated.machine import Machine

GPUSHARE = [sys.executable, "-m", "jupyter_gpushare.app"]
TRAIN = [sys.executable, "-m", "jupyter_gpushare.demo.train_numpy"]
POLICY = """
[projects.team-a]
quota = 1
[projects.team-b]
quota = 0
[pools.default]
minimum_turn = "0s"
backoff = "1s"
lend_at_least = "1h"
grace = "20s"
"""


class Place:
    """A directory with a machine, a broker's socket, and what runs there.

    Attributes:
        environ: of every process there.
    """

    def __init__(self, directory: Path, machine: Machine, policy: str = POLICY) -> None:
        self.directory = directory
        (directory / "locks").mkdir()
        (directory / "gpushare.toml").write_text(policy)
        (directory / "broker").mkdir(mode=0o700)
        self.socket = directory / "broker" / "s"
        own = {"XDG_RUNTIME_DIR": str(directory / "xdg"), "TMPDIR": str(directory), "NO_COLOR": "1"}
        jupyter = {f"JUPYTER_{name}_DIR": str(directory / name.lower()) for name in ("DATA", "RUNTIME", "CONFIG")}
        paths = {"GPUSHARE_SIMULATED_MACHINE": str(machine.path), "PYTHONPATH": str(ROOT)}
        self.environ = {**os.environ, **own, **jupyter, **paths, "GPUSHARE_BROKER": f"unix:{self.socket}"}
        self._running: list[subprocess.Popen[bytes]] = []
        self.broker = self.start_broker()

    def start_broker(self) -> subprocess.Popen[bytes]:
        """A broker that serves when this returns."""
        places = ["--socket", str(self.socket), "--config", str(self.directory / "gpushare.toml")]
        books = ["--state", str(self.directory / "state"), "--ledger", f"sqlite:///{self.directory / 'ledger.sqlite'}"]
        log = self.directory / "broker.log"
        before = log.stat().st_size if log.exists() else 0
        broker = self.start([*GPUSHARE, "broker", *places, *books], "broker.log")
        deadline = time.monotonic() + PATIENT_S
        while "The broker listens" not in log.read_text()[before:] and broker.poll() is None:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)
        assert broker.poll() is None, log.read_text()
        return broker

    def start(self, argv: list[str], log: str) -> subprocess.Popen[bytes]:
        """A process that writes to *log*, ended after the test."""
        with (self.directory / log).open("ab") as output:
            process = subprocess.Popen(
                argv, env=self.environ, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        self._running.append(process)
        return process

    def start_job(self, *options: str, train: list[str]) -> subprocess.Popen[bytes]:
        """The training program under the command."""
        locks = ["--locks", str(self.directory / "locks")]
        return self.start([*GPUSHARE, "run", *locks, *options, "--", *train], "run.log")

    def said(self) -> str:
        """What the command and the job printed."""
        return (self.directory / "run.log").read_text()

    def close(self) -> None:
        """End what still runs."""
        for process in reversed(self._running):
            if process.poll() is None:
                process.terminate()
        for process in self._running:
            process.wait(PATIENT_S)


class Notebook:
    """A notebook server's lease: one that holds no memory, so that it is parked as soon as it says so."""

    def __init__(self, client: BrokerClient, project: str = "team-a") -> None:
        claim = ClaimModel(key="session", kind="interactive", project=project, share="1", name="nb", is_parkable=True)
        self.holding: Holding = client.hold(claim, [], is_resident=lambda: False)

    @classmethod
    async def open(cls, client: BrokerClient) -> Self:
        """One that runs."""
        notebook = cls(client)
        await notebook.compute()
        return notebook

    async def compute(self) -> None:
        """Run a cell: wait for the device if need be."""
        self.holding.want("running")
        lease = await self.until(lambda lease: lease.status in ("granted", "resuming", "running"), "its device")
        self.holding.did("running", lease.epoch)
        await self.until(lambda lease: lease.status == "running", "to run")

    async def park(self) -> None:
        """Become idle."""
        self.holding.want("parked", 0)
        lease = await self.until(lambda lease: lease.status == "parking", "the broker's word")
        self.holding.did("released", lease.epoch)
        await self.until(lambda lease: lease.status == "parked", "the devices' word")

    async def until(self, holds: Callable[[LeaseModel], bool], what: str) -> LeaseModel:
        """Wait for the lease; fails with *what*."""
        try:
            return await asyncio.wait_for(self.holding.until(holds), PATIENT_S)
        except TimeoutError:
            pytest.fail(f"the notebook waited for {what}; its lease is {self.holding.lease}")


@pytest.fixture
def place(tmp_path: Path, machine: Machine) -> Iterator[Place]:
    """A broker over one device, of which team-a may have all and team-b nothing but loans."""
    place = Place(tmp_path, machine)
    yield place
    place.close()


async def job_is(client: BrokerClient, place: Place, *statuses: str) -> LeaseModel:
    """Wait until the one job is in one of *statuses*."""
    deadline = time.monotonic() + PATIENT_S
    while True:
        answer = await client.request("GET", "leases", type=LeasesAnswer)
        jobs = [lease for lease in answer.leases if lease.kind == "training"]
        if jobs and jobs[0].status in statuses:
            return jobs[0]
        assert time.monotonic() < deadline, f"{statuses}: {jobs}; {place.said()}"
        await asyncio.sleep(0.02)


async def ended(process: subprocess.Popen[bytes]) -> int:
    """The exit code of *process*."""
    return await asyncio.wait_for(asyncio.to_thread(process.wait), PATIENT_S)


def losses(file: Path) -> dict[int, str]:
    """What the training program wrote; the last value of each step."""
    return dict(json.loads(line) for line in file.read_text().splitlines()) if file.exists() else {}


def undisturbed(directory: Path, environ: dict[str, str], steps: int) -> dict[int, str]:
    """The losses of a run that nobody disturbs."""
    file = directory / "undisturbed.jsonl"
    subprocess.run(
        [*TRAIN, "--steps", str(steps), "--step-s", "0", "--losses", str(file)],
        env=environ,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return losses(file)


PATHS = {"safe point": [], "SIGTERM": ["--no-safe-points"]}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("times", [2, pytest.param(6, marks=pytest.mark.long)])
def test_a_job_on_a_loan_yields_each_time_and_loses_nothing(place: Place, path: str, times: int) -> None:
    """A cell calls its device back from training, on either way, and the losses are those of an undisturbed run."""

    async def story() -> None:
        steps = 40 * (times + 1)
        file, save = place.directory / "losses.jsonl", place.directory / "saved.npz"
        saving = ["--losses", str(file), "--save", str(save), "--steps", str(steps)]
        client = BrokerClient(Endpoint.at_socket(place.socket))
        notebook = await Notebook.open(client)
        job = place.start_job("--project", "team-b", "--gpu", "0.5", train=[*TRAIN, *saving, *PATHS[path]])
        lease = await job_is(client, place, "queued")
        assert lease.reason is not None
        for _ in range(times):
            await notebook.park()
            assert (await job_is(client, place, "running")).lent == "0.5"
            seen = len(losses(file))
            while len(losses(file)) <= seen + 2:
                assert job.poll() is None, place.said()
                await asyncio.sleep(0.02)
            await notebook.compute()
            assert (await job_is(client, place, "parked", "queued")).turns_lost > 0
        await notebook.holding.end()
        await job_is(client, place, "running")
        assert await ended(job) == 0, place.said()
        assert losses(file) == undisturbed(place.directory, place.environ, steps)
        assert len(file.read_text().splitlines()) == steps

    asyncio.run(story())


def test_a_job_survives_its_brokers_death(place: Place) -> None:
    """Killed and started again over the same books, the broker finds the job running, and the job notices nothing."""

    async def story() -> None:
        file = place.directory / "losses.jsonl"
        job = place.start_job(
            "--project", "team-a", "--gpu", "1", train=[*TRAIN, "--steps", "400", "--losses", str(file)]
        )
        client = BrokerClient(Endpoint.at_socket(place.socket))
        before = await job_is(client, place, "running")
        place.broker.kill()
        await ended(place.broker)
        seen = len(losses(file))
        while len(losses(file)) <= seen + 5:
            assert job.poll() is None, place.said()
            await asyncio.sleep(0.02)
        place.start_broker()
        after = await job_is(client, place, "running")
        assert (after.id, after.epoch) == (before.id, before.epoch)
        assert await ended(job) == 0, place.said()
        assert len(losses(file)) == 400
        assert "Lost contact with the broker; nothing changes" in place.said()

    asyncio.run(story())


def test_a_job_that_waits_says_why_and_leaves_with_ctrl_c(place: Place) -> None:
    """One line with the place and the reason; Ctrl-C gives the claim up with the shell's code."""

    async def story() -> None:
        client = BrokerClient(Endpoint.at_socket(place.socket))
        notebook = await Notebook.open(client)
        job = place.start_job("--project", "team-b", "--gpu", "0.5", train=TRAIN)
        await job_is(client, place, "queued")
        while "Waiting: 1st in line" not in place.said():
            assert job.poll() is None, place.said()
            await asyncio.sleep(0.02)
        job.send_signal(signal.SIGINT)
        assert await ended(job) == 128 + signal.SIGINT
        answer = await client.request("GET", "leases", type=LeasesAnswer)
        assert [lease.kind for lease in answer.leases] == ["interactive"]
        await notebook.holding.end()

    asyncio.run(story())


def test_a_refusal_names_the_field_and_ends_with_its_own_code(place: Place) -> None:
    """A share that no device here could ever hold is refused at once."""

    async def story() -> None:
        job = place.start_job("--project", "team-a", "--gpu", "64GiB", train=TRAIN)
        assert await ended(job) == 69, place.said()
        assert "64GiB" in place.said()

    asyncio.run(story())


def test_every_command_shows_the_job(place: Place) -> None:
    """leases, projects and top say the same of a job as tables and as JSON; top on a terminal ends with q."""

    async def story() -> None:
        client = BrokerClient(Endpoint.at_socket(place.socket))
        job = place.start_job(
            "--project", "team-a", "--gpu", "0.5", "--name", "my-job", train=[*TRAIN, "--steps", "9999"]
        )
        await job_is(client, place, "running")
        for command, words in (("leases", "my-job"), ("projects", "team-b"), ("top", "my-job"), ("status", "my-job")):
            assert words in printed(place, command)
        assert json.loads(printed(place, "leases", "--json"))["leases"][0]["name"] == "my-job"
        assert printed(place, "leases", "--project", "team-b") == "No share that you may see is like that now.\n"
        assert {"devices", "projects", "leases"} == json.loads(printed(place, "top", "--json")).keys()
        await asyncio.to_thread(follow_top, place)
        job.send_signal(signal.SIGTERM)
        assert await ended(job) == 128 + signal.SIGTERM

    asyncio.run(story())


def printed(place: Place, *arguments: str) -> str:
    """What a command prints when it ends well."""
    run = subprocess.run([*GPUSHARE, *arguments], env=place.environ, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def follow_top(place: Place) -> None:
    """Look at it on a terminal, and leave with q."""
    ours, theirs = pty.openpty()
    environ = {**place.environ, "TERM": "xterm", "COLUMNS": "160", "LINES": "50"}
    top = subprocess.Popen(
        [*GPUSHARE, "top", "--every", "0.2"], env=environ, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    deadline, seen = time.monotonic() + PATIENT_S, b""
    while seen.count(b"my-job") < 2:
        assert time.monotonic() < deadline, seen
        seen += os.read(ours, 1 << 16)
    os.write(ours, b"q")
    while top.poll() is None:
        assert time.monotonic() < deadline
        with suppress(OSError):  # the other side is closed
            os.read(ours, 1 << 16)
    assert top.returncode == 0
    os.close(ours)
