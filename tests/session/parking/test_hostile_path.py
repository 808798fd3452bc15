"""The whole path with everything against it, in each of its phases: real server, real kernels, hostile machine."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.devices.simulated.faults import FailsAt, HangsAt, OutOfMemory, Slow
from jupyter_gpushare.parking.host_memory import HostMemory
from jupyter_gpushare.parking.remote_checkpoint import Deadlines
from tests.session.parking.conftest import CHECK, HOLD

if TYPE_CHECKING:
    from pathlib import Path

#: In these tests the driver is given up soon.
SOON = Deadlines(ask_s=0.4, small_s=0.4, copy_s=0.4, lock_wait_s=0.1)


class DiskFillsUp(HostMemory):
    """Books, and cannot write down that the memory has landed: by then the GPU state is away."""

    def landed(self, kernel_id: str) -> None:
        raise OSError(28, "No space left on device", kernel_id)


@pytest.fixture(name="holding")
def _holding(start_kernel: Any, run: Any, api: Any) -> Any:
    """Starts a kernel that holds a GPU; its id."""

    async def holding(path: str = "train.ipynb") -> str:
        kernel_id: str = await start_kernel(path)
        assert (await run(kernel_id, HOLD))["status"] == "ok"
        await api("session")
        return kernel_id

    return holding


@pytest.fixture(name="driver")
def _driver(session: Any) -> Any:
    """Moves GPU state, and is given up soon, once it has started."""

    async def driver() -> Any:
        await session.parking.driver._opened()
        session.parking.driver._checkpoint.deadlines = SOON
        return session.parking.driver

    return driver


@pytest.fixture(name="phase")
def _phase(session: Any, until: Any) -> Any:
    """Waits until a kernel is in that status, behind its closed gate."""

    async def phase(kernel_id: str, status: str, step: str = "") -> None:
        record = session.parking.parkings.of(kernel_id)
        await until(lambda: record.status == status and (not step or record.step == step))
        assert not session.parking.gates.of(kernel_id).is_open

    return phase


async def test_a_fault_of_ours_after_the_copy_opens_no_gate(
    holding: Any, driver: Any, park: Any, phase: Any, machine: Any, page_of: Any, until: Any
) -> None:
    """What cannot be brought back at once stays behind its gate: a cell would touch a GPU that is not there."""
    kernel_id, moves = await holding(), await driver()
    machine.inject(OutOfMemory())
    moves._parker._host_memory = DiskFillsUp(moves._memory._directory, 1 << 40)
    released = await park(kernel_id)
    assert released["status"] == "failed"
    await phase(kernel_id, "waiting")
    page = await page_of(kernel_id)
    cell = page.execute(CHECK)
    machine.clear()
    assert (await until(lambda: page.answers(cell, "execute_reply")))[0]["status"] == "ok"


@pytest.mark.parametrize("call", ["lock", "checkpoint"])
async def test_a_call_that_hangs_in_a_park_is_given_up(
    holding: Any, driver: Any, park: Any, run: Any, machine: Any, session: Any, until: Any, call: Any
) -> None:
    """The server lives on, and once the driver answers again so does the notebook, with every byte."""
    kernel_id = await holding()
    await driver()
    machine.inject(HangsAt(call))
    released = await park(kernel_id)
    assert (released["status"], released["message"]["code"]) == ("failed", "CANNOT_PARK")
    machine.clear()
    await until(lambda: session.parking.gates.of(kernel_id).is_open)
    assert (await run(kernel_id, CHECK))["status"] == "ok"


@pytest.mark.parametrize("fault", [HangsAt("claim"), HangsAt("restore"), FailsAt("claim"), FailsAt("get_state")])
async def test_whatever_a_resume_meets_it_is_tried_again(
    holding: Any, driver: Any, park: Any, machine: Any, page_of: Any, until: Any, phase: Any, fault: Any
) -> None:
    """The cell waits behind the gate, with a reason to read, and finds every byte."""
    kernel_id = await holding()
    await driver()
    assert (await park(kernel_id))["status"] == "released"
    machine.inject(fault)
    page = await page_of(kernel_id)
    cell = page.execute(CHECK)
    await phase(kernel_id, "waiting")
    assert not page.answers(cell, "execute_reply")
    machine.clear()
    assert (await until(lambda: page.answers(cell, "execute_reply")))[0]["status"] == "ok"


async def test_a_neighbour_takes_the_room(
    holding: Any, start_kernel: Any, park: Any, run: Any, phase: Any, page_of: Any, until: Any
) -> None:
    """Another program fills the device meanwhile and writes all over it: nothing is restored before it has left."""
    kernel_id = await holding()
    assert (await park(kernel_id))["status"] == "released"
    neighbour = await start_kernel("neighbour.ipynb")
    take = (
        "from jupyter_gpushare.devices.simulated import cuda\nall = cuda.allocate(cuda.mem_get_info()[0])\nall.fill(1)"
    )
    assert (await run(neighbour, take))["status"] == "ok"
    page = await page_of(kernel_id)
    cell = page.execute(CHECK)
    await phase(kernel_id, "waiting")
    assert not page.answers(cell, "execute_reply")
    await run(neighbour, "all.free(); cuda.empty_cache()")
    assert (await until(lambda: page.answers(cell, "execute_reply")))[0]["status"] == "ok"


@pytest.mark.parametrize("gpushare_options", [{"freeze_parked": True}])
async def test_a_frozen_kernel_comes_back(
    holding: Any, park: Any, run: Any, session: Any, page_of: Any, until: Any
) -> None:
    """Stopped while it is parked, it still opens in a new page, and goes on with its next cell."""
    kernel_id = await holding()
    for _ in range(2):
        assert (await park(kernel_id))["status"] == "released"
        assert _state(session.kernels.pid(kernel_id)) == "T"
        page = await page_of(kernel_id, another=True)
        asked = page.send("kernel_info_request", {})
        assert (await until(lambda page=page, asked=asked: page.answers(asked, "kernel_info_reply")))[0]
        assert _state(session.kernels.pid(kernel_id)) == "T"
        assert (await run(kernel_id, CHECK))["status"] == "ok"


@pytest.mark.parametrize("gpushare_options", [{"freeze_parked": True}])
async def test_a_frozen_kernel_can_be_restarted(
    holding: Any, park: Any, run: Any, jp_serverapp: Any, session: Any, hears: Any
) -> None:
    """A process that is stopped is ended plainly, and its successor is as any."""
    kernel_id = await holding()
    assert (await park(kernel_id))["status"] == "released"
    before = session.kernels.pid(kernel_id)
    await jp_serverapp.kernel_manager.restart_kernel(kernel_id)
    assert _state(before) in ("", "Z")
    await hears(kernel_id)
    assert (await run(kernel_id, HOLD))["status"] == "ok"


PHASES = [("parking", "lock"), ("parking", "checkpoint"), ("resuming", "restore"), ("resuming", "unlock")]


@pytest.fixture(name="in_phase")
def _in_phase(holding: Any, park: Any, machine: Any, page_of: Any, phase: Any) -> Any:
    """Brings a kernel that holds a GPU into the middle of a move; its id, and what becomes of the park."""

    async def in_phase(status: str, step: str) -> tuple[str, Any]:
        kernel_id = await holding()
        if status == "resuming":
            assert (await park(kernel_id))["status"] == "released"
        machine.inject(Slow(0.8, step))  # type: ignore[arg-type]
        asked = asyncio.ensure_future(park(kernel_id)) if status == "parking" else None
        if status == "resuming":
            (await page_of(kernel_id)).execute("ran = True")
        await phase(kernel_id, status, step)
        return kernel_id, asked

    return in_phase


@pytest.mark.parametrize(("status", "step"), PHASES)
async def test_a_restart_in_the_middle(
    in_phase: Any,
    run: Any,
    park: Any,
    machine: Any,
    session: Any,
    jp_serverapp: Any,
    until: Any,
    hears: Any,
    status: str,
    step: str,
) -> None:
    """Whatever was moving, the new process is as any: nothing held runs in it, and it can be parked."""
    kernel_id, asked = await in_phase(status, step)
    await jp_serverapp.kernel_manager.restart_kernel(kernel_id)
    machine.clear()
    if asked is not None:
        assert (await asked)["message"]["values"]["reason_code"] == "KERNEL_ENDED"
    await hears(kernel_id)
    assert (await run(kernel_id, f"assert 'ran' not in globals()\n{HOLD}"))["status"] == "ok"
    await until(lambda: not machine.occupancy.parked())

    async def parks() -> bool:
        # Right after its cell the kernel may still be taken for a working one.
        return bool((await park(kernel_id))["status"] == "released")

    await until(parks)
    assert (await run(kernel_id, CHECK))["status"] == "ok"
    assert [notice.kind for notice in session.parking.notices.models()].count("loss") == 0


@pytest.mark.parametrize(("status", "step"), PHASES)
async def test_an_end_in_the_middle(
    in_phase: Any, machine: Any, session: Any, jp_serverapp: Any, until: Any, status: str, step: str
) -> None:
    """A notebook that is closed leaves no memory, no booking and no task, at whatever moment."""
    kernel_id, asked = await in_phase(status, step)
    await jp_serverapp.kernel_manager.shutdown_kernel(kernel_id)
    machine.clear()
    if asked is not None:
        assert (await asked)["status"] == "failed"
    await until(lambda: not machine.occupancy.parked() and not session.parking.parkings._endings)
    assert await session.parking.driver.budget_left() == session.parking.driver._budget
    assert kernel_id not in session.parking.gates._gates


@pytest.mark.parametrize(("status", "step"), PHASES)
async def test_a_death_in_the_middle(
    in_phase: Any, machine: Any, session: Any, run: Any, until: Any, hears: Any, status: str, step: str
) -> None:
    """Killed from outside, its successor starts behind an open gate, and nothing stays parked."""
    kernel_id, asked = await in_phase(status, step)
    before = session.kernels.pid(kernel_id)
    os.kill(before, signal.SIGKILL)
    machine.clear()
    if asked is not None:
        assert (await asked)["status"] == "failed"
    await until(lambda: session.kernels.pid(kernel_id) not in (None, before))
    await until(lambda: session.parking.gates.of(kernel_id).is_open)
    await hears(kernel_id)
    assert (await run(kernel_id, HOLD))["status"] == "ok"
    await until(lambda: not machine.occupancy.parked())


@pytest.mark.parametrize(("status", "step"), PHASES)
async def test_an_interrupt_in_the_middle(
    in_phase: Any, machine: Any, page_of: Any, run: Any, until: Any, jp_serverapp: Any, status: str, step: str
) -> None:
    """A cell that waits is aborted, at whatever moment, and the next one finds every byte."""
    kernel_id, asked = await in_phase(status, step)
    page = await page_of(kernel_id)
    cell = page.execute("ran = True")
    await until(lambda: [each for each in page.seen if each["parent_header"].get("msg_id") == cell])
    await jp_serverapp.kernel_manager.interrupt_kernel(kernel_id)
    assert (await until(lambda: page.answers(cell, "execute_reply")))[0]["status"] == "aborted"
    machine.clear()
    if asked is not None:
        assert (await asked)["status"] == "released"
    assert (await run(kernel_id, f"assert 'ran' not in globals()\n{CHECK}"))["status"] == "ok"


@pytest.mark.parametrize(("status", "step"), PHASES)
async def test_a_server_that_stops_in_the_middle(
    in_phase: Any, machine: Any, session: Any, jp_serverapp: Any, until: Any, status: str, step: str
) -> None:
    """It ends soon, ends its kernels plainly as nothing may touch a GPU that is away, and leaves nothing behind."""
    kernel_id, asked = await in_phase(status, step)
    before = session.kernels.pid(kernel_id)
    async with asyncio.timeout(20):
        await session.stop()
    assert not session.parking.gates.of(kernel_id).is_open
    await jp_serverapp.kernel_manager.shutdown_kernel(kernel_id)
    assert _state(before) in ("", "Z")
    machine.clear()
    if asked is not None:
        asked.cancel()
    await until(lambda: not machine.occupancy.parked())
    assert not await asyncio.to_thread(HostMemory(session.parking.driver._memory._directory, 1 << 40).booked)


async def test_a_cell_that_awaits_is_a_cell_that_runs(
    holding: Any, run: Any, park: Any, page_of: Any, until: Any, session: Any, tmp_path: Path
) -> None:
    """A cell that only awaits is seen by the task that it is, even by a server that had not heard of the cell."""
    kernel_id, go_on = await holding(), tmp_path / "go on"
    page = await page_of(kernel_id)
    cell = page.execute(
        f"import asyncio, os\nwhile not os.path.exists({str(go_on)!r}): await asyncio.sleep(0.02)\n{CHECK}"
    )
    await until(lambda: session.kernels.get(kernel_id).running)
    session.kernels.get(kernel_id).cells.clear()
    released = await park(kernel_id)
    assert released["message"]["values"].get("reason_code") == "BACKGROUND_WORK", released["message"]["text"]
    go_on.touch()
    assert (await until(lambda: page.answers(cell, "execute_reply")))[0]["status"] == "ok"
    assert (await run(kernel_id, CHECK))["status"] == "ok"


async def test_every_sentence_on_the_way_is_true(
    holding: Any, park: Any, page_of: Any, until: Any, session: Any, machine: Any
) -> None:
    """What a page is shown from the press of the button to the cell's end: no word about memory that is not held."""
    kernel_id = await holding()
    watcher = Frames()
    session.watch(watcher)
    machine.inject(Slow(0.5, "checkpoint"))
    assert (await park(kernel_id))["status"] == "released"
    await until(lambda: watcher.codes[-1:] == ["PARKED"], deadline_s=10)
    machine.inject(Slow(0.5, "restore"))
    page = await page_of(kernel_id)
    cell = page.execute(CHECK)
    await until(lambda: page.answers(cell, "execute_reply"))
    await until(lambda: watcher.codes[-1:] == ["RESUMED"], deadline_s=10)
    session.unwatch(watcher)
    moving = watcher.codes[watcher.codes.index("PARKING") :]
    assert [code for code, before in zip(moving, ["", *moving], strict=False) if code != before] == [
        "PARKING",
        "PARKED",
        "RESUMING",
        "RESUMED",
    ]


class Frames:
    """Remembers the state's code in each frame of the stream."""

    def __init__(self) -> None:
        self.codes: list[str] = []

    def show(self, frame: Any) -> None:
        self.codes.append(json.loads(frame.for_watcher(None))["state"]["code"])


async def test_many_kernels_come_and_go_at_once(
    start_kernel: Any, run: Any, api: Any, park: Any, session: Any, machine: Any
) -> None:
    """Four kernels on one device are parked at once and wanted back at once: each waits for its turn, none is lost."""
    kernels = [await start_kernel(f"{name}.ipynb") for name in "abcd"]
    for kernel_id in kernels:
        await run(kernel_id, HOLD)
    await api("session")
    assert (await park())["message"]["values"]["others"] == ""
    assert len(machine.occupancy.parked()) == len(kernels)
    replies = await asyncio.gather(*(run(kernel_id, CHECK) for kernel_id in kernels))
    assert [reply["status"] for reply in replies] == ["ok"] * len(kernels)
    assert machine.occupancy.parked() == {}


def _state(pid: int) -> str:
    """A process's state as the system says it, empty when it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123  # of /proc
            return stat.read().rpartition(")")[2].split()[0]
    except OSError:
        return ""
