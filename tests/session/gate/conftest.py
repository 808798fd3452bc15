"""A real Jupyter Server with gates and nothing else of ours, real ipykernels, and pages as browsers open them."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from jupyter_server.services.kernels.connection.base import deserialize_msg_from_ws_v1, serialize_msg_to_ws_v1
from tornado.web import RequestHandler
from tornado.websocket import websocket_connect

from jupyter_gpushare.session.gate.gates import Gates

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

#: Of the binary WebSocket protocol; jupyter_server has no types for them.
frame_of: Any = serialize_msg_to_ws_v1
parts_of: Any = deserialize_msg_from_ws_v1
V1 = "v1.kernel.websocket.jupyter.org"
DEADLINE_S = 30.0


@pytest.fixture
def jp_server_config() -> dict[str, Any]:
    """A server without our extension: the gate needs none."""
    return {"MultiKernelManager": {"default_kernel_name": "python3"}}


@pytest.fixture(autouse=True)
def _begun() -> None:
    """Nothing else has to begin."""


class Woken(list[str]):
    """The kernels that were to be woken, once for each time."""


class WakeHandler(RequestHandler):
    """What a kernel's part tells its server."""

    def initialize(self, gates: Gates) -> None:
        self.gates = gates

    def check_xsrf_cookie(self) -> None:
        """A kernel has none."""

    def prepare(self) -> None:
        assert self.request.headers["X-Gpushare-Kernel-Token"] == "a token"

    async def post(self, kernel_id: str) -> None:
        self.gates.of(kernel_id).disturb()
        self.finish(b"{}")


@pytest.fixture(name="woken")
def _woken() -> Woken:
    return Woken()


@pytest.fixture(name="gates")
def _gates(jp_serverapp: Any, tmp_path: Path, woken: Woken) -> Gates:
    """The gates of the test's server."""
    web_app = jp_serverapp.web_app
    gates = Gates(
        jp_serverapp.kernel_manager,
        web_app,
        directory=tmp_path / "gates",
        wake=woken.append,
        log=logging.getLogger("gate"),
    )
    gates.install()
    route = rf"{jp_serverapp.base_url}gpushare/api/v1/kernels/([\w-]+)/wake"
    web_app.add_handlers(".*$", [(route, WakeHandler, {"gates": gates})])
    return gates


@pytest.fixture(name="start_kernel")
def _start_kernel(
    jp_serverapp: Any, http_server: Any, jp_http_port: int, gates: Gates
) -> Callable[..., Awaitable[str]]:
    """Start a real ipykernel, with the part of ours or (*bare*) without; its id."""

    async def start_kernel(*, bare: bool = False) -> str:
        kernel_id = str(uuid.uuid4())
        ours = {
            "GPUSHARE_SERVER_URL": f"http://localhost:{jp_http_port}{jp_serverapp.base_url}gpushare/api/v1",
            "GPUSHARE_KERNEL_ID": kernel_id,
            "GPUSHARE_KERNEL_TOKEN": "a token",
            **gates.environment(kernel_id),
        }
        options: dict[str, Any] = {} if bare else {"extra_arguments": ["--ext=jupyter_gpushare"]}
        manager = jp_serverapp.kernel_manager
        await manager.start_kernel(kernel_id=kernel_id, env={**os.environ, **({} if bare else ours)}, **options)
        client = manager.get_kernel(kernel_id).client()
        client.start_channels()
        await client.wait_for_ready(timeout=60)
        client.stop_channels()
        return kernel_id

    return start_kernel


