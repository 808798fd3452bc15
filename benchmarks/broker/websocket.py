"""A holder's WebSocket, as lean as thousands in one process need it (RFC 6455: text of one frame, no extensions)."""

from __future__ import annotations

import asyncio
import base64
import os
import struct
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.client_endpoint import API

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["Link", "LinkError", "connect"]

_TEXT: Final = 1
_CLOSE: Final = 8
_PING: Final = 9
_PONG: Final = 10
_LAST: Final = 0x80
_MASKED: Final = 0x80
_SHORT: Final = 125
_TWO_BYTES: Final = 126
_EIGHT_BYTES: Final = 127
#: A client must mask. A mask of zeros leaves the text as it is.
_NO_MASK: Final = bytes(4)


class LinkError(OSError):
    """The other side did not want to talk. Says what it answered."""


class Link(asyncio.Protocol):
    """One connection: *heard* is called with each text, *lost* when it is over."""

    def __init__(self, heard: Callable[[bytes], None], lost: Callable[[], None]) -> None:
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._heard, self._lost = heard, lost
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for a WebSocket."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [
            f"GET {API}/holder HTTP/1.1",
            "Host: localhost",
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {key}",
        ]
        transport.write(("\r\n".join(lines) + "\r\n\r\n").encode())

    def data_received(self, data: bytes) -> None:
        """Take in what came."""
        self._buffer += data
        if not self.opened.done() and not self._take_answer():
            return
        while (frame := self._take_frame()) is not None:
            self._take(*frame)

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over."""
        if not self.opened.done():
            self.opened.set_exception(LinkError(f"the broker hung up: {exc}"))
        self._lost()

    def send(self, text: bytes) -> None:
        """Send one text."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(_frame(_TEXT, text))

    def close(self) -> None:
        """Hang up."""
        if self._transport is not None:
            self._transport.close()

    def _take_answer(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        first = bytes(self._buffer[: self._buffer.find(b"\r\n")]).decode(errors="replace")
        del self._buffer[: end + 4]
        if " 101 " not in f"{first} ":
            self.opened.set_exception(LinkError(f"the broker answered {first!r}"))
            self.close()
            return False
        self.opened.set_result(None)
        return True

    def _take_frame(self) -> tuple[int, bytes] | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        size, start = buffer[1] & 0x7F, 2
        if size == _TWO_BYTES:
            size, start = int.from_bytes(buffer[2:4], "big"), 4
        elif size == _EIGHT_BYTES:
            size, start = int.from_bytes(buffer[2:10], "big"), 10
        if len(buffer) < start + size:
            return None
        code, text = buffer[0] & 0x0F, bytes(buffer[start : start + size])
        del buffer[: start + size]
        return code, text

    def _take(self, code: int, text: bytes) -> None:
        if code == _TEXT:
            self._heard(text)
        elif code == _PING and self._transport is not None:
            self._transport.write(_frame(_PONG, text))
        elif code == _CLOSE:
            self.close()


async def connect(path: Path, heard: Callable[[bytes], None], lost: Callable[[], None]) -> Link:
    """Connect to the broker that listens on the Unix socket *path*.

    Raises:
        OSError: nobody listens there, or it does not want to talk.
    """
    loop = asyncio.get_running_loop()
    _, link = await loop.create_unix_connection(lambda: Link(heard, lost), str(path))
    await link.opened
    return link


def _frame(code: int, text: bytes) -> bytes:
    head = bytes([_LAST | code])
    if len(text) <= _SHORT:
        head += bytes([_MASKED | len(text)])
    elif len(text) < 1 << 16:
        head += bytes([_MASKED | _TWO_BYTES]) + struct.pack("!H", len(text))
    else:
        head += bytes([_MASKED | _EIGHT_BYTES]) + struct.pack("!Q", len(text))
    return head + _NO_MASK + text
