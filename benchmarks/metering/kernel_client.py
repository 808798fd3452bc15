"""A kernel's client over the server's WebSocket, as quick as a client can be."""

from __future__ import annotations

import json
import socket
import time
import uuid
from typing import TYPE_CHECKING, Any, Final, Self

import websocket

if TYPE_CHECKING:
    from types import TracebackType

    from benchmarks.servers import Server

__all__ = ["KernelClient", "KernelError"]

_DEADLINE_S: Final = 60.0
_NO_DELAY: Final = (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class KernelError(RuntimeError):
    """A cell failed."""


class KernelClient:
    """Executes cells one after another. A context manager.

    Without TCP_NODELAY and TCP_QUICKACK on this end, Nagle's algorithm on the server's adds 44 ms to every cell.
    """

    def __init__(self, server: Server, kernel_id: str) -> None:
        address = f"{server.url.replace('http', 'ws', 1)}api/kernels/{kernel_id}/channels?token={server.token}"
        self._socket = websocket.create_connection(address, timeout=_DEADLINE_S, sockopt=[_NO_DELAY])
        self._session = uuid.uuid4().hex

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def execute(self, code: str) -> str:
        """What the cell printed.

        Raises:
            KernelError: it raised.
        """
        printed, answered, idle = "", False, False
        request = self._send(code)
        while not (answered and idle):
            message = self._receive()
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["header"]["msg_type"], message["content"]
            if kind == "stream":
                printed += content["text"]
            elif kind == "execute_reply":
                answered = True
                if content["status"] != "ok":
                    raise KernelError(content.get("evalue", "the cell failed"))
            idle |= kind == "status" and content["execution_state"] == "idle"
        return printed

    def round_trip_ms(self) -> float:
        """How long an empty cell takes, from sending it to its reply and the kernel's idle."""
        began = time.perf_counter()
        self.execute("")
        return (time.perf_counter() - began) * 1000

    def _send(self, code: str) -> str:
        request = uuid.uuid4().hex
        header = {
            "msg_id": request,
            "msg_type": "execute_request",
            "session": self._session,
            "username": "",
            "version": "5.3",
        }
        content = {"code": code, "silent": False, "store_history": False, "stop_on_error": False, "allow_stdin": False}
        message = {"channel": "shell", "header": header, "parent_header": {}, "metadata": {}, "content": content}
        self._socket.send(json.dumps(message))
        return request

    def _receive(self) -> dict[str, Any]:
        # The system forgets a quick acknowledgement as soon as it has given some.
        assert self._socket.sock is not None
        self._socket.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        message: dict[str, Any] = json.loads(self._socket.recv())
        return message
