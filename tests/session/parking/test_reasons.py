"""Why a park failed or a resume waits, each brought about through a real server, and gone with what caused it."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.devices.identity import identify, myself
from jupyter_gpushare.devices.simulated.faults import FailsAt, HangsAt
from jupyter_gpushare.parking.device_token import DeviceTokens
from jupyter_gpushare.parking.host_memory import HostMemory
from jupyter_gpushare.parking.simulated import SimulatedCheckpoint
from jupyter_gpushare.parking.trouble import gone
from jupyter_gpushare.session.parking.sentences import OTHER_WAYS
from tests.session.parking.conftest import CHECK, HOLD
from tests.session.parking.preflight_row import STAYS, child

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path


class DiskIsFull(HostMemory):
    """Nothing can be written down, so nothing may begin."""

    def book(self, *_: Any) -> Any:
        raise OSError(28, "No space left on device")


class HidesDevices:
    """A source of devices that has lost them, as after a reboot."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def devices(self) -> tuple[()]:
        return ()

    def read(self) -> tuple[()]:
        return ()


@contextmanager
def fault(machine: Any, *faults: Any) -> Iterator[None]:
    """The machine's driver fails so."""
    for each in faults:
        machine.inject(each)
    yield
    machine.clear()


@contextmanager
def full(machine: Any) -> Iterator[None]:
    """Somebody else holds all of each device."""
    books, devices = machine.occupancy, [device.uuid for device in machine.devices]
    contexts = [books.open_context(device, myself(), books.room(device)) for device in devices]
    yield
    for context in contexts:
        books.close_context(context)


@contextmanager
def token_of_another(machine: Any, locks: Path) -> Iterator[None]:
    """Another server of this host is bringing kernels back on its devices."""
    tokens = DeviceTokens(locks)
    assert all(tokens.take(device.uuid, "another") for device in machine.devices)
    yield
    tokens.drop("another")


@contextmanager
def without_devices(driver: Any) -> Iterator[None]:
    """The device is not there."""
    room = driver._room._room  # opened by the waits before
    room._source = HidesDevices(room._source)
    yield
    room._source = room._source.source


async def test_every_wait_for_room_says_what_it_waits_for(
    start_kernel: Any,
    run: Any,
    park: Any,
    parking_of: Any,
    api: Any,
    until: Any,
    session: Any,
    machine: Any,
    tmp_path: Path,
) -> None:
    """People read why their cell waits; nothing is restored before that is over, and then it is, with every byte."""
    kernel_id = await start_kernel()
    assert (await run(kernel_id, HOLD))["status"] == "ok"
    record = session.parking.parkings.of(kernel_id)
    waits: dict[str, tuple[str, Callable[[], AbstractContextManager[None]]]] = {
        "NO_ROOM": (r"[\d.]+ .B of [\d.]+ .B are free on its GPU", lambda: full(machine)),
        "ROOM_UNKNOWN": (r"its GPU does not say how much is free .*", lambda: fault(machine, FailsAt("memory"))),
        "CLAIM_REFUSED": (r"its GPU had no room when it was tried .*", lambda: fault(machine, FailsAt("claim"))),
        "RESTORE_TO_BE_REPEATED": (
            r"the driver did not bring it back yet .*",
            lambda: fault(machine, FailsAt("restore")),
        ),
        "STATE_UNKNOWN": (r"the driver does not say what became of .*", lambda: fault(machine, FailsAt("get_state"))),
        "DEVICE_TOKEN_TAKEN": (
            "another notebook is coming back on this device",
            lambda: token_of_another(machine, tmp_path / "locks"),
        ),
        "DEVICE_MISSING": (r"its GPU .* is not there", lambda: without_devices(session.parking.driver)),
    }
    for code, (clause, obstacle) in waits.items():
        assert (released := await park(kernel_id))["status"] == "released", (code, released)
        with obstacle():
            assert (await api("resumes", body={"kernel_id": kernel_id}))["kernel_ids"] == [kernel_id]

            async def said(clause: str = clause) -> bool:
                message = (await parking_of(kernel_id))["message"]
                why = message["values"].get("why", "")
                return message["code"] == "WAITING_FOR_ROOM" and re.fullmatch(clause, why) is not None

            await until(said)
            assert machine.occupancy.parked(), code
        await until(lambda: record.status == "running")
        assert (await run(kernel_id, CHECK))["status"] == "ok", code


