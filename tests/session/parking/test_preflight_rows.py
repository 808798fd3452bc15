"""Every row of preflight's table, brought about for real: a kernel that holds a GPU, and what stands against it.

Each is refused with its own reason and remedy before anything is touched, and parks once the obstacle is gone.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import re
import signal
import subprocess
import sys
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from jupyter_gpushare.devices.identity import identify
from jupyter_gpushare.devices.simulated.faults import DriverVersion, HostPids
from jupyter_gpushare.devices.simulated.machine import DeviceSpec, Machine
from jupyter_gpushare.parking.conditions import CONDITIONS, Condition
from jupyter_gpushare.session.parking.surroundings import probe_kernel
from tests.session.parking.conftest import CHECK, HOLD

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
    from contextlib import AbstractAsyncContextManager

Spec = dict[str, Any]

#: A program that holds a GPU. With a process id as its argument it first waits until that parent has ended.
HOLDER = """
import os, signal, sys, time
from jupyter_gpushare.devices.simulated import cuda
while sys.argv[1:] and os.getppid() == int(sys.argv[1]):
    time.sleep(0.01)
held = cuda.allocate("64MiB")
print("holding", flush=True)
"""
STAYS = "time.sleep(600)"
#: Leaves a holder behind that descends from nobody here, and says its process id.
DETACH = """
import os, subprocess, sys
command = [sys.executable, "-c", sys.argv[1], str(os.getpid())]
print(subprocess.Popen(command, start_new_session=True).pid, flush=True)
"""
PROBE = "probes = get_ipython().kernel.control_handlers\nprobe = probes['gpushare_probe_request']\n"
#: More threads than preflight looks through.
CROWD = """
import threading
ended, usual = threading.Event(), threading.stack_size(64 << 10)
crowd = [threading.Thread(target=ended.wait, daemon=True) for _ in range(2100)]
for thread in crowd: thread.start()
threading.stack_size(usual)
"""


def child(then: str) -> str:
    """A cell that starts a child of the kernel; it holds a GPU, too, and then does that."""
    command = f"[sys.executable, '-c', {HOLDER + then!r}]"
    begin = f"import os, signal, subprocess, sys\nchild = subprocess.Popen({command}, stdout=subprocess.PIPE)\n"
    return begin + "assert child.stdout.readline() == b'holding\\n'\n"


@dataclass(frozen=True)
class Server:
    """The real server with the kernel in question, for what is done beside the kernel's cells."""

    kernel_id: str
    app: Any
    session: Any
    machine: Machine
    page_of: Any
    until: Any


def nothing_beside(_server: Server) -> AbstractAsyncContextManager[None]:
    """What the kernel itself does is enough."""
    return nullcontext()


@asynccontextmanager
async def foreign_architecture(server: Server) -> AsyncIterator[None]:
    """The host says that it is another one. A simulated driver would not mind, so it passes for NVIDIA's."""
    driver = server.session.parking.driver
    known = msgspec.structs.replace(await driver.driver(), vendor="nvidia", version="580.95.05")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "_driver", known)
        patch.setattr(platform, "machine", lambda: "aarch64")
        yield


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


@dataclass(frozen=True)
class Row:
    """How one condition comes about.

    Attributes:
        code: the condition's.
        title: the condition's, where several have that code.
        holds: the cell that takes the GPU.
        cell: a further cell, which brings the obstacle about.
        beside: brings it about from outside the kernel, and ends it.
        undo: a cell after which the kernel can be parked; None where it cannot be mended while the server lives.
        version: of the driver.
        options: the server's.
        devices: the machine's, where the usual ones do not do.
        spec: makes the kernel's spec, where the usual one does not do.
    """

    code: str
    title: str = ""
    holds: str = HOLD
    cell: str = ""
    beside: Callable[[Server], AbstractAsyncContextManager[None]] = nothing_beside
    undo: str | None = None
    version: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    devices: tuple[DeviceSpec, ...] = ()
    spec: Callable[[Path], Spec] | None = None

    def __str__(self) -> str:
        return f"{self.code}: {self.title}" if self.title else self.code

    @property
    def condition(self) -> Condition:
        """The one row of the table that is meant."""
        (found,) = (one for one in CONDITIONS if one.code == self.code and self.title in ("", one.title))
        return found


