"""Safe points: what a program says, and what the supervisor takes from whoever talks to it."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.training import job, lightning, transformers
from jupyter_gpushare.training.safe_points import SafePoints
from tests.training.conftest import ROOT

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

PATIENT_S = 30.0

# Runs the lines that it is sent, and answers each.
PROGRAM = """
import os, sys
from jupyter_gpushare.training import job, on_reclaim, safe_point, share
def stand():
    while not safe_point():
        pass
    return True
for line in sys.stdin:
    exec(line)
    print(repr(globals().pop("answer", None)), flush=True)
"""


class Program:
    """A process that may come to safe points."""

    def __init__(self, points: SafePoints | None) -> None:
        own = {job.SOCKET: str(points.path)} if points else {}
        environ = {name: value for name, value in os.environ.items() if name not in (job.SOCKET, job.SHARE)}
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            env={**environ, **own, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid

    def send(self, line: str) -> None:
        """Start a line; `reply` waits for it."""
        assert self._process.stdin
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    async def reply(self) -> str:
        """What the oldest line without a reply gave."""
        assert self._process.stdout
        return (await asyncio.to_thread(self._process.stdout.readline)).strip()

    async def run(self, line: str) -> str:
        """Both."""
        self.send(line)
        return await self.reply()

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


@asynccontextmanager
async def supervised() -> AsyncIterator[tuple[SafePoints, Callable[[], Program]]]:
    """A supervisor's socket, and programs that know it."""
    points, programs = await SafePoints.open(lambda: None), []

    def start() -> Program:
        programs.append(Program(points))
        return programs[-1]

    try:
        yield points, start
    finally:
        for program in programs:
            program.close()
        await points.close()
        assert not points.path.parent.exists()


async def until(holds: Callable[[], bool]) -> None:
    """Wait with a generous deadline."""
    deadline = time.monotonic() + PATIENT_S
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def test_outside_run_nothing_happens() -> None:
    """A training program runs as it is where nobody supervises it."""

    async def story() -> None:
        program = Program(None)
        try:
            assert await program.run("on_reclaim(print); answer = (safe_point(), job.wanted(), share())") == (
                "(False, None, None)"
            )
        finally:
            program.close()

    asyncio.run(story())


def test_a_program_stands_still_at_its_safe_point_until_it_may_go_on() -> None:
    """Its callbacks are called first, once for each time, and whatever they raise the safe point is reached."""

    async def story() -> None:
        async with supervised() as (points, start):
            program = start()
            await program.run("called = []; on_reclaim(lambda: called.append(safe_point())); on_reclaim(lambda: 1 / 0)")
            await until(lambda: points.offered_by == {program.pid})
            assert await program.run("answer = safe_point()") == "False"
            for times in (1, 2):
                points.ask("park")
                program.send("answer = stand(), called")
                await until(lambda: points.is_reached)
                points.go_on()
                assert await program.reply() == f"(True, {[False] * times})"
                assert await program.run("answer = safe_point()") == "False"

    asyncio.run(story())


def test_a_question_that_is_withdrawn_stops_nobody() -> None:
    """Who comes to a safe point after the question is over goes on at once."""

    async def story() -> None:
        async with supervised() as (points, start):
            program = start()
            await program.run("safe_point()")
            points.ask("park")
            await until(lambda: bool(points.offered_by))
            points.go_on()
            points.ask("stop")
            points.go_on()
            await program.run("import time; time.sleep(0.1)")
            assert await program.run("answer = safe_point()") == "False"
            assert points.asked is None

    asyncio.run(story())


def test_a_program_goes_on_when_its_supervisor_dies() -> None:
    """A closed connection is no reason to stand still for ever."""

    async def story() -> None:
        async with supervised() as (points, start):
            program = start()
            await program.run("safe_point()")
            points.ask("park")
            program.send("answer = stand()")
            await until(lambda: points.is_reached)
            await points.close()
            assert await program.reply() == "True"
            assert await program.run("answer = safe_point()") == "False"

    asyncio.run(story())


def test_every_process_must_have_come() -> None:
    """A job of several processes is at its safe point when the last of them is; one that ended is waited for no more."""

    async def story() -> None:
        async with supervised() as (points, start):
            first, second = start(), start()
            for program in (first, second):
                await program.run("safe_point()")
            await until(lambda: points.offered_by == {first.pid, second.pid})
            points.ask("stop")
            first.send("stand()")
            await until(lambda: any(process.reached for process in points._processes))
            assert not points.is_reached
            second.close()
            await until(lambda: points.is_reached)

    asyncio.run(story())


def test_a_forked_child_speaks_for_itself() -> None:
    """What a child reads is not what its parent was to read."""

    async def story() -> None:
        async with supervised() as (points, start):
            program = start()
            await program.run("safe_point()")
            await program.run("child = os.fork() or (safe_point(), __import__('time').sleep(60))")
            await until(lambda: len(points.offered_by) == 2)
            points.ask("park")
            program.send("while not (answer := job.wanted()): pass")
            assert await program.reply() == "'park'"
            await program.run("os.kill(child, 9)")

    asyncio.run(story())


def test_the_socket_is_for_its_user_alone() -> None:
    """Nobody else may say that a job is ready to be parked."""

    async def story() -> None:
        async with supervised() as (points, _):
            assert stat.S_IMODE(points.path.parent.stat().st_mode) == 0o700

    asyncio.run(story())


