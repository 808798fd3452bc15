"""Four ways to send a kernel a cell: a browser's page, in both protocols; a console; a client inside the server."""

from __future__ import annotations

import ast
import asyncio
import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_core.utils import ensure_event_loop
from jupyter_server.services.kernels.connection.base import deserialize_msg_from_ws_v1, serialize_msg_to_ws_v1
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_gpushare.demo.server import FrontEnd

__all__ = ["CellFailed", "Client", "Console", "Page", "ServerSide", "Subshell", "value_of"]

REPLY_S: Final = 45.0
_V1: Final = "v1.kernel.websocket.jupyter.org"
_ASK: Final = "asked"


class CellFailed(RuntimeError):  # noqa: N818  # a finding, not a fault of the program
    """A cell did not end well, or had no reply. The message says how."""


class Client(Protocol):
    """Something that runs cells in one kernel."""

    async def run(self, code: str, ask: str = "None") -> Any:
        """Run *code*, then evaluate *ask* to a string of JSON; its value.

        Raises:
            CellFailed: the cell failed, was aborted, or had no reply within REPLY_S.
        """


def value_of(content: dict[str, Any]) -> Any:
    """The value that an execute_reply carries.

    Raises:
        CellFailed: it tells of a failure.
    """
    if content.get("status") != "ok":
        raise CellFailed(f"{content.get('status')}: {content.get('ename')}: {content.get('evalue')}")
    asked = content["user_expressions"][_ASK]
    if asked["status"] != "ok":
        raise CellFailed(f"{asked.get('ename')}: {asked.get('evalue')}")
    told = ast.literal_eval(asked["data"]["text/plain"])
    return None if told is None else json.loads(told)


class Page:
    """A page in a browser: everything goes through one kernel WebSocket."""

    def __init__(self, socket: WebSocketClientConnection, *, is_v1: bool) -> None:
        self._socket = socket
        self._is_v1 = is_v1
        self._session = uuid.uuid4().hex
        self._awaited: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self.sent: list[str] = []
        self.replied: list[str] = []
        self._reading = asyncio.ensure_future(self._read())

    @classmethod
    async def open(cls, server: FrontEnd, kernel_id: str, *, legacy: bool = False) -> Page:
        """Open it, speaking as Lab does, or with *legacy* as old clients do."""
        url = server.url.replace("http", "ws", 1) + f"api/kernels/{kernel_id}/channels"
        request = HTTPRequest(url, headers=server.headers, connect_timeout=REPLY_S, request_timeout=REPLY_S)
        socket = await websocket_connect(request, subprotocols=None if legacy else [_V1])
        return cls(socket, is_v1=socket.selected_subprotocol == _V1)

    async def ask(
        self, kind: str, content: dict[str, Any], channel: str = "shell", subshell: str | None = None
    ) -> dict[str, Any]:
        """Send a request; its reply's content.

        Raises:
            CellFailed: none came within REPLY_S, or the connection was closed.
        """
        header = {"msg_id": uuid.uuid4().hex, "session": self._session, "username": "", "version": "5.4"}
        header |= {"msg_type": kind, "date": datetime.now(tz=UTC).isoformat()}
        header |= {"subshell_id": subshell} if subshell else {}
        reply = self._awaited[header["msg_id"]] = asyncio.get_running_loop().create_future()
        if kind == "execute_request":
            self.sent.append(header["msg_id"])
        await self._send({"header": header, "parent_header": {}, "metadata": {}, "content": content}, channel)
        try:
            return await asyncio.wait_for(reply, REPLY_S)
        except TimeoutError:
            raise CellFailed(f"no reply to {kind} within {REPLY_S:g} s") from None

    async def run(self, code: str, ask: str = "None", subshell: str | None = None) -> Any:
        """Run a cell; see `Client`."""
        return value_of(await self.ask("execute_request", _request(code, ask), subshell=subshell))

    async def open_subshell(self) -> str:
        """Make a subshell; its id."""
        content = await self.ask("create_subshell_request", {}, "control")
        if "subshell_id" not in content:
            raise CellFailed(f"no subshell: {content}")
        return str(content["subshell_id"])

    async def close(self) -> None:
        """Close it."""
        self._socket.close()
        await self._reading

    async def _send(self, message: dict[str, Any], channel: str) -> None:
        if self._is_v1:
            packed = _v1_frame(message, channel)
            await self._socket.write_message(packed, binary=True)
        else:
            await self._socket.write_message(json.dumps(message | {"channel": channel, "buffers": []}))

    async def _read(self) -> None:
        while (frame := await self._socket.read_message()) is not None:
            self._take(*_parts(frame))
        for reply in self._awaited.values():
            if not reply.done():
                reply.set_exception(CellFailed("the connection was closed"))
                reply.exception()  # seen, also when nobody waits any more

    def _take(self, header: dict[str, Any], parent: dict[str, Any], content: dict[str, Any]) -> None:
        asked = str(parent.get("msg_id"))
        if not str(header["msg_type"]).endswith("_reply") or asked not in self._awaited:
            return
        if header["msg_type"] == "execute_reply":
            self.replied.append(asked)
        if not self._awaited[asked].done():
            self._awaited[asked].set_result(content)


