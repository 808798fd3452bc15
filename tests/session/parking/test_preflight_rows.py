"""Every row of preflight's table, brought about for real: a kernel that holds a GPU, and what stands against it.

Each is refused with its own reason and remedy before anything is touched, and parks once the obstacle is gone.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from jupyter_gpushare.devices.simulated.faults import DriverVersion
from jupyter_gpushare.devices.simulated.machine import DeviceSpec, Machine
from jupyter_gpushare.parking.conditions import CONDITIONS
from jupyter_gpushare.quantity import Memory
from tests.session.parking.conftest import CHECK, HOLD
from tests.session.parking.preflight_obstacles import (
    LAST_PID,
    another_with_its_pid,
    end_of_the_child,
    foreign_architecture,
    hasty_server,
    host_pids,
    host_that_counts,
    near_memory_limit,
    of_another_environment,
    of_another_language,
    of_another_provisioner,
    pid_of_a_thread,
    program_of_the_server,
    running_cell,
    stranger,
)
from tests.session.parking.preflight_row import CROWD, GATEWAY, PROBE, STAYS, Row, Server, child

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

LIMIT = "the memory limit of the kernel's container or session is too near"
#: As many bytes as this host has: no copy of them fits beside what runs.
HOST = psutil.virtual_memory().total
#: A cell after which children vanish as they end, so that their process ids are free at once.
FORGETFUL = "import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"

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
    Row("ZOMBIE", cell=child(STAYS), beside=end_of_the_child, undo="child.wait()", answer="failed"),
    Row("PID_REUSED", beside=pid_of_a_thread, undo=""),
    Row(
        "PID_REUSED",
        cell=FORGETFUL + child(STAYS),
        beside=another_with_its_pid,
        undo="",
        needs=LAST_PID,
        answer="failed",
    ),
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
    Row("NO_HOST_MEMORY", LIMIT, beside=near_memory_limit, undo=""),
    Row(
        "NO_HOST_MEMORY",
        "the host has too little memory",
        cell=f"more = cuda.allocate({HOST})",
        beside=host_that_counts,
        undo="del more; cuda.empty_cache()",
        devices=(DeviceSpec(total=Memory(2 * HOST)),),
        options={"host_memory_budget": f"{4 * HOST}B"},
    ),
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
    if row.needs is not None and not os.access(row.needs, os.W_OK):
        pytest.skip(f"{row.needs} cannot be written: only root may choose a process id")
    kernel_id = await started()
    for cell in filter(None, (row.holds, row.cell)):
        assert (reply := await run(kernel_id, cell))["status"] == "ok", reply
    async with row.beside(Server(kernel_id, jp_serverapp, session, machine, page_of, until)):
        refused = await park(kernel_id)
    assert (refused["status"], refused.get("confirm", "")) == (row.answer, ""), refused
    values = refused["message"]["values"]
    assert (values["reason_code"], bool(values["remedy"])) == (row.code, True), values
    assert row.code == "CELL_RUNNING" or row.says(values["reason"]), values
    assert (session.parking.parkings.of(kernel_id).parks, machine.occupancy.parked()) == (0, {})
    if row.undo is not None:
        assert (reply := await run(kernel_id, row.undo or "pass"))["status"] == "ok", reply
        assert (released := await park(kernel_id))["status"] == "released", released
    if HOLD in {row.holds, row.undo}:
        assert (reply := await run(kernel_id, CHECK))["status"] == "ok", reply


def test_no_row_is_forgotten() -> None:
    """A row that is new in the table fails here until a kernel behind a real server is refused for it."""
    assert {row.condition.title for row in (*ROWS, GATEWAY)} == {condition.title for condition in CONDITIONS}