ROWS = (
    Row("PARKING_OFF", options={"parking": "off"}),
    Row("NOT_X86", beside=foreign_architecture, undo=""),
    Row("NO_CHECKPOINT_SUPPORT", version="550.54.14"),
    Row("HARMFUL_DRIVER", version="610.57.04"),
    Row("NOT_IPYKERNEL", spec=of_another_language),
    Row("FOREIGN_PROVISIONER", spec=of_another_provisioner),
    Row("NO_KERNEL_PART", spec=of_another_environment),
    Row("MIG_DEVICE", devices=(DeviceSpec(mig=True),)),
    Row("UNKNOWN_PROCESSES", beside=host_pids, undo=""),
    Row("NOTHING_HELD", holds="from jupyter_gpushare.devices.simulated import cuda", undo=HOLD),
    Row(
        "OTHER_USER",
        cell=child(f"os.setuid(65534)\nprint('left', flush=True)\n{STAYS}") + "child.stdout.readline()",
        undo="child.kill(); child.wait()",
    ),
    Row("UNREADABLE", cell=CROWD, undo="ended.set()\nfor thread in crowd: thread.join()"),
    Row(
        "STOPPED",
        cell=child(f"signal.raise_signal(signal.SIGSTOP)\n{STAYS}") + "os.waitpid(child.pid, os.WUNTRACED)",
        undo="child.send_signal(signal.SIGCONT)",
    ),
    Row("MPS_CLIENT", cell="cuda.use('mps')"),
    Row("MANAGED_MEMORY", cell="cuda.use('managed_memory')"),
    Row("CUDA_IPC", cell="cuda.use('ipc')", version="580.95.05"),
    Row("NCCL", cell="cuda.use('nccl')", version="595.84"),
    Row("NO_HOST_MEMORY", "the host's parking budget is used up", options={"host_memory_budget": "256MiB"}),
    Row("GPU_OUTSIDE_KERNELS", beside=program_of_the_server, undo=""),
    Row("FOREIGN_PROCESSES", beside=stranger, undo=""),
    Row("CELL_RUNNING", beside=running_cell, undo=""),
    Row(
        "BACKGROUND_UNKNOWN",
        cell=f"{PROBE}probes['gpushare_probe_request'] = lambda *_: None",
        beside=hasty_server,
        undo="probes['gpushare_probe_request'] = probe",
    ),
    Row("NO_GATE_INSIDE", cell=f"{PROBE}probe.__self__._gated = False", undo="probe.__self__._gated = True"),
    Row(
        "PYTORCH_REFUSED",
        cell="import sys, types\nsys.modules['torch'] = types.ModuleType('torch')",
        undo="del sys.modules['torch']",
        version="570.86.15",
    ),
    Row(
        "BACKGROUND_WORK",
        cell="import threading\nended = threading.Event()\nwriter = threading.Thread(target=ended.wait)\nwriter.start()",
        undo="ended.set(); writer.join()",
    ),
)

#: What no test can bring about through a server, by title; tests/parking/test_preflight.py shows each of them.
LEFT = {
    "the kernel runs behind a gateway, on another host": "it needs a second server, and holds no GPU of this one",
    "a process has ended": "only in the moment between a reading of the devices and the look at its processes",
    "another process has the process id now, or the id is a thread's": "only in that same moment",
    "the host has too little memory": "simulated memory is mostly holes and takes none of it",
    "the memory limit of the kernel's container or session is too near": "simulated memory takes no host memory, so "
    "that no control group bounds it",
}


@pytest.fixture(name="row")
def _row() -> Row:
    return ROWS[0]


@pytest.fixture(name="machine")
def _machine(machine: Machine, row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """The machine that the row wants."""
    if row.devices:
        monkeypatch.setenv("GPUSHARE_SIMULATED_MACHINE", str(tmp_path / "special"))
        machine = Machine.create(tmp_path / "special", row.devices, copy_bytes_per_s=0)
    if row.version:
        machine.inject(DriverVersion(row.version))
    yield machine
    if row.devices:
        machine.close()


@pytest.fixture(name="gpushare_options")
def _gpushare_options(row: Row) -> dict[str, Any]:
    return row.options


@pytest.fixture(name="started")
def _started(
    row: Row, jp_serverapp: Any, jp_data_dir: Path, tmp_path: Path, client_of: Any
) -> Callable[[], Awaitable[str]]:
    """Starts a notebook's kernel of the spec that the row wants; its id."""

    async def started() -> str:
        if row.spec is not None:
            spec = jp_data_dir / "kernels" / "special" / "kernel.json"
            spec.parent.mkdir(parents=True)
            spec.write_text(json.dumps({"display_name": "special", "language": "python", **row.spec(tmp_path)}))
        name = "python3" if row.spec is None else "special"
        model = await jp_serverapp.session_manager.create_session("train.ipynb", "train.ipynb", "notebook", name)
        kernel_id: str = model["kernel"]["id"]
        await client_of(kernel_id).wait_for_ready(timeout=60)
        return kernel_id

    return started


@pytest.mark.parametrize("row", ROWS, ids=str)
async def test_a_row_of_the_table(
    row: Row,
    started: Any,
    run: Any,
    park: Any,
    session: Any,
    machine: Machine,
    jp_serverapp: Any,
    page_of: Any,
    until: Any,
) -> None:
    """Refused with exactly this reason and a remedy, nothing touched; parked as soon as the obstacle is gone."""
    if row.code == "OTHER_USER" and os.geteuid() != 0:
        pytest.skip("only root can start a process of another user")
    kernel_id = await started()
    for cell in filter(None, (row.holds, row.cell)):
        assert (reply := await run(kernel_id, cell))["status"] == "ok", reply
    async with row.beside(Server(kernel_id, jp_serverapp, session, machine, page_of, until)):
        refused = await park(kernel_id)
    assert (refused["status"], refused["confirm"]) == ("refused", ""), refused
    values = refused["message"]["values"]
    assert (values["reason_code"], bool(values["remedy"])) == (row.code, True), values
    assert row.code == "CELL_RUNNING" or _is_from(row.condition, values["reason"]), values
    assert (session.parking.parkings.of(kernel_id).parks, machine.occupancy.parked()) == (0, {})
    if row.undo is not None:
        assert (reply := await run(kernel_id, row.undo or "pass"))["status"] == "ok", reply
        assert (released := await park(kernel_id))["status"] == "released", released
    if HOLD in {row.holds, row.undo}:
        assert (reply := await run(kernel_id, CHECK))["status"] == "ok", reply


def _is_from(condition: Condition, sentence: str) -> bool:
    """Whether that row of the table said it: two may have one code."""
    parts = (re.escape(part) for part in re.split(r"{\w+}", condition.sentence))
    return re.fullmatch(".+".join(parts), sentence) is not None


def test_no_row_is_forgotten() -> None:
    """A row that is new in the table is brought about here, or says why it cannot be."""
    assert {row.condition.title for row in ROWS} | set(LEFT) == {condition.title for condition in CONDITIONS}
    assert not {row.condition.title for row in ROWS} & set(LEFT)
