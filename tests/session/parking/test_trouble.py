"""What goes wrong on the way, at every step: it is undone and explained, and the notebook goes on with its data."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import Any

import pytest

from jupyter_gpushare.devices.simulated.faults import DiesAt, FailsAt, OutOfMemory, OwnerDiesAt
from tests.session.parking.conftest import CHECK, HOLD


@pytest.fixture(name="holding")
def _holding(start_kernel: Any, run: Any, api: Any) -> Any:
    """Starts a kernel that holds a GPU; its id."""

    async def holding(path: str = "train.ipynb", code: str = HOLD) -> str:
        kernel_id: str = await start_kernel(path)
        reply = await run(kernel_id, code)
        assert reply["status"] == "ok", reply
        await api("session")
        return kernel_id

    return holding


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        (FailsAt("lock"), "PARK_FAILED"),
        (FailsAt("checkpoint"), "PARK_FAILED"),
        (DiesAt("lock", when="before"), "PARK_FAILED"),
        (DiesAt("checkpoint", when="before"), "PARK_FAILED"),
        (DiesAt("lock", when="after"), ""),
        (DiesAt("checkpoint", when="after"), ""),
    ],
    ids=str,
)
async def test_a_park_that_fails_is_undone(
    holding: Any, run: Any, park: Any, machine: Any, session: Any, fault: Any, outcome: str
) -> None:
    """A step that did not happen is undone and said; one that happened although its caller died has parked it."""
    kernel_id = await holding()
    machine.inject(fault)
    released = await park(kernel_id)
    machine.clear()
    assert released["message"]["values"].get("reason_code", "") == outcome, released
    assert released["message"]["code"] == ("CANNOT_PARK" if outcome else "PARKED")
    assert session.parking.gates.of(kernel_id).is_open is bool(outcome)
    assert (await run(kernel_id, CHECK))["status"] == "ok"
    assert (await park(kernel_id))["status"] == "released"
    assert (await run(kernel_id, CHECK))["status"] == "ok"


@pytest.mark.parametrize("fault", [FailsAt("restore"), FailsAt("unlock"), DiesAt("restore", when="before")])
async def test_a_resume_that_fails_is_tried_again(
    holding: Any, park: Any, machine: Any, page_of: Any, until: Any, session: Any, fault: Any
) -> None:
    """The cell waits and the state stays safe until the step works; then the cell finds every byte."""
    kernel_id = await holding()
    await park(kernel_id)
    machine.inject(fault)
    page = await page_of(kernel_id)
    cell = page.execute(CHECK)
    parking = session.parking.parkings.of(kernel_id)
    await until(lambda: parking.status == "waiting")
    machine.clear()
    reply = (await until(lambda: page.answers(cell, "execute_reply")))[0]
    assert reply["status"] == "ok", reply


async def test_a_resume_waits_for_room(
    holding: Any, park: Any, machine: Any, page_of: Any, until: Any, parking_of: Any, api: Any
) -> None:
    """Without room nothing is restored: people read why it waits, and the cell runs as soon as there is room."""
    kernel_id = await holding()
    await park(kernel_id)
    machine.inject(OutOfMemory())
    page = await page_of(kernel_id)
    cell = page.execute(CHECK)

    async def is_said() -> bool:
        # Between two looks for room it is tried, which reads RESUMING for a moment.
        now = await parking_of(kernel_id)
        return (now["message"]["code"], now["held"]) == ("WAITING_FOR_ROOM", 1)

    async def is_said_of_the_session() -> bool:
        return bool((await api("session"))["state"]["code"] == "WAITING_FOR_ROOM")

    await until(is_said)
    await until(is_said_of_the_session)
    assert not page.answers(cell, "execute_reply")
    machine.clear()
    reply = (await until(lambda: page.answers(cell, "execute_reply")))[0]
    assert reply["status"] == "ok", reply


async def test_an_interrupt_while_it_waits_for_room(
    holding: Any, park: Any, machine: Any, page_of: Any, until: Any, run: Any, session: Any, jp_serverapp: Any
) -> None:
    """The held cell is aborted and never runs; with nothing waiting any more, the state stays where it is."""
    kernel_id = await holding()
    await park(kernel_id)
    machine.inject(OutOfMemory())
    page = await page_of(kernel_id)
    cell = page.execute("ran = True")
    parking = session.parking.parkings.of(kernel_id)
    await until(lambda: parking.status == "waiting")
    await jp_serverapp.kernel_manager.interrupt_kernel(kernel_id)
    assert (await until(lambda: page.answers(cell, "execute_reply")))[0]["status"] == "aborted"
    await until(lambda: parking.status == "parked")
    machine.clear()
    reply = await run(kernel_id, CHECK + "\nassert 'ran' not in globals()")
    assert reply["status"] == "ok", reply


async def test_a_restart_of_a_parked_kernel(
    holding: Any, park: Any, run: Any, session: Any, jp_serverapp: Any, machine: Any, hears: Any
) -> None:
    """A restart throws the old state away, with its host memory and its booking, and the new process is as any."""
    kernel_id = await holding()
    await park(kernel_id)
    await jp_serverapp.kernel_manager.restart_kernel(kernel_id)
    assert session.parking.parkings.of(kernel_id).status == "running"
    await hears(kernel_id)
    assert (await run(kernel_id, HOLD))["status"] == "ok"
    assert machine.occupancy.parked() == {}
    again = await park(kernel_id)
    assert again["status"] == "released", again["message"]["text"]
    assert (await run(kernel_id, CHECK))["status"] == "ok"


async def test_a_shutdown_of_a_parked_kernel(
    holding: Any, park: Any, session: Any, jp_serverapp: Any, machine: Any, until: Any
) -> None:
    """It is a plain kill: no way out of the process may touch the GPU; nothing of it is left anywhere."""
    kernel_id = await holding()
    await park(kernel_id)
    await jp_serverapp.kernel_manager.shutdown_kernel(kernel_id)
    assert kernel_id not in {parking.kernel_id for parking in session.parking.parkings.all()}

    async def is_clean() -> bool:
        booked = await session.parking.driver.budget_left()
        return not machine.occupancy.parked() and booked == session.parking.driver._budget

    await until(is_clean)


async def test_a_kernel_that_dies_while_parked(holding: Any, park: Any, session: Any, until: Any, run: Any) -> None:
    """Killed from outside, it is forgotten, and its successor begins anew behind an open gate."""
    kernel_id = await holding()
    await park(kernel_id)
    os.kill(session.kernels.pid(kernel_id), signal.SIGKILL)
    await until(lambda: session.parking.parkings.of(kernel_id).status == "running")
    await until(lambda: session.parking.gates.of(kernel_id).is_open)


async def test_an_owner_that_dies_in_the_middle(
    holding: Any, park: Any, machine: Any, session: Any, until: Any
) -> None:
    """A kernel killed during the copy ends the attempt with a true word, and nothing stays booked or locked."""
    kernel_id = await holding()
    machine.inject(OwnerDiesAt("checkpoint"))
    released = await park(kernel_id)
    assert released["status"] == "failed", released
    machine.clear()
    await until(lambda: session.parking.parkings.of(kernel_id).status == "running")


BACKGROUND = "import threading; threading.Thread(target=threading.Event().wait, name='writer', daemon=True).start()"


async def test_background_work_is_never_parked(
    holding: Any, run: Any, park: Any, api: Any, session: Any, until: Any, parking_of: Any
) -> None:
    """A live thread of the user's refuses it, named, before anything is pressed; the gate was not even closed."""
    kernel_id = await holding()
    await run(kernel_id, BACKGROUND)

    async def is_told() -> Any:
        refusal = (await parking_of(kernel_id))["refusal"]
        return refusal if refusal and refusal["code"] == "BACKGROUND_WORK" else None

    refusal = await until(is_told)
    assert "writer" in refusal["text"]
    released = await park(kernel_id)
    assert released["message"]["values"]["reason_code"] == "BACKGROUND_WORK", released
    assert session.parking.parkings.of(kernel_id).parks == 0