class Subshell:
    """A subshell of the kernel that *page* shows."""

    def __init__(self, page: Page, subshell: str) -> None:
        self._page = page
        self._subshell = subshell

    async def run(self, code: str, ask: str = "None") -> Any:
        """Run a cell; see `Client`."""
        return await self._page.run(code, ask, self._subshell)


class ServerSide:
    """A client inside the server; see `scripts.soak.server_side`."""

    def __init__(self, server: FrontEnd, kernel_id: str) -> None:
        self._server = server
        self._path = f"soak/execute/{kernel_id}"

    async def run(self, code: str, ask: str = "None") -> Any:
        """Run a cell; see `Client`."""
        try:
            answer = await self._server.request("POST", self._path, {"code": code, "expressions": {_ASK: ask}})
        except HTTPClientError as trouble:
            raise CellFailed(f"no reply: {trouble}") from trouble
        if not isinstance(answer.body, dict):
            raise CellFailed(f"the server answered {answer.code}")
        return value_of(answer.body)


class Console:
    """What ``jupyter console --existing`` has: a blocking client from the kernel's connection file.

    It lives in a thread of its own, which its sockets belong to.
    """

    def __init__(self, connection_file: Path) -> None:
        self._thread = ThreadPoolExecutor(1, "soak-console")
        self._client = BlockingKernelClient(connection_file=str(connection_file))
        self._is_open = False

    async def run(self, code: str, ask: str = "None") -> Any:
        """Run a cell; see `Client`."""
        content = await asyncio.get_running_loop().run_in_executor(self._thread, self._run, code, ask)
        return value_of(content)

    async def close(self) -> None:
        """Close its sockets."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown()

    def _run(self, code: str, ask: str) -> dict[str, Any]:
        if not self._is_open:
            self._client.load_connection_file()
            self._client.start_channels(True, False, False, False, False)  # noqa: FBT003  # the shell channel alone
            self._is_open = True
        wanted = self._client.execute(code, user_expressions={_ASK: ask}, allow_stdin=False)
        while True:
            try:
                reply = self._client.get_shell_msg(timeout=REPLY_S)
            except Exception as trouble:  # it raises queue.Empty
                raise CellFailed(f"no reply within {REPLY_S:g} s ({trouble!r})") from trouble
            if reply["parent_header"].get("msg_id") == wanted:
                return dict(reply["content"])

    def _close(self) -> None:
        if self._is_open:
            self._client.stop_channels()
            # The blocking client made one for this thread, and nobody else ends it.
            ensure_event_loop().close()


def _request(code: str, ask: str) -> dict[str, Any]:
    options = {"silent": False, "store_history": False, "allow_stdin": False, "stop_on_error": False}
    return {"code": code, "user_expressions": {_ASK: ask}, **options}


def _packed(part: dict[str, Any]) -> bytes:
    return json.dumps(part).encode()


def _v1_frame(message: dict[str, Any], channel: str) -> bytes:
    return bytes(serialize_msg_to_ws_v1(message, channel, pack=_packed))  # type: ignore[no-untyped-call]  # Jupyter's


def _parts(frame: str | bytes) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Header, parent's header and content of a frame in either protocol."""
    if isinstance(frame, bytes):
        _, (header, parent, _, content, *_) = deserialize_msg_from_ws_v1(frame)  # type: ignore[no-untyped-call]  # Jupyter's
        return json.loads(header), json.loads(parent), json.loads(content)
    message = json.loads(frame)
    return message["header"], message["parent_header"], message["content"]
