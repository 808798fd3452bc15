"""What a release says where it has nothing to do, cannot do it here, or cannot tell what it did: a real server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tornado.httpclient import HTTPClientError

from jupyter_gpushare.devices.simulated.faults import HostPids
from jupyter_gpushare.session.release_sentences import NO_CACHE_ANYWHERE, NO_CACHE_HERE, NOTHING_TO_PARK
from tests.session.conftest import refusal
from tests.session.parking.conftest import HOLD
from tests.session.parking.preflight_obstacles import of_another_language

if TYPE_CHECKING:
    from pathlib import Path


async def refused(api: Any, **body: Any) -> tuple[str, str]:
    """The code and the sentence with which a release is refused."""
    with pytest.raises(HTTPClientError) as caught:
        await api("releases", body=body)
    error = refusal(caught.value)["error"]
    return error["code"], error["text"]


async def test_a_park_with_nothing_held_says_so(api: Any, start_kernel: Any) -> None:
    """There is a true sentence for a park of all that has nothing to do."""
    await start_kernel()
    await api("session")
    assert await refused(api, level="park") == ("CANNOT_RELEASE", NOTHING_TO_PARK.text)


async def test_what_cannot_be_counted_is_not_claimed(
    start_kernel: Any, run: Any, ended: Any, machine: Any, api: Any
) -> None:
    """Where the device lists other processes than ours, a cache was freed, and how much of it nobody can say."""
    kernel_id = await start_kernel()
    assert (await run(kernel_id, HOLD))["status"] == "ok"
    machine.inject(HostPids())
    done = await ended("free_cache", kernel_id)
    assert (done["status"], done["freed"], done["message"]["code"]) == ("released", None, "FREED_UNKNOWN"), done
    machine.clear()
    done = await ended("free_cache", kernel_id)
    assert done["message"]["code"] != "FREED_UNKNOWN"


async def test_a_kernel_without_our_part_has_no_cache_to_free(
    api: Any, jp_serverapp: Any, jp_data_dir: Path, tmp_path: Path, client_of: Any
) -> None:
    """Its row says what is missing, and both wishes are refused with what works instead."""
    spec = jp_data_dir / "kernels" / "special" / "kernel.json"
    spec.parent.mkdir(parents=True)
    spec.write_text(json.dumps({"display_name": "special", "language": "python", **of_another_language(tmp_path)}))
    model = await jp_serverapp.session_manager.create_session("far.ipynb", "far.ipynb", "notebook", "special")
    kernel_id = model["kernel"]["id"]
    await client_of(kernel_id).wait_for_ready(timeout=60)
    (row,) = (await api("session"))["kernels"]
    assert (row["note"]["code"], row["levels"][-1]) == ("NOT_LOADED", "end_kernel")
    assert await refused(api, level="free_cache") == ("CANNOT_RELEASE", NO_CACHE_ANYWHERE.text)
    here = NO_CACHE_HERE.format(notebook="far.ipynb")
    assert await refused(api, level="free_cache", kernel_id=kernel_id) == ("CANNOT_RELEASE", here)