@pytest.mark.parametrize(("feature", "code"), [("managed_memory", "MANAGED_MEMORY"), ("mps", "MPS_CLIENT")])
async def test_what_the_driver_cannot_park_is_refused(
    holding: Any, park: Any, feature: str, code: str, run: Any
) -> None:
    """Refused with its reason by preflight, so that the driver is never asked to do it."""
    kernel_id = await holding(code=f"{HOLD}\ncuda.use({feature!r})")
    released = await park(kernel_id)
    assert released["message"]["values"]["reason_code"] == code, released
    assert (await run(kernel_id, CHECK))["status"] == "ok"


async def test_a_cell_in_the_middle_goes_first_or_waits(holding: Any, park: Any, page_of: Any, until: Any) -> None:
    """A cell sent together with the wish to park is never lost and never runs while the state is away."""
    kernel_id = await holding()
    page = await page_of(kernel_id)
    for _ in range(8):
        cell, asked = page.execute(CHECK), asyncio.ensure_future(park(kernel_id, when="idle"))
        reply = (await until(lambda cell=cell: page.answers(cell, "execute_reply")))[0]
        assert reply["status"] == "ok", reply
        assert (await asked)["status"] == "released", await asked


@pytest.mark.parametrize("gpushare_options", [{"parking": "off"}])
async def test_one_switch_stops_all_parking(holding: Any, park: Any, api: Any) -> None:
    """With parking off nothing is parked, not even when asked to, and the level is not offered."""
    kernel_id = await holding()
    assert (await park(kernel_id))["message"]["values"]["reason_code"] == "PARKING_OFF"
    snapshot = await api("session")
    assert (snapshot["parking_mode"], snapshot["kernels"][0]["levels"][0]) == ("off", "free_cache")
