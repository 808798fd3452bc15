"""What stands against a park from beside the kernel's cells: each is brought about, and ended again."""

from __future__ import annotations

import asyncio
import os
import platform
import signal
import subprocess
import sys
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import psutil
import pytest

from jupyter_gpushare.devices.identity import identify
from jupyter_gpushare.devices.simulated.faults import HostPids, MisreportedPids
from jupyter_gpushare.parking import gather
from jupyter_gpushare.parking.headroom import cgroup_headroom
from jupyter_gpushare.session.parking.surroundings import probe_kernel
from tests.session.parking.preflight_row import HOLDER, STAYS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.session.parking.preflight_row import Server, Spec

#: Where Linux is told which process id it gave last; it gives the next one to the next process.
LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
#: Leaves a holder behind that descends from nobody here, and says its process id.
DETACH = """
import os, subprocess, sys
command = [sys.executable, "-c", sys.argv[1], str(os.getpid())]
print(subprocess.Popen(command, start_new_session=True).pid, flush=True)
"""


@asynccontextmanager
async def foreign_architecture(server: Server) -> AsyncIterator[None]:
    """The host says that it is another one. A simulated driver would not mind, so it passes for NVIDIA's."""
    async with _passing_for_nvidia(server, "aarch64"):
        yield


@asynccontextmanager
async def host_that_counts(server: Server) -> AsyncIterator[None]:
    """The host's own free memory counts: simulated memory is mostly holes and would take none of it."""
    async with _passing_for_nvidia(server, "x86_64"):
        yield


@asynccontextmanager
async def _passing_for_nvidia(server: Server, architecture: str) -> AsyncIterator[None]:
    driver = server.session.parking.driver
    known = msgspec.structs.replace(await driver.driver(), vendor="nvidia", version="580.95.05")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "_driver", known)
        patch.setattr(platform, "machine", lambda: architecture)
        yield


@asynccontextmanager
async def near_memory_limit(server: Server) -> AsyncIterator[None]:
    """The control groups above every process leave 300 MiB; looked at as on a real device, where memory takes room."""
    groups = server.machine.path.parent / "cgroup"
    for version, limit, use in (
        ("", "memory.max", "memory.current"),
        ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ):
        (groups / version).mkdir(exist_ok=True)
        (groups / version / limit).write_text(str(1 << 30))
        (groups / version / use).write_text(str((1 << 30) - (300 << 20)))
    examiner = server.session.parking.examiner
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gather, "cgroup_headroom", partial(cgroup_headroom, cgroups=groups))
        patch.setattr(examiner, "_at", replace(examiner._at, features=None))
        yield


@asynccontextmanager
async def pid_of_a_thread(server: Server) -> AsyncIterator[None]:
    """The driver lists the kernel under the id of one of its threads, whose files are the kernel's own."""
    kernel = server.session.kernels.pid(server.kernel_id)
    # The oldest one lives as long as the kernel.
    thread = min(one.id for one in psutil.Process(kernel).threads() if one.id != kernel)
    server.machine.inject(MisreportedPids(thread))
    yield
    server.machine.clear()


@asynccontextmanager
async def end_of_the_child(server: Server) -> AsyncIterator[None]:
    """The kernel's child ends after the devices were read, and its parent takes no notice."""

    async def end() -> None:
        pid = _child_of(server)
        os.kill(pid, signal.SIGKILL)
        await server.until(lambda: identify(pid) is None)
        assert psutil.Process(pid).status() == psutil.STATUS_ZOMBIE

    async with _after_the_reading(server, end):
        yield


@asynccontextmanager
async def another_with_its_pid(server: Server) -> AsyncIterator[None]:
    """The kernel's child ends after the devices were read, and another process gets its id."""
    taken: list[subprocess.Popen[bytes]] = []

    async def end() -> None:
        pid = _child_of(server)
        os.kill(pid, signal.SIGKILL)
        await server.until(lambda: not psutil.pid_exists(pid))
        await server.until(lambda: _take(pid, taken))

    try:
        async with _after_the_reading(server, end):
            yield
    finally:
        for process in taken:
            process.kill()
            process.wait()


