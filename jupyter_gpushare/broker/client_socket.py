"""The WebSocket to the broker: opened, read from and written to."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import WebSocketClosedError, WebSocketError, websocket_connect

from jupyter_gpushare.broker.client_errors import refusal_of

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from tornado.websocket import WebSocketClientConnection

    from jupyter_gpushare.broker.client_endpoint import Endpoint
    from jupyter_gpushare.broker.wire import ToBroker

__all__ = ["Pauses", "closed", "connect", "read", "send"]

_LARGEST_MESSAGE: Final = 1 << 20
_CLOSES_WITHIN_S: Final = 1.0
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Pauses:
    """Seconds: between two attempts to connect, growing and never the same for all; until a welcome; between pings.

    *apart_s* is for how long we may be stopped ourselves and still believe what we are told.
    """

    first_s: float = 0.25
    last_s: float = 15.0
    welcome_s: float = 10.0
    ping_s: float = 20.0
    apart_s: float = 10.0


async def connect(endpoint: Endpoint, pauses: Pauses) -> WebSocketClientConnection:
    """A holder's connection.

    Raises:
        BrokerError: whoever answers there refuses to open it.
        OSError, HTTPClientError, WebSocketError: nobody answers, or no broker does.
    """
    request = HTTPRequest(
        f"ws{endpoint.url.removeprefix('http')}/holder",
        headers={"Authorization": f"Bearer {endpoint.token}"} if endpoint.token else {},
        connect_timeout=pauses.welcome_s,
        request_timeout=pauses.welcome_s,
        follow_redirects=False,
    )
    connecting: asyncio.Future[WebSocketClientConnection] = asyncio.ensure_future(
        websocket_connect(
            request,
            ping_interval=pauses.ping_s,
            ping_timeout=pauses.ping_s,
            max_message_size=_LARGEST_MESSAGE,
            resolver=endpoint.resolver(),
        )
    )
    try:
        return await asyncio.shield(connecting)
    except HTTPClientError as error:
        body = error.response.body if error.response is not None else b""
        if not _is_refusal(error.code):
            raise
        raise refusal_of(error.code, error.message or "", body) from None
    except asyncio.CancelledError:
        await _given_up(connecting)
        raise


async def _given_up(connecting: asyncio.Future[WebSocketClientConnection]) -> None:
    """Nobody waits for it any more: leave no connection half open, though not for long."""
    with contextlib.suppress(HTTPClientError, WebSocketError, OSError, TimeoutError):
        async with asyncio.timeout(_CLOSES_WITHIN_S):
            await closed(await connecting)


def _is_refusal(status: int) -> bool:
    """A broker that restarts, or a proxy before it, answers with 5xx for a while; that is no word of its."""
    return 400 <= status < 500  # noqa: PLR2004  # the HTTP statuses of refusals


async def read(socket: WebSocketClientConnection) -> str | bytes | None:
    """The next message; None at the end."""
    return await socket.read_message()


async def closed(socket: WebSocketClientConnection) -> None:
    """Close it, and wait for that, though not for long: a loop that ends sooner would leave the connection open."""
    socket.close()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_CLOSES_WITHIN_S):
            while await socket.read_message() is not None:
                continue


def send(socket: WebSocketClientConnection, message: ToBroker) -> Awaitable[Any]:
    """Send without waiting: a connection that ends is noticed where it is read from."""
    sent: asyncio.Future[Any] = asyncio.ensure_future(_write(socket, _encode(message).decode()))
    sent.add_done_callback(lambda done: done.cancelled() or done.exception())
    return sent


async def _write(socket: WebSocketClientConnection, text: str) -> None:
    with contextlib.suppress(WebSocketClosedError):
        await socket.write_message(text)
