"""Park and resume, from a press of the button to the next cell: a real server, real kernels, a hostile machine."""

from __future__ import annotations

import json
from typing import Any

from jupyter_gpushare.session.tokens import TOKEN_HEADER
from tests.session.conftest import API
from tests.session.parking.conftest import CHECK, HOLD


async def test_a_parked_kernel_comes_back_with_its_next_cell(
    api: Any, start_kernel: Any, run: Any, park: Any, parking_of: Any
) -> None:
    """The device is free while it is parked, and the next cell finds every byte as it was."""
    kernel_id = await start_kernel("train.ipynb")
    await run(kernel_id, HOLD)
    await api("session")
    released = await park(kernel_id)
    assert (released["status"], released["message"]["code"]) == ("released", "PARKED"), released
    assert released["freed"] > 64 << 20
    parked = await parking_of(kernel_id)
    assert (parked["status"], parked["message"]["code"], parked["memory"]) == ("parked", "PARKED", released["freed"])
    assert (await api("session"))["state"]["code"] == "PARKED"
    reply = await run(kernel_id, CHECK)
    assert reply["status"] == "ok", reply
    snapshot = await api("session")
    assert (snapshot["state"]["code"], snapshot["kernels"][0]["parking"]["status"]) == ("RESUMED", "running")
    assert [notice["message"]["code"] for notice in snapshot["notices"]] == ["RESUMED"]


async def test_a_kernel_is_parked_and_resumed_again_and_again(api: Any, start_kernel: Any, run: Any, park: Any) -> None:
    """Nothing wears out: the gate, the booking and the tokens are as new after each turn."""
    kernel_id = await start_kernel()
    await run(kernel_id, HOLD)
    for _ in range(5):
        await api("session")
        assert (await park(kernel_id))["status"] == "released"
        assert (await run(kernel_id, CHECK))["status"] == "ok"


async def test_resume_needs_no_cell(
    api: Any, start_kernel: Any, run: Any, park: Any, parking_of: Any, until: Any, machine: Any
) -> None:
    """The Resume button brings it back before anybody runs a cell."""
    kernel_id = await start_kernel()
    await run(kernel_id, HOLD)
    await api("session")
    released = await park(kernel_id)
    assert released["status"] == "released", released
    assert sum(machine.occupancy.parked().values()) > 64 << 20
    assert await api("resumes", body={"kernel_id": kernel_id}) == {"kernel_ids": [kernel_id]}

    async def is_back() -> bool:
        return bool((await parking_of(kernel_id))["status"] == "running")

    await until(is_back)
    assert machine.occupancy.parked() == {}
    assert await api("resumes", body={}) == {"kernel_ids": []}


async def test_all_that_hold_are_parked_at_once(
    api: Any, start_kernel: Any, run: Any, park: Any, session: Any, machine: Any
) -> None:
    """Release without a kernel parks every kernel that holds a GPU, and leaves the others alone."""
    first, second, other = await start_kernel("a.ipynb"), await start_kernel("b.ipynb"), await start_kernel("c.ipynb")
    await run(first, HOLD)
    await run(second, HOLD)
    await api("session")
    released = await park()
    assert released["message"]["values"]["others"] == "", released
    parkings = session.parking.parkings
    assert [parkings.of(each).status for each in (first, second, other)] == ["parked", "parked", "running"]
    for kernel_id in (second, first):
        assert (await run(kernel_id, CHECK))["status"] == "ok"


async def test_a_park_that_waits_for_its_cell(
    api: Any, start_kernel: Any, run: Any, page_of: Any, park: Any, parking_of: Any, until: Any, session: Any
) -> None:
    """Asked for while a cell runs, it parks as soon as that has ended, and says so meanwhile."""
    kernel_id = await start_kernel()
    await run(kernel_id, HOLD)
    await api("session")
    page = await page_of(kernel_id)
    cell = page.execute("import time; time.sleep(1.5)")
    await until(lambda: session.kernels.get(kernel_id).cells)
    refused = await park(kernel_id)
    assert (refused["status"], refused["message"]["code"], refused["confirm"]) == ("refused", "CANNOT_PARK", "")
    assert refused["message"]["values"]["reason_code"] == "CELL_RUNNING"
    begun = await api("releases", body={"level": "park", "kernel_id": kernel_id, "when": "idle"})
    assert (await parking_of(kernel_id))["status"] == "asked"
    assert (await api("session"))["state"]["code"] == "ACTIVE"

    async def is_released() -> bool:
        return bool((await api("releases", begun["id"]))["status"] == "released")

    await until(is_released)
    assert page.answers(cell, "execute_reply")[0]["status"] == "ok"
    assert (await run(kernel_id, CHECK))["status"] == "ok"


