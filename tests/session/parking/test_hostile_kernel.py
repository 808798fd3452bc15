"""What would crash a parked kernel or lose its state: none of it may reach it, whoever asks and however late."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tornado.httpclient import HTTPClientError

from jupyter_gpushare.devices.simulated.faults import Lag
from tests.session.conftest import refusal
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
    try:
        begun = await api("releases", body={"level": "free_cache", "kernel_id": kernel_id if names_it else None})
    except HTTPClientError as error:
        assert refusal(error)["error"]["code"] == "CANNOT_RELEASE"
    else:

        async def is_over() -> bool:
            return bool((await api("releases", begun["id"]))["status"] != "running")

        await until(is_over)
    assert (await run(kernel_id, CHECK))["status"] == "ok"


async def test_readings_that_lag_lose_nothing(
    start_kernel: Any, run: Any, api: Any, park: Any, machine: Any, session: Any
) -> None:
    """What a cell has just taken is counted although the driver does not show it yet: too little room would lose it."""
    kernel_id = await start_kernel("a.ipynb")
    await run(kernel_id, HOLD)
    await api("session")
    await asyncio.sleep(0.3)
    machine.inject(Lag(0.4))
    await run(kernel_id, "more = cuda.allocate('2GiB')\nmore.fill(seed=3)\nafter = more.checksum()")
    released = await park(kernel_id)
    parked = session.parking.parkings.of(kernel_id).memory
    assert (parked, machine.occupancy.parked()) == 0, released
    assert parked >= sum(machine.occupancy.parked().values())
