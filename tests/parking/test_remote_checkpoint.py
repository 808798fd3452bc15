"""The checkpoint process as its server sees it: it starts, dies, hangs, and is never left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.devices.identity import identify, is_alive
from jupyter_gpushare.parking.checkpoint import CheckpointDriver, CheckpointError, ProcessState
from jupyter_gpushare.parking.remote_checkpoint import Deadlines, RemoteCheckpoint, checkpoint_command
from tests.parking.fake_checkpoint import FakeMachine
from tests.parking.stage import (
    BRISK,
    GB,
    ROOT,
    Kernels,
    checkpoint_processes,
    free_tokens,
    remote,
    state_letter,
    wait_until,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[FakeMachine]:
    """A device of 10 GB. No checkpoint process outlives the test."""
    (tmp_path / "locks").mkdir()
    yield FakeMachine.create(tmp_path, GPU0=10 * GB)
    assert checkpoint_processes() == []


@pytest.fixture
def kernels() -> Iterator[Kernels]:
    """Programs that end with the test."""
    kernels = Kernels()
    yield kernels
    kernels.close()


def test_it_starts_at_the_first_call_and_stays(tmp_path: Path, machine: FakeMachine) -> None:
    """A server that parks nothing has no such process, and one that does initialises the driver once."""

    async def story() -> None:
        checkpoint = remote(tmp_path)
        assert checkpoint.pid is None
        assert await checkpoint.driver() == CheckpointDriver("simulated", "1.0")
        first = checkpoint.pid
        await checkpoint.driver()
        assert checkpoint.pid == first
        await checkpoint.aclose()
        assert checkpoint.pid is None

    asyncio.run(story())


def test_a_call_past_its_deadline_costs_the_process_and_nothing_else(
    tmp_path: Path, machine: FakeMachine, kernels: Kernels
) -> None:
    """A hung driver call ends as ``deadline``; the next call is answered by another process."""

    async def story() -> None:
        process = kernels.start()
        machine.hold(process, GPU0=GB)
        checkpoint = remote(tmp_path, BRISK)
        await checkpoint.driver()
        hung = checkpoint.pid
        machine.inject("lock", "hang")
        with pytest.raises(CheckpointError) as late:
            await checkpoint.lock(process)
        assert late.value.code == "deadline"
        assert await checkpoint.state(process) is ProcessState.RUNNING
        assert checkpoint.pid != hung
        await checkpoint.aclose()

    asyncio.run(story())


def test_a_dead_process_is_replaced(tmp_path: Path, machine: FakeMachine, kernels: Kernels) -> None:
    """A call in which the process dies says ``died``, and the one after it works."""

    async def story() -> None:
        process = kernels.start()
        machine.hold(process, GPU0=GB)
        checkpoint = remote(tmp_path)
        machine.inject("lock", "die", when="after")
        with pytest.raises(CheckpointError) as death:
            await checkpoint.lock(process)
        assert death.value.code == "died"
        assert await checkpoint.state(process) is ProcessState.LOCKED
        await checkpoint.aclose()

    asyncio.run(story())


def test_a_cancelled_call_is_finished_before_the_next(tmp_path: Path, machine: FakeMachine, kernels: Kernels) -> None:
    """The driver's work cannot be cancelled, so no later call may overtake it or take its answer."""

    async def story() -> None:
        process = kernels.start()
        machine.hold(process, GPU0=GB)
        checkpoint = remote(tmp_path)
        await checkpoint.driver()
        call = asyncio.create_task(checkpoint.lock(process))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert await checkpoint.state(process) is ProcessState.LOCKED
        await checkpoint.aclose()

    asyncio.run(story())


def test_errors_of_the_driver_come_through(tmp_path: Path, machine: FakeMachine, kernels: Kernels) -> None:
    """Code and text are the driver's; a process that ended is ``gone`` and no other one is touched."""

    async def story() -> None:
        process = kernels.start()
        machine.hold(process, GPU0=GB)
        checkpoint = remote(tmp_path)
        with pytest.raises(CheckpointError) as wrong:
            await checkpoint.unlock(process)
        assert (wrong.value.code, wrong.value.text) == ("illegal_state", "it is running")
        with pytest.raises(CheckpointError) as gone:
            await checkpoint.state(process._replace(start=process.start + 1))
        assert gone.value.code == "gone"
        await checkpoint.aclose()

    asyncio.run(story())


def test_no_restore_without_token_and_claim(tmp_path: Path, machine: FakeMachine, kernels: Kernels) -> None:
    """The checkpoint process itself refuses a restore unless room was claimed in this hold of the token."""

    async def story() -> None:
        process = kernels.start()
        machine.hold(process, GPU0=GB)
        checkpoint = remote(tmp_path)
        await checkpoint.lock(process)
        await checkpoint.checkpoint(process)

        async def refused(*devices: str) -> None:
            with pytest.raises(CheckpointError) as refusal:
                await checkpoint.restore(process, "kernel", devices)
            assert refusal.value.code == "illegal_state"
            assert machine.state(process) is ProcessState.CHECKPOINTED

        await refused("GPU0")
        with pytest.raises(CheckpointError):
            await checkpoint.claim("GPU0", GB, "kernel")
        assert await checkpoint.take_token("GPU0", "kernel")
        await refused("GPU0")
        await checkpoint.claim("GPU0", GB, "kernel")
        await refused()
        await refused("GPU0", "GPU1")
        await checkpoint.drop_tokens("kernel")
        assert await checkpoint.take_token("GPU0", "kernel")
        await refused("GPU0")
        await checkpoint.claim("GPU0", GB, "kernel")
        await checkpoint.restore(process, "kernel", ["GPU0"])
        assert machine.state(process) is ProcessState.LOCKED
        await checkpoint.aclose()

    asyncio.run(story())