@pytest.mark.parametrize(
    "nonsense",
    [b"\xff\n", b"[]\n", b"{}\n", b'{"say": "reached", "number": -1}\n', b'{"say": "ask", "number": 1}\n',
     b"x" * 100_000, b'{"say": "reached", "number": 9}\n'],
)  # fmt: skip
def test_nonsense_reaches_no_safe_point(nonsense: bytes) -> None:
    """Whoever talks it is disconnected, or at least does not count; the supervisor serves others on."""

    async def story() -> None:
        async with supervised() as (points, start):
            reader, writer = await asyncio.open_unix_connection(points.path)
            writer.write(nonsense)
            points.ask("park")
            program = start()
            program.send("stand()")
            await until(lambda: points.is_reached)
            assert points.offered_by == {program.pid}
            writer.close()
            assert len(await reader.read()) == 0

    asyncio.run(story())


def test_a_flood_of_connections_is_bounded() -> None:
    """A job cannot make its supervisor run out of files."""

    async def story() -> None:
        async with supervised() as (points, _):
            flood = []
            for _number in range(300):
                one = socket.socket(socket.AF_UNIX)
                one.setblocking(False)  # noqa: FBT003  # as socket has it
                try:
                    one.connect(str(points.path))
                except BlockingIOError:
                    one.close()
                    await asyncio.sleep(0.01)
                    continue
                flood.append(one)
            await asyncio.sleep(0.1)
            assert len(points._processes) <= 256
            for one in flood:
                one.close()

    asyncio.run(story())


def test_a_safe_point_costs_next_to_nothing() -> None:
    """It stands in every training step: ten thousand take well under a second."""

    async def story() -> None:
        async with supervised() as (_, start):
            program = start()
            took = "import time; began = time.perf_counter(); [safe_point() for _ in range(10000)]; "
            assert float(await program.run(took + "answer = time.perf_counter() - began")) < 1.0

    asyncio.run(story())


def test_the_share_is_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job knows its devices and how much of each it may hold."""
    given = {"share": "0.5", "project": "team-a", "devices": ["GPU-0"], "memory": [7]}
    monkeypatch.setenv(job.SHARE, json.dumps(given))
    monkeypatch.setenv(job.RESTARTS, "2")
    assert job.share() == job.JobShare("0.5", "team-a", ("GPU-0",), (7,), 2)


def test_importing_it_loads_the_standard_library_alone() -> None:
    """A training program pays nothing for it, and needs nothing installed beside it."""
    code = "import sys; import jupyter_gpushare.training; print(*{name.partition('.')[0] for name in sys.modules})"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    ours = {name for name in printed if name not in sys.stdlib_module_names and not name.startswith("_")}
    assert "jupyter_gpushare" in ours
    assert ours.isdisjoint({"msgspec", "tornado", "psutil", "traitlets", "rich"})


class Trainer:
    """What of a framework's trainer an adapter touches."""

    def __init__(self, directory: Path) -> None:
        self.saved: list[str] = []
        self.directory = directory

    def save_checkpoint(self, path: str) -> None:
        """Lightning's."""
        self.saved.append(path)


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[SafePoints], None]]:
    """Makes this process the job of a supervisor, for the test."""
    for name, value in (("_link", None), ("_tried_as", 0), ("_callbacks", [])):
        monkeypatch.setattr(job, name, value)
    yield lambda points: monkeypatch.setenv(job.SOCKET, str(points.path))
    if job._link is not None:
        job._link.abandon()


@pytest.mark.parametrize("what", ["park", "stop"])
def test_lightning_saves_and_stands_still_after_a_batch(
    in_this_process: Callable[[SafePoints], None], tmp_path: Path, what: Any
) -> None:
    """The adapter's own logic, over a real connection: the checkpoint is written before the GPU is given back."""

    async def story() -> None:
        async with supervised() as (points, _):
            in_this_process(points)
            trainer, steps = Trainer(tmp_path), lightning.Steps(save="last.ckpt")
            await asyncio.to_thread(steps.on_fit_start, trainer, None)
            await until(lambda: bool(points.offered_by))
            points.ask(what)
            batch = asyncio.ensure_future(asyncio.to_thread(steps.on_train_batch_end, trainer, None, None, None, 0))
            await until(lambda: points.is_reached)
            assert trainer.saved == ["last.ckpt"]
            points.go_on()
            await batch

    asyncio.run(story())


def test_transformers_saves_only_for_a_stop(in_this_process: Callable[[SafePoints], None]) -> None:
    """A park stands still after the step; a stop has the trainer save, and stands still once that is written."""

    async def story() -> None:
        async with supervised() as (points, _):
            in_this_process(points)
            steps, control = transformers.Steps(), SimpleNamespace(should_save=False)
            await asyncio.to_thread(steps.on_step_end, None, None, control)
            await until(lambda: bool(points.offered_by))
            points.ask("park")
            step = asyncio.ensure_future(asyncio.to_thread(steps.on_step_end, None, None, control))
            await until(lambda: points.is_reached)
            assert not control.should_save
            points.go_on()
            await step
            points.ask("stop")
            while not control.should_save:
                await asyncio.to_thread(steps.on_step_end, None, None, control)
            assert not points.is_reached
            saved = asyncio.ensure_future(asyncio.to_thread(steps.on_save, None, None, control))
            await until(lambda: points.is_reached)
            points.go_on()
            await saved

    asyncio.run(story())


@pytest.mark.parametrize(("adapter", "package"), [(lightning, "lightning"), (transformers, "transformers")])
def test_an_adapter_is_the_frameworks_own_class(adapter: Any, package: str) -> None:
    """Where the framework is installed its trainer accepts the callback; where not, its own error says so."""
    try:
        callback = adapter.safe_points()
    except ImportError as error:
        assert package in str(error)  # noqa: PT017  # one of two outcomes, by what is installed
    else:
        assert any(base.__module__.startswith(package) for base in type(callback).__mro__)
