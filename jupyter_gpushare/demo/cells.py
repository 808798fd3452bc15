"""One notebook's kernel, driven over the server's WebSocket as a front end drives it."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jupyter_gpushare.demo.server import ServerError

if TYPE_CHECKING:
    from tornado.websocket import WebSocketClientConnection

    from jupyter_gpushare.demo.server import FrontEnd

__all__ = ["Cells", "Outcome"]


@dataclass
class Outcome:
    """What a cell did: what it printed and showed as text, and its error, empty when it ended well."""

    text: str = ""
    error: str = ""
    running: bool = field(default=True, repr=False)


class Cells:
    """Runs cells in the kernel of one notebook, one at a time."""

    def __init__(self, server: FrontEnd, kernel_id: str, connection: WebSocketClientConnection) -> None:
        self.kernel_id = kernel_id
        self._server, self._connection, self._message_id = server, connection, ""

    @classmethod
    async def open(cls, server: FrontEnd, notebook: str) -> Cells:
        """Start *notebook*'s kernel and connect to it.

        Raises:
            ServerError: the server does not start one.
        """
        wish = {"path": notebook, "name": notebook, "type": "notebook", "kernel": {"name": "python3"}}
        answer = await server.request("POST", "api/sessions", wish)
        if answer.code != 201:  # noqa: PLR2004
            raise ServerError(f"No kernel for {notebook}: HTTP {answer.code}, {answer.message}")
        kernel_id = str(answer.body["kernel"]["id"])
        return cls(server, kernel_id, await server.connect(f"api/kernels/{kernel_id}/channels"))

    async def run(self, code: str) -> Outcome:
        """Run a cell to its end."""
        await self.send(code)
        return await self.finish()

    async def send(self, code: str) -> None:
        """Hand a cell to the kernel, which may take it later; `finish` waits for it."""
        self._message_id = uuid.uuid4().hex
        header = {"msg_id": self._message_id, "msg_type": "execute_request", "username": "", "version": "5.3"}
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False, "stop_on_error": True}
        message = {
            "channel": "shell",
            "header": header | {"session": self._message_id, "date": ""},
            "parent_header": {},
            "metadata": {},
            "content": content,
        }
        await self._connection.write_message(json.dumps(message))

    async def begin(self, code: str) -> None:
        """Start a cell and return as soon as the kernel runs it."""
        await self.send(code)
        while (await self._receive())["msg_type"] != "execute_input":
            pass

    async def finish(self) -> Outcome:
        """Wait for the cell that `begin` started or `send` handed over."""
        outcome = Outcome()
        while outcome.running:
            _take(outcome, await self._receive())
        return outcome

    async def interrupt(self) -> None:
        """Do what the stop button does."""
        await self._server.request("POST", f"api/kernels/{self.kernel_id}/interrupt")

    def close(self) -> None:
        """Leave the kernel alone from now on."""
        self._connection.close()

    async def _receive(self) -> dict[str, Any]:
        """The next message on IOPub that answers the last cell."""
        while True:
            message: dict[str, Any] = json.loads(await self._server.read(self._connection))
            if message["channel"] == "iopub" and message["parent_header"].get("msg_id") == self._message_id:
                return message


def _take(outcome: Outcome, message: dict[str, Any]) -> None:
    content = message["content"]
    match message["msg_type"]:
        case "stream":
            outcome.text += content["text"]
        case "execute_result" | "display_data":
            outcome.text += content["data"].get("text/plain", "")
        case "error":
            outcome.error = f"{content['ename']}: {content['evalue']}"
        case "status":
            outcome.running = content["execution_state"] != "idle"