def test_a_token_ends_with_its_process(tmp_path: Path, machine: FakeMachine) -> None:
    """However the checkpoint process ends, nobody waits for a token that nobody holds."""

    async def story() -> None:
        checkpoint = remote(tmp_path)
        assert await checkpoint.take_token("GPU0", "kernel")
        assert not await checkpoint.take_token("GPU0", "another kernel")
        assert not free_tokens(tmp_path / "locks", "GPU0")
        assert checkpoint.pid is not None
        os.kill(checkpoint.pid, signal.SIGKILL)
        wait_until(lambda: free_tokens(tmp_path / "locks", "GPU0"))
        await checkpoint.aclose()

    asyncio.run(story())


def test_frozen_processes_always_have_somebody_who_watches_them(
    tmp_path: Path, machine: FakeMachine, kernels: Kernels
) -> None:
    """When the checkpoint process dies while it keeps processes frozen, another one takes over without being asked."""

    async def story() -> None:
        process = kernels.start()
        checkpoint = remote(tmp_path)
        await checkpoint.freeze([process])
        first = checkpoint.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        await asyncio.to_thread(wait_until, lambda: checkpoint.pid not in {None, first})
        wait_until(lambda: state_letter(process) == "T")
        await checkpoint.aclose()
        wait_until(lambda: state_letter(process) == "S")

    asyncio.run(story())


def test_closing_ends_a_process_that_hangs(tmp_path: Path, machine: FakeMachine, kernels: Kernels) -> None:
    """A server shuts down in seconds, whatever the driver does; who waits for the call hears of it."""

    async def story() -> None:
        process = kernels.start()
        machine.hold(process, GPU0=GB)
        checkpoint = remote(tmp_path, Deadlines(close_s=0.3))
        await checkpoint.driver()
        machine.inject("lock", "hang")
        call = asyncio.create_task(checkpoint.lock(process))
        await asyncio.to_thread(wait_until, lambda: not machine.pending())
        await checkpoint.aclose()
        with pytest.raises(CheckpointError) as death:
            await call
        assert death.value.code == "died"
        with pytest.raises(CheckpointError):
            await checkpoint.driver()

    asyncio.run(story())


@pytest.mark.parametrize(
    "program",
    ["pass", "print('{}')", "print('{\"id\":0}'); input(); print('{\"id\":7}')", "import sys; print('x' * 10**6)"],
    ids=["ends", "malformed", "another answer", "endless line"],
)
def test_nonsense_is_an_error_and_ends_the_process(program: str) -> None:
    """A checkpoint process that does not keep to the protocol is not believed, and does not live on."""

    async def story() -> None:
        checkpoint = RemoteCheckpoint([sys.executable, "-I", "-S", "-c", program])
        with pytest.raises(CheckpointError) as nonsense:
            await checkpoint.driver()
        assert nonsense.value.code == "died"
        await checkpoint.aclose()

    asyncio.run(story())
    assert checkpoint_processes() == []


def test_why_it_does_not_start_is_told(tmp_path: Path) -> None:
    """The reason of a failed start, such as a wrong directory, reaches the server."""
    (tmp_path / "locks").touch()

    async def story() -> None:
        checkpoint = RemoteCheckpoint(checkpoint_command(locks=tmp_path / "locks"))
        with pytest.raises(CheckpointError, match="is no directory"):
            await checkpoint.driver()
        await checkpoint.aclose()

    asyncio.run(story())


def test_it_ends_with_its_server_and_continues_what_it_froze(
    tmp_path: Path, machine: FakeMachine, kernels: Kernels
) -> None:
    """A server that is killed leaves no checkpoint process behind, and nothing frozen."""
    process = kernels.start()
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from jupyter_gpushare.devices.identity import Identity\n"
        "from tests.parking.stage import remote\n"
        "async def serve():\n"
        f"    checkpoint = remote(Path({str(tmp_path)!r}))\n"
        f"    await checkpoint.freeze([Identity({process.pid}, {process.start})])\n"
        "    print(checkpoint.pid, flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(serve())\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            child = identify(int(server.stdout.readline()))
            assert child is not None
            wait_until(lambda: state_letter(process) == "T")
        finally:
            server.kill()
    wait_until(lambda: not is_alive(child))
    wait_until(lambda: state_letter(process) == "S")


def test_an_interrupt_in_the_servers_terminal_does_not_reach_it(tmp_path: Path, machine: FakeMachine) -> None:
    """Ctrl-C, which Jupyter asks back about, must not end the process in the middle of a copy."""

    async def story() -> None:
        checkpoint = remote(tmp_path)
        await checkpoint.driver()
        pid = checkpoint.pid
        assert pid is not None
        assert os.getpgid(pid) != os.getpgrp()
        os.kill(pid, signal.SIGINT)
        await checkpoint.driver()
        assert checkpoint.pid == pid
        await checkpoint.aclose()

    asyncio.run(story())
