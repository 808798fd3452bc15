"""What would crash a parked kernel or lose its state: none of it may reach it, whoever asks and however late."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jupyter_gpushare.devices.simulated.faults import Lag
from jupyter_gpushare.session.kernel_messages import request_free_cache
from tests.session.parking.conftest import CHECK, HOLD


@pytest.mark.parametrize("names_it", [True, False])
async def test_freeing_cache_leaves_a_parked_kernel_alone(
    start_kernel: Any, run: Any, api: Any, park: Any, until: Any, *, names_it: bool
) -> None:
    """A framework that is asked to free its cache while its GPU state is away would end the process."""
    kernel_id = await start_kernel("a.ipynb")
    await run(kernel_id, HOLD)
    await api("session")
    assert (await park(kernel_id))["status"] == "released"
    begun = await api("releases", body={"level": "free_cache", "kernel_id": kernel_id if names_it else None})

    async def answer() -> Any:
        now = await api("releases", begun["id"])
        return now if now["status"] != "running" else None

    assert (await until(answer))["status"] == "failed"
    assert (await run(kernel_id, CHECK))["status"] == "ok"


async def test_readings_that_lag_lose_nothing(
    start_kernel: Any, run: Any, api: Any, park: Any, machine: Any, session: Any
) -> None:
    """What a cell has just taken is counted although the driver does not show it yet: too little room would lose it."""
    kernel_id = await start_kernel("a.ipynb")
    await run(kernel_id, HOLD)
    await api("session")
    machine.inject(Lag(0.4))
    await run(kernel_id, "more = cuda.allocate('2GiB')\nmore.fill(seed=3)\nafter = more.checksum()")
    assert (await park(kernel_id))["status"] == "released"
    assert session.parking.parkings.of(kernel_id).memory == sum(machine.occupancy.parked().values())
    machine.clear()
    assert (await run(kernel_id, f"{CHECK}\nassert more.checksum() == after"))["status"] == "ok"


async def test_a_kernel_that_does_not_answer_our_question_is_not_parked(
    start_kernel: Any, run: Any, api: Any, park: Any, session: Any
) -> None:
    """It may free its cache at any later moment, which must not be one at which its GPU state is away."""
    kernel_id = await start_kernel("a.ipynb")
    await run(kernel_id, HOLD)
    await run(kernel_id, "import time\nget_ipython().kernel.control_handlers.pop('gpushare_free_request')")
    await api("session")
    session._settings = replace(session._settings, answer_deadline_s=0.3)
    released = await park(kernel_id)
    assert released["message"]["values"]["reason_code"] == "KERNEL_DID_NOT_ANSWER", released
    assert (session.parking.parkings.of(kernel_id).parks, session.parking.gates.of(kernel_id).is_open) == (0, True)
    assert (await run(kernel_id, CHECK))["status"] == "ok"


async def test_a_late_request_of_ours_is_refused_inside(
    start_kernel: Any, run: Any, api: Any, park: Any, jp_serverapp: Any
) -> None:
    """One that was sent before the gate closed and arrives after the park does nothing to the GPU."""
    kernel_id = await start_kernel("a.ipynb")
    await run(kernel_id, HOLD)
    await api("session")
    assert (await park(kernel_id))["status"] == "released"
    kernel = jp_serverapp.kernel_manager.get_kernel(kernel_id)
    for closing in ("", "0", "99"):
        answer = await request_free_cache(kernel, collect=True, timeout_s=20, closing=closing)
        assert answer.troubles == ["it is parked, and holds no GPU memory"]
    assert (await run(kernel_id, CHECK))["status"] == "ok"


ALARM = "import signal; signal.signal(signal.SIGALRM, lambda *_: None); signal.setitimer(signal.ITIMER_REAL, 600)"


async def test_an_alarm_of_the_users_is_background_work(
    start_kernel: Any, run: Any, api: Any, park: Any, session: Any
) -> None:
    """The system runs the user's handler at a time of its own, and no gate holds that."""
    kernel_id = await start_kernel("a.ipynb")
    await run(kernel_id, HOLD)
    await run(kernel_id, ALARM)
    await api("session")
    assert (await park(kernel_id))["message"]["values"]["reason_code"] == "BACKGROUND_WORK"
    await run(kernel_id, "signal.alarm(0)")
    session.parking.previews.forget(kernel_id)
    assert (await park(kernel_id))["status"] == "released"
