"""A real Jupyter Server with real kernels on a simulated machine that is as hostile as a real one."""

from __future__ import annotations

import asyncio
import json
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tornado.httpclient import HTTPClientError

from jupyter_gpushare.devices.simulated.machine import Machine
from jupyter_gpushare.devices.simulated.source import SimulatedSource
from tests.session.conftest import refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

MIB = 1 << 20


@pytest.fixture(name="machine")
def _machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """The machine that this server and its kernels are on."""
    directory = tmp_path / "machine"
    monkeypatch.setenv("GPUSHARE_SIMULATED_MACHINE", str(directory))
    # Kernels start in a home of the tests' own: without this they would not find the package.
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    machine = Machine.create(directory, copy_bytes_per_s=0)
    yield machine
    machine.close()


@pytest.fixture(name="source")
def _source(machine: Machine) -> SimulatedSource:
    return SimulatedSource(machine.path)


@pytest.fixture
def jp_server_config(jp_server_config: dict[str, Any], machine: Machine) -> dict[str, Any]:
    """As in the other tests, with a source for each who asks: two threads read the devices here."""
    options = jp_server_config["GpuShare"]
    options["open_source"] = lambda environ: SimulatedSource(machine.path)  # noqa: ARG005
    return jp_server_config


class Page:
    """A browser's page that shows one kernel: what it sends goes through the kernel's WebSocket."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._session = uuid.uuid4().hex
        self.seen: list[Any] = []
        self._reading = asyncio.ensure_future(self._read())

    def send(self, kind: str, content: dict[str, Any], channel: str = "shell") -> str:
        """Send one message; its id."""
        header = {"msg_id": uuid.uuid4().hex, "session": self._session, "username": "", "version": "5.3"}
        header |= {"msg_type": kind, "date": datetime.now(tz=UTC).isoformat()}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": channel}
        self._socket.write_message(json.dumps(message | {"buffers": []}))
        return header["msg_id"]

    def execute(self, code: str) -> str:
        """Send a cell; its id."""
        options = {"silent": False, "store_history": False, "user_expressions": {}, "allow_stdin": False}
        return self.send("execute_request", {"code": code, "stop_on_error": True} | options)

    def answers(self, to: str, kind: str) -> list[Any]:
        """The contents of what came of that *kind* for a message."""
        return [m["content"] for m in self.seen if m["parent_header"].get("msg_id") == to and m["msg_type"] == kind]

    async def close(self) -> None:
        self._socket.close()
        await self._reading

    async def _read(self) -> None:
        while (message := await self._socket.read_message()) is not None:
            self.seen.append(json.loads(message))


@pytest.fixture(name="page_of")
def _page_of(jp_ws_fetch: Any, jp_asyncio_loop: asyncio.AbstractEventLoop) -> Iterator[Callable[..., Awaitable[Page]]]:
    """Opens a page, one for each kernel unless another one is wanted."""
    pages: dict[str, Page] = {}
    others: list[Page] = []

    async def page_of(kernel_id: str, *, another: bool = False) -> Page:
        if kernel_id in pages and not another:
            return pages[kernel_id]
        page = Page(await jp_ws_fetch("api", "kernels", kernel_id, "channels"))
        if another:
            others.append(page)
        else:
            pages[kernel_id] = page
        return page

    yield page_of
    for page in [*pages.values(), *others]:
        jp_asyncio_loop.run_until_complete(page.close())


@pytest.fixture(name="run")
def _run(page_of: Any, until: Any, session: Any) -> Callable[..., Awaitable[Any]]:
    """Run a cell on a page and wait for its reply, and until the server has seen its end; what it says."""

    async def run(kernel_id: str, code: str) -> Any:
        page = await page_of(kernel_id)
        cell = page.execute(code)
        reply = (await until(lambda: page.answers(cell, "execute_reply")))[0]
        idle = {"execution_state": "idle"}
        await until(lambda: idle in page.answers(cell, "status") and cell not in session.kernels.get(kernel_id).cells)
        return reply

    return run


@pytest.fixture(name="hears")
def _hears(page_of: Any, until: Any) -> Callable[[str], Awaitable[None]]:
    """Wait until a page hears what a kernel's new process broadcasts: before that, it speaks to nobody (ZMQ)."""

    async def hears(kernel_id: str) -> None:
        page = await page_of(kernel_id)

        async def heard() -> bool:
            asked = page.send("kernel_info_request", {})
            await until(lambda: page.answers(asked, "kernel_info_reply"))
            echo = page.send("kernel_info_request", {})  # broadcasts come another way, and have had time by then
            await until(lambda: page.answers(echo, "kernel_info_reply"))
            return bool(page.answers(asked, "status"))

        await until(heard)

    return hears


#: A cell that takes 64 MiB beside its context, and remembers what it wrote there.
HOLD = """
from jupyter_gpushare.devices.simulated import cuda
weights = cuda.allocate("64MiB")
weights.fill(seed=7)
before = weights.checksum()
"""
#: A cell that fails if a single byte has changed.
CHECK = "assert weights.checksum() == before"


@pytest.fixture(name="park")
def _park(api: Any, until: Any) -> Callable[..., Awaitable[Any]]:
    """Ask for a park, and wait for how the release ends."""

    async def park(kernel_id: str | None = None, when: str = "now") -> Any:
        try:
            begun = await api("releases", body={"level": "park", "kernel_id": kernel_id, "when": when})
        except HTTPClientError as error:
            return {"status": "refused", "message": refusal(error)["error"], "confirm": refusal(error)["confirm"]}

        async def final() -> Any:
            now = await api("releases", begun["id"])
            return now if now["status"] != "running" else None

        return await until(final)

    return park


@pytest.fixture(name="parking_of")
def _parking_of(api: Any) -> Callable[[str], Awaitable[Any]]:
    """The kernel's parking as people see it."""

    async def parking_of(kernel_id: str) -> Any:
        return (await api("kernels", kernel_id))["kernel"]["parking"]

    return parking_of


@pytest.fixture(name="state_is")
def _state_is(api: Any, until: Any) -> Any:
    """Waits until the session's state, the sentence of the sidebar's box, is of that code; the sentence."""

    async def state_is(code: str) -> str:
        async def told() -> str:
            state = (await api("session"))["state"]
            return str(state["text"]) if state["code"] == code else ""

        return str(await until(told))

    return state_is


@pytest.fixture(name="word_is")
def _word_is(parking_of: Any, until: Any) -> Any:
    """Waits until a kernel's own sentence is of that code; its parking."""

    async def word_is(kernel_id: str, code: str) -> Any:
        async def told() -> Any:
            parking = await parking_of(kernel_id)
            return parking if parking["message"]["code"] == code else None

        return await until(told)

    return word_is
