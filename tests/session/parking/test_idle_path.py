"""The idle policy on the real path: it warns, counts down, parks by itself, and leaves alone what is kept."""

from __future__ import annotations

from typing import Any

import pytest

from tests.session.parking.conftest import CHECK, HOLD

SOON = {"idle_timeout_s": 3.0, "warning_s": 2.5}


@pytest.mark.parametrize("gpushare_options", [SOON])
async def test_an_idle_kernel_counts_down_and_is_parked(
    api: Any, start_kernel: Any, run: Any, parking_of: Any, until: Any
) -> None:
    """People are warned with a true time, then it is parked; its next cell finds everything."""
    kernel_id = await start_kernel()
    await run(kernel_id, HOLD)

    async def status_is(wanted: str) -> Any:
        parking = await parking_of(kernel_id)
        return parking if parking["status"] == wanted else None

    counting = await until(lambda: status_is("counting_down"))
    assert counting["message"]["code"] == "COUNTING_DOWN"
    assert counting["parks_at"] > counting["since"]
    assert (await api("session"))["state"]["code"] == "COUNTING_DOWN"
    await until(lambda: status_is("parked"))
    assert (await run(kernel_id, CHECK))["status"] == "ok"
    report = await api("parking")
    assert (report["parked"], report["resumed"], report["message"]["code"]) == (1, 1, "HAS_PARKED")


@pytest.mark.parametrize("gpushare_options", [SOON])
async def test_a_kept_kernel_stays(api: Any, start_kernel: Any, run: Any, session: Any, until: Any) -> None:
    """Keep for… is the last veto, and the state says until when; a kernel that began to be idle later is parked."""
    kernel_id, other = await start_kernel("kept.ipynb"), await start_kernel("other.ipynb")
    await run(kernel_id, HOLD)
    await api("keep", body={"seconds": 3600, "kernel_id": kernel_id})
    await run(other, HOLD)
    parkings = session.parking.parkings
    await until(lambda: parkings.of(other).status == "parked")
    assert (parkings.of(kernel_id).status, parkings.of(kernel_id).parks) == ("running", 0)

    async def is_kept() -> bool:
        return bool((await api("session"))["state"]["code"] == "KEPT")

    await until(is_kept)


@pytest.mark.parametrize("gpushare_options", [SOON | {"parking": "observe"}])
async def test_observing_parks_nothing_and_counts(
    api: Any, start_kernel: Any, run: Any, session: Any, until: Any
) -> None:
    """In mode observe nothing is parked by itself; the report says what would have been."""
    kernel_id = await start_kernel()
    await run(kernel_id, HOLD)

    async def would_have() -> bool:
        return bool((await api("parking"))["parked"] == 1)

    await until(would_have)
    assert (await api("parking"))["message"]["code"] == "WOULD_HAVE_PARKED"
    assert session.parking.parkings.of(kernel_id).parks == 0
    assert (await api("session"))["parking_mode"] == "observe"