class Page:
    """What a browser's tab is to a kernel: a WebSocket, in one subprotocol or the other."""

    def __init__(self, socket: Any, session: str, protocol: str) -> None:
        self.socket = socket
        self.session = session
        self.protocol = protocol
        self.seen: list[dict[str, Any]] = []
        self._reading = asyncio.ensure_future(self._read())

    def send(self, kind: str, content: dict[str, Any], *, channel: str = "shell", **header: Any) -> str:
        """Send a message; its id."""
        request = uuid.uuid4().hex
        head = {"msg_id": request, "msg_type": kind, "session": self.session, "username": "", "version": "5.3"}
        parts: list[Any] = [head | header, {}, {}, content]
        if self.protocol == V1:
            frames = [json.dumps(part).encode() for part in parts]
            sent = self.socket.write_message(frame_of(frames, channel), binary=True)
        else:
            names = ("header", "parent_header", "metadata", "content")
            message = dict(zip(names, parts, strict=True)) | {"channel": channel, "buffers": []}
            sent = self.socket.write_message(json.dumps(message))
        self._sending = sent
        return request

    def execute(self, code: str, **header: Any) -> str:
        """Send a cell; its id."""
        return self.send("execute_request", {"code": code, "silent": False, "stop_on_error": False}, **header)

    def answers(self, request: str, kind: str = "") -> list[dict[str, Any]]:
        """What came in answer to *request*, oldest first."""
        return [m for m in self.seen if m["parent_header"].get("msg_id") == request and m["msg_type"].startswith(kind)]

    def states(self, request: str) -> list[str]:
        """The states that the page was told for *request*."""
        return [message["content"]["execution_state"] for message in self.answers(request, "status")]

    async def reply(self, request: str) -> dict[str, Any]:
        """The reply's content, once the kernel is idle again too."""
        await self.until(lambda: self._replies(request) and self.states(request)[-1:] == ["idle"])
        content: dict[str, Any] = self._replies(request)[0]["content"]
        return content

    async def printed(self, request: str) -> str:
        """What a cell printed, once it has ended."""
        await self.reply(request)
        return "".join(message["content"]["text"] for message in self.answers(request, "stream"))

    async def until(self, probe: Callable[[], Any]) -> None:
        """Wait for what the messages show."""
        async with asyncio.timeout(DEADLINE_S):
            while not probe():  # noqa: ASYNC110  # what a test waits for has no event of its own
                await asyncio.sleep(0.01)

    async def close(self) -> None:
        """Close the tab."""
        self.socket.close()
        await self._reading

    def _replies(self, request: str) -> list[dict[str, Any]]:
        return [message for message in self.answers(request) if message["msg_type"].endswith("_reply")]

    async def _read(self) -> None:
        while (frame := await self.socket.read_message()) is not None:
            self.seen.append(self._parsed(frame))

    def _parsed(self, frame: Any) -> dict[str, Any]:
        if self.protocol != V1:
            message = json.loads(frame)
        else:
            channel, parts = parts_of(frame)
            names = ("header", "parent_header", "metadata", "content")
            message = {name: json.loads(part) for name, part in zip(names, parts, strict=False)} | {"channel": channel}
        parsed: dict[str, Any] = message | {"msg_type": message["header"]["msg_type"]}
        return parsed


@pytest.fixture(name="protocol")
def _protocol() -> str:
    return V1


@pytest.fixture(name="open_page")
def _open_page(
    jp_ws_fetch: Any, jp_serverapp: Any, http_server: Any, jp_http_port: int, protocol: str, jp_asyncio_loop: Any
) -> Iterator[Callable[..., Awaitable[Page]]]:
    """Open a page on a kernel; one with the same *session* is the same tab, loaded anew."""
    pages: list[Page] = []

    async def open_page(kernel_id: str, session: str = "") -> Page:
        session = session or uuid.uuid4().hex
        base = f"ws://localhost:{jp_http_port}{jp_serverapp.base_url}api/kernels/{kernel_id}/channels"
        address = f"{base}?session_id={session}&token={jp_serverapp.identity_provider.token}"
        socket = await websocket_connect(address, subprotocols=[protocol] if protocol else None)
        page = Page(socket, session, protocol)
        pages.append(page)
        # The server listens to a page only after the kernel has answered it.
        await page.reply(page.send("kernel_info_request", {}))
        return page

    yield open_page
    for page in pages:
        jp_asyncio_loop.run_until_complete(page.close())


@pytest.fixture(name="pid_of")
def _pid_of(jp_serverapp: Any) -> Callable[[str], int]:
    """The process of a kernel."""
    return lambda kernel_id: int(jp_serverapp.kernel_manager.get_kernel(kernel_id).provisioner.pid)


@pytest.fixture(name="frozen")
def _frozen(pid_of: Any) -> Any:
    """Stop a kernel's process inside a block."""

    @contextmanager
    def frozen(kernel_id: str) -> Iterator[None]:
        os.kill(pid_of(kernel_id), signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid_of(kernel_id), signal.SIGCONT)

    return frozen