@pytest.fixture(name="at_preflight")
def _at_preflight(park: Any, session: Any, machine: Any, until: Any) -> Any:
    """A park that stands still right before the driver is asked to lock; its processes, and how it ends."""

    @asynccontextmanager
    async def at_preflight(kernel_id: str) -> AsyncIterator[tuple[Any, Any]]:
        machine.inject(HangsAt("get_state"))
        asked = asyncio.ensure_future(park(kernel_id))
        record = session.parking.parkings.of(kernel_id)
        await until(lambda: (record.status, record.step) == ("parking", "preflight"))
        yield record.processes, asked
        machine.clear()
        await asked

    return at_preflight


async def test_what_changes_at_the_last_moment_ends_the_attempt(
    start_kernel: Any, run: Any, park: Any, machine: Any, at_preflight: Any, until: Any, session: Any
) -> None:
    """Locked by another program, or a process fewer than were counted: nothing is moved, and the next wish works."""
    kernel_id = await start_kernel()
    assert (await run(kernel_id, HOLD + child(STAYS)))["status"] == "ok"
    another = SimulatedCheckpoint(machine.path)
    async with at_preflight(kernel_id) as (processes, asked):
        another.lock(processes[0], 1000)
    assert asked.result()["message"]["values"]["reason_code"] == "UNEXPECTED_STATE", asked.result()
    another.unlock(processes[0])
    another.close()
    async with at_preflight(kernel_id) as (processes, asked):
        os.kill(processes[-1].pid, signal.SIGKILL)
        await until(lambda: identify(processes[-1].pid) is None)
    assert asked.result()["message"]["values"]["reason_code"] == "PROCESSES_CHANGED", asked.result()
    assert (session.parking.parkings.of(kernel_id).parks, machine.occupancy.parked()) == (0, {})
    assert (await run(kernel_id, f"child.wait()\n{CHECK}"))["status"] == "ok"
    assert (await park(kernel_id))["status"] == "released"


async def test_what_the_driver_or_the_disk_refuses_is_said_and_over(
    start_kernel: Any, run: Any, park: Any, machine: Any, session: Any, api: Any
) -> None:
    """A GPU that computes, a driver that declines, books that cannot be kept: each has its word, none its victim."""
    kernel_id = await start_kernel()
    assert (await run(kernel_id, HOLD))["status"] == "ok"
    await api("session")
    parker = (await _opened(session))._parker
    for code, obstacle in (
        ("GPU_BUSY", FailsAt("lock", code="not_ready")),
        ("DRIVER_REFUSED", FailsAt("checkpoint", code="not_supported")),
        ("PARK_FAILED", FailsAt("checkpoint")),
    ):
        with fault(machine, obstacle):
            failed = await park(kernel_id)
        assert (failed["status"], failed["message"]["values"]["reason_code"]) == ("failed", code), failed
        assert "Nothing is lost, the notebook goes on." in failed["message"]["text"]
        assert failed["message"]["values"]["remedy"] == OTHER_WAYS.text
        assert (await run(kernel_id, CHECK))["status"] == "ok", code
    books = parker._host_memory
    parker._host_memory = DiskIsFull(books._directory, 1 << 40)
    assert (await park(kernel_id))["message"]["values"]["reason_code"] == "NOT_RECORDED"
    parker._host_memory = books
    assert (await park(kernel_id))["status"] == "released"
    assert (await run(kernel_id, CHECK))["status"] == "ok"


async def test_a_process_that_ends_while_it_is_parked_is_told_as_a_loss(
    start_kernel: Any, run: Any, park: Any, machine: Any, session: Any, api: Any
) -> None:
    """What it held is lost and said to be; the kernel's own GPU state comes back with every byte."""
    kernel_id = await start_kernel("eda.ipynb")
    assert (await run(kernel_id, HOLD + child(STAYS)))["status"] == "ok"
    assert (await park(kernel_id))["status"] == "released"
    os.kill(session.parking.parkings.of(kernel_id).processes[-1].pid, signal.SIGKILL)
    assert (await run(kernel_id, CHECK))["status"] == "ok"
    (loss,) = [notice for notice in (await api("session"))["notices"] if notice["kind"] == "loss"]
    assert loss["message"]["code"] == "GPU_STATE_LOST"
    assert (gone().code, gone().text in loss["message"]["text"]) == ("PROCESS_GONE", True), loss
    assert machine.occupancy.parked() == {}


async def _opened(session: Any) -> Any:
    """The parking driver, started."""
    await session.parking.driver._opened()
    return session.parking.driver
