"""What people read in the states that the other paths do not pass: a real server, real kernels, the simulated machine."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_gpushare.devices.simulated.faults import DriverLost, Slow
from jupyter_gpushare.session.idle.policy import FixedTimeout
from jupyter_gpushare.session.parking.sentences import ended_parked
from tests.session.parking.conftest import CHECK, HOLD


async def test_before_anything_is_pressed(start_kernel: Any, run: Any, state_is: Any, word_is: Any) -> None:
    """A share that is unused, then one that is held: what is held, and what pressing Release would do."""
    kernel_id = await start_kernel()
    assert "Nothing is held" in await state_is("NOTHING_HELD")
    await run(kernel_id, HOLD)
    assert "0.5 GB are still held" in await state_is("HOLDING")
    parking = await word_is(kernel_id, "PARKABLE")
    assert (parking["status"], parking["refusal"]) == ("running", None)
    assert parking["message"]["text"].startswith("0.5 GB can be parked in about ")


async def test_a_wish_that_waits_is_said_and_called_off(
    api: Any, start_kernel: Any, run: Any, page_of: Any, until: Any, session: Any, word_is: Any
) -> None:
    """A park that waits for its cell says so; Resume calls it off, and the cell never notices."""
    kernel_id = await start_kernel()
    await run(kernel_id, HOLD)
    await word_is(kernel_id, "PARKABLE")
    page = await page_of(kernel_id)
    cell = page.execute(f"import time; time.sleep(1)\n{CHECK}")
    await until(lambda: session.kernels.get(kernel_id).cells)
    begun = await api("releases", body={"level": "park", "kernel_id": kernel_id, "when": "idle"})
    assert "as soon as the cell has ended" in (await word_is(kernel_id, "ASKED"))["message"]["text"]
    await api("resumes", body={"kernel_id": kernel_id})

    async def ended() -> Any:
        now = await api("releases", begun["id"])
        return now if now["status"] != "running" else None

    assert (await until(ended))["message"]["values"]["reason_code"] == "NO_LONGER_WANTED"
    assert (await until(lambda: page.answers(cell, "execute_reply")))[0]["status"] == "ok"
    assert session.parking.parkings.of(kernel_id).parks == 0
    await word_is(kernel_id, "PARKABLE")


async def test_a_running_cell_with_a_quiet_gpu_is_told(
    start_kernel: Any, run: Any, page_of: Any, until: Any, session: Any, state_is: Any, word_is: Any
) -> None:
    """A state of its own: the cell runs, the GPU does nothing, and it stays its owner's."""
    session.parking.watch._policy = FixedTimeout(busy_quiet_s=0.2)
    kernel_id = await start_kernel()
    await run(kernel_id, HOLD)
    page = await page_of(kernel_id)
    cell = page.execute(f"import time; time.sleep(2)\n{CHECK}")
    assert "the GPU has been quiet for" in await state_is("BUSY_BUT_QUIET")
    assert (await word_is(kernel_id, "BUSY_BUT_QUIET"))["status"] == "running"
    assert (await until(lambda: page.answers(cell, "execute_reply")))[0]["status"] == "ok"


async def test_a_keep_that_ends_says_so(api: Any, start_kernel: Any, run: Any, word_is: Any) -> None:
    """Keep for… is taken back with a word that says what holds from now on."""
    kernel_id = await start_kernel()
    await run(kernel_id, HOLD)
    await api("keep", body={"seconds": 3600, "kernel_id": kernel_id})
    assert (await word_is(kernel_id, "KEPT"))["kept_until"]
    answer = await api("keep", body={"seconds": 0, "kernel_id": kernel_id})
    assert (answer.get("until"), answer["message"]["code"]) == (None, "KEPT_NO_LONGER")
    await word_is(kernel_id, "PARKABLE")


async def test_devices_that_are_not_read_in_time_park_nothing(
    start_kernel: Any, run: Any, park: Any, session: Any, machine: Any, word_is: Any
) -> None:
    """A driver that answers late is no ground to park on: it is said, the notebook goes on, and later it works."""
    kernel_id = await start_kernel()
    await run(kernel_id, HOLD)
    await word_is(kernel_id, "PARKABLE")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session.parking.examiner, "_deadline_s", 0.1)
        machine.inject(Slow(0.2, "memory"))
        refused = await park(kernel_id)
    assert refused["message"]["values"]["reason_code"] == "NOT_EXAMINED", refused
    machine.clear()
    assert (await park(kernel_id))["status"] == "released"
    assert (await run(kernel_id, CHECK))["status"] == "ok"


async def test_a_server_that_ends_names_what_was_parked(
    start_kernel: Any, run: Any, park: Any, session: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Parked kernels end with their server, as all kernels do; its log says which those were."""
    kernel_id = await start_kernel("eda.ipynb")
    await run(kernel_id, HOLD)
    assert (await park(kernel_id))["status"] == "released"
    await session.stop()
    said = ended_parked(["eda.ipynb"])
    assert (said.code, said.text in caplog.text) == ("PARKED_KERNELS_ENDED", True)


async def test_a_gpu_state_that_is_lost_is_said(
    api: Any, start_kernel: Any, run: Any, park: Any, session: Any, machine: Any
) -> None:
    """A driver that falls off the bus takes what was parked along: it is told, and the other variables are there."""
    kernel_id = await start_kernel("eda.ipynb")
    await run(kernel_id, f"{HOLD}\nnotes = 'by hand'")
    assert (await park(kernel_id))["status"] == "released"
    machine.inject(DriverLost())
    machine.clear()
    assert (await run(kernel_id, "assert notes == 'by hand'"))["status"] == "ok"
    (loss,) = [notice for notice in (await api("session"))["notices"] if notice["message"]["code"] == "GPU_STATE_LOST"]
    assert loss["message"]["values"]["notebook"] == "eda.ipynb"
    assert session.parking.gates.of(kernel_id).is_open