async def test_a_cell_of_the_kernel_itself_may_ask(
    start_kernel: Any, run: Any, until: Any, session: Any, http_server: Any
) -> None:
    """`%gpushare release` in a cell parks its own kernel once the cell has ended."""
    kernel_id = await start_kernel()
    await run(kernel_id, HOLD)
    reply = await run(
        kernel_id,
        "import json, os, urllib.request\n"
        "body = {'level': 'park', 'kernel_id': os.environ['GPUSHARE_KERNEL_ID'], 'when': 'idle'}\n"
        "request = urllib.request.Request(os.environ['GPUSHARE_SERVER_URL'] + '/releases', json.dumps(body).encode())\n"
        f"request.add_header({TOKEN_HEADER!r}, os.environ['GPUSHARE_KERNEL_TOKEN'])\n"
        "urllib.request.urlopen(request).close()\n",
    )
    assert reply["status"] == "ok", reply
    await until(lambda: session.parking.parkings.of(kernel_id).status == "parked")
    assert (await run(kernel_id, CHECK))["status"] == "ok"


async def test_completion_and_a_page_reload_wake_nothing(
    api: Any, start_kernel: Any, run: Any, park: Any, page_of: Any, until: Any, session: Any
) -> None:
    """Tab in a parked notebook answers at once and leaves the GPU where it is; so does opening the page again."""
    kernel_id = await start_kernel()
    await run(kernel_id, HOLD)
    await api("session")
    await park(kernel_id)
    page = await page_of(kernel_id)
    asked = page.send("complete_request", {"code": "weights.", "cursor_pos": 8})
    await until(lambda: page.answers(asked, "complete_reply"))
    again = await page_of(kernel_id, another=True)
    opened = again.send("kernel_info_request", {})
    await until(lambda: again.answers(opened, "kernel_info_reply"))
    assert session.parking.parkings.of(kernel_id).status == "parked"


async def test_the_past_shows_what_was_handed_back(
    api: Any, start_kernel: Any, run: Any, park: Any, until: Any
) -> None:
    """The chart can shade the time in which the share was handed back, and the seconds of today add up."""
    kernel_id = await start_kernel()
    await run(kernel_id, HOLD)
    await api("session")
    await park(kernel_id)

    async def intervals() -> Any:
        await api("session")
        return (await api("history"))["parked"]

    ((begin, _),) = await until(intervals)
    await run(kernel_id, CHECK)
    ((same, end),) = (await api("history"))["parked"]
    assert (same, end > begin) == (begin, True)
    assert (await api("session"))["handed_back_s"] >= end - begin


async def test_what_was_done_is_counted(api: Any, start_kernel: Any, run: Any, park: Any, jp_fetch: Any) -> None:
    """Prometheus sees parks, resumes and parked bytes; the report does, too."""
    kernel_id = await start_kernel()
    await run(kernel_id, HOLD)
    await api("session")
    await park(kernel_id)
    await api("session")
    text = (await jp_fetch("metrics")).body.decode()
    (parked,) = [line for line in text.splitlines() if line.startswith("gpushare_parked_bytes ")]
    assert float(parked.split()[1]) > 64 << 20
    await run(kernel_id, CHECK)
    text = (await jp_fetch("metrics")).body.decode()
    assert "gpushare_resumes_total" in text
    report = await api("parking")
    assert (report["mode"], report["parked"], report["resumed"]) == ("park", 1, 1)


async def test_a_policy_and_a_keep_come_back_as_they_are(api: Any, start_kernel: Any, jp_fetch: Any) -> None:
    """What the owner decides for one kernel shows in its row, bounded by what the admin allows."""
    kernel_id = await start_kernel()
    kept = await api("keep", body={"seconds": 7 * 86400, "kernel_id": kernel_id})
    body = json.dumps({"idle_timeout_s": None, "allow_background_work": True})
    policy = json.loads((await jp_fetch(*API, "kernels", kernel_id, "policy", method="PUT", body=body)).body)
    assert (policy["idle_timeout_s"], policy["source"], policy["allow_background_work"]) == (None, "owner", True)
    parking = (await api("session"))["kernels"][0]["parking"]
    assert (parking["kept_until"], parking["policy"]) == (kept["kept_until"], policy)
    assert (await api("keep", body={"seconds": 0, "kernel_id": kernel_id}))["kept_until"] is None
