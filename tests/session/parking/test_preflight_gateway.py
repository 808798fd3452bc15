"""The row of preflight's table that needs two servers: the kernel runs behind a gateway, on another host for all we know."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jupyter_server.gateway.gateway_client import GatewayClient
from tornado.httpclient import AsyncHTTPClient

from tests.session.parking.preflight_row import GATEWAY

if TYPE_CHECKING:
    from collections.abc import Iterator

DEADLINE_S = 60.0
#: A Jupyter Server without us, on a port of the system's choice, for anybody on this machine who asks.
COMMAND = (
    *(sys.executable, "-m", "jupyter_server", "--allow-root", "--no-browser", "--port=0", "--ServerApp.port_retries=1"),
    *("--ServerApp.jpserver_extensions={}", "--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True"),
)


@pytest.fixture(name="gateway")
def _gateway(jp_environ: None, jp_runtime_dir: Path, jp_asyncio_loop: asyncio.AbstractEventLoop) -> Iterator[str]:
    """Another Jupyter Server that lends its kernels; its address."""
    with subprocess.Popen(COMMAND, stderr=subprocess.DEVNULL) as server:
        try:
            yield jp_asyncio_loop.run_until_complete(_listening(server, Path(jp_runtime_dir)))
        finally:
            server.terminate()


async def _listening(server: subprocess.Popen[bytes], runtime: Path) -> str:
    """Its address, as soon as it answers there."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        assert server.poll() is None, "the gateway ended"
        try:
            url: str = json.loads((runtime / f"jpserver-{server.pid}.json").read_text())["url"]
            await AsyncHTTPClient().fetch(f"{url}api")
        except (OSError, ValueError):
            await asyncio.sleep(0.05)
        else:
            return url
    raise AssertionError(f"no gateway after {DEADLINE_S} s")


@pytest.fixture
def jp_argv(gateway: str) -> Iterator[list[str]]:
    """Our server starts its kernels there, whatever the one before it was told."""
    GatewayClient.clear_instance()
    yield [f"--gateway-url={gateway}"]
    GatewayClient.clear_instance()


@pytest.fixture(name="far_kernel")
def _far_kernel(jp_fetch: Any, gateway: str, jp_asyncio_loop: asyncio.AbstractEventLoop) -> Iterator[str]:
    """A notebook's kernel that runs there; its id."""
    run = jp_asyncio_loop.run_until_complete
    body = json.dumps({"path": "far.ipynb", "name": "", "type": "notebook", "kernel": {"name": "python3"}})
    model = json.loads(run(jp_fetch("api", "sessions", method="POST", body=body, request_timeout=DEADLINE_S)).body)
    there = json.loads(run(AsyncHTTPClient().fetch(f"{gateway}api/kernels")).body)
    assert [kernel["id"] for kernel in there] == [model["kernel"]["id"]]
    yield model["kernel"]["id"]
    run(jp_fetch("api", "sessions", model["id"], method="DELETE"))


async def test_a_kernel_behind_a_gateway_is_refused(far_kernel: str, park: Any, session: Any) -> None:
    """A park is refused with the row's own reason and remedy: nothing here could hold its messages or see its GPU."""
    refused = await park(far_kernel)
    values = refused["message"]["values"]
    assert (refused["status"], values["reason_code"], bool(values["remedy"])) == ("refused", GATEWAY.code, True)
    assert GATEWAY.says(values["reason"]), values
    assert session.parking.parkings.of(far_kernel).parks == 0


async def test_it_is_said_before_anything_is_pressed(far_kernel: str, api: Any) -> None:
    """The sidebar's row of a kernel behind a gateway has the reason and the remedy, and parking is not offered."""
    (row,) = (await api("session"))["kernels"]
    parking = row["parking"]
    assert (row["id"], row["levels"], row["note"]["code"]) == (far_kernel, ["end_kernel"], "NOT_LOCAL")
    assert (parking["status"], parking["message"]["code"], parking["memory"]) == ("running", "CANNOT_PARK", None)
    assert (parking["refusal"]["code"], bool(parking["remedy"]["text"])) == ("GATEWAY_KERNEL", True)
    assert GATEWAY.says(parking["refusal"]["text"]), parking
    assert parking["message"]["text"].startswith("Cannot park: This kernel runs behind a gateway")


async def test_cells_run_behind_a_gateway(far_kernel: str, page_of: Any, until: Any) -> None:
    """Where there is no gate everything is as without us: a page reaches its far kernel and runs a cell."""
    page = await page_of(far_kernel)
    cell = page.execute("1 + 1")
    assert (await until(lambda: page.answers(cell, "execute_reply")))[0]["status"] == "ok"