def _take(pid: int, taken: list[subprocess.Popen[bytes]]) -> bool:
    """Whether a new process has that id: others may start one in the same moment."""
    LAST_PID.write_text(str(pid - 1))
    process = subprocess.Popen(["/bin/sleep", "600"])
    taken.append(process)
    return process.pid == pid


def _child_of(server: Server) -> int:
    """The other process of the kernel that holds a GPU."""
    held = {one.process.pid for one in server.machine.occupancy.state().held}
    (child,) = held - {server.session.kernels.pid(server.kernel_id)}
    return child


@asynccontextmanager
async def _after_the_reading(server: Server, happens: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    """In an examination, between the reading of the devices and the look at their processes, that happens once."""
    examiner = server.session.parking.examiner
    asked = examiner._at
    await asked.ask_driver()  # from now on a mere look does not
    turns = iter(("reading", "happening"))
    turn = next(turns)

    async def ask_driver() -> Any:
        nonlocal turn
        driver = await asked.ask_driver()
        turn = next(turns, "")
        return driver

    async def budget_left() -> int | None:
        nonlocal turn
        if turn == "happening":
            turn = ""
            await happens()
        left: int | None = await asked.budget_left()
        return left

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(examiner, "_at", replace(asked, ask_driver=ask_driver, budget_left=budget_left))
        yield
    assert not turn, "the kernel was never examined"


@asynccontextmanager
async def host_pids(server: Server) -> AsyncIterator[None]:
    """The driver reports process ids of another namespace."""
    server.machine.inject(HostPids())
    yield
    server.machine.clear()


@asynccontextmanager
async def hasty_server(server: Server) -> AsyncIterator[None]:
    """The server waits less long for a kernel that does not answer, so that the test is shorter."""
    examiner = server.session.parking.examiner
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(examiner, "_at", replace(examiner._at, probe=probe_kernel(server.app.kernel_manager, 0.3)))
        yield
    server.session.parking.previews.forget(server.kernel_id)


@asynccontextmanager
async def running_cell(server: Server) -> AsyncIterator[None]:
    """A cell that does not end before it is interrupted."""
    (await server.page_of(server.kernel_id)).execute("import time; time.sleep(600)")
    kernel = server.session.kernels.get(server.kernel_id)
    await server.until(lambda: kernel.running.startswith("import time"))
    yield
    await server.app.kernel_manager.interrupt_kernel(server.kernel_id)
    await server.until(lambda: not kernel.cells)


@asynccontextmanager
async def program_of_the_server(_server: Server) -> AsyncIterator[None]:
    """A child of the server that is no kernel holds a GPU."""
    with _say_holding([sys.executable, "-c", HOLDER + STAYS]) as program:
        try:
            assert await asyncio.to_thread(program.stdout.readline) == "holding\n"
            yield
        finally:
            program.kill()


@asynccontextmanager
async def stranger(server: Server) -> AsyncIterator[None]:
    """A program that descends from nobody here holds a GPU."""
    with _say_holding([sys.executable, "-c", DETACH, HOLDER + STAYS]) as parent:
        pid = int(await asyncio.to_thread(parent.stdout.readline))
        try:
            assert await asyncio.to_thread(parent.stdout.readline) == "holding\n"
            yield
        finally:
            os.kill(pid, signal.SIGKILL)
        await server.until(lambda: identify(pid) is None)


def _say_holding(command: list[str]) -> Any:
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def of_another_provisioner(_folder: Path) -> Spec:
    """A kernel spec that names its own provisioner keeps it."""
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    return {"argv": argv, "metadata": {"kernel_provisioner": {"provisioner_name": "local-provisioner"}}}


def of_another_language(folder: Path) -> Spec:
    """A kernel that nobody can tell to be IPython's by its command."""
    program = folder / "language.py"
    program.write_text("from ipykernel import kernelapp\nkernelapp.launch_new_instance()\n")
    return {"argv": [sys.executable, str(program), "-f", "{connection_file}"]}


def of_another_environment(folder: Path) -> Spec:
    """A Python without our package in its own prefix."""
    python = folder / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    argv = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    path = [str(Path(__file__).parents[3]), *filter(None, sys.path)]
    return {"argv": argv, "env": {"PYTHONPATH": os.pathsep.join(path)}}
