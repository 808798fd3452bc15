"""The WebSocket to the broker: nothing of it is left behind."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_unix_socket
from tornado.web import Application
from tornado.websocket import WebSocketHandler

from jupyter_gpushare.broker.client import Endpoint
from jupyter_gpushare.broker.client_endpoint import API
from jupyter_gpushare.broker.client_socket import Pauses, connect

if TYPE_CHECKING:
    from pathlib import Path


class Slow(WebSocketHandler):
    """Opens a connection when it is let, and tells when it has ended."""

    def initialize(self, asked: asyncio.Event, let: asyncio.Event, ended: asyncio.Event) -> None:
        self._asked, self._let, self._ended = asked, let, ended

    async def prepare(self) -> None:
        self._asked.set()
        await self._let.wait()

    def on_close(self) -> None:
        self._ended.set()


def test_a_connection_that_nobody_waits_for_any_more_is_closed(tmp_path: Path) -> None:
    """A session that ends while it connects leaves no socket open on either side."""

    async def story() -> None:
        asked, let, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        events = {"asked": asked, "let": let, "ended": ended}
        server = HTTPServer(Application([(f"{API}/holder", Slow, events)]))
        server.add_socket(bind_unix_socket(str(tmp_path / "socket")))
        connecting = asyncio.ensure_future(connect(Endpoint.at_socket(tmp_path / "socket"), Pauses()))
        async with asyncio.timeout(30):
            await asked.wait()
            connecting.cancel()
            let.set()
            with pytest.raises(asyncio.CancelledError):
                await connecting
            await ended.wait()
        server.stop()

    asyncio.run(story())
