"""A receiver of news on this machine, which checks each signature as the scheme says, and may be in a bad mood."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    Mood = Callable[["Receiver", RequestHandler], Awaitable[None]]

KEY = bytes(range(32))
SECRET = f"whsec_{base64.b64encode(KEY).decode()}\n"
#: How far a receiver lets our clock be from its own, in seconds.
TOLERANCE_S = 300


@dataclass
class Heard:
    """One attempt, as it came."""

    key: str
    body: dict[str, Any]
    headers: Mapping[str, str]
    raw: bytes


@dataclass
class Receiver:
    """Keeps what it hears; *moods* say what it answers, one for each attempt, and when there are no more, 204."""

    moods: list[Mood] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        handlers = [("/hook", _Hook, {"receiver": self}), ("/.*", _Elsewhere, {"receiver": self})]
        self.server = HTTPServer(Application(handlers))
        sockets = bind_sockets(0, "127.0.0.1")
        self.server.add_sockets(sockets)
        self.url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}/hook"

    async def until(self, holds: Callable[[list[Heard]], Any]) -> list[Heard]:
        """Everything that was heard, once *holds* is true of it."""
        async with asyncio.timeout(60):
            while not holds(self.heard):
                self.news.clear()
                await self.news.wait()
        return self.heard

    async def close(self) -> None:
        """Listen no more."""
        self.server.stop()
        await self.server.close_all_connections()


class _Hook(RequestHandler):
    def initialize(self, receiver: Receiver) -> None:
        self.receiver = receiver

    async def post(self) -> None:
        check_signature(self.request.headers, self.request.body, KEY)
        heard = Heard(
            self.request.headers["webhook-id"], json.loads(self.request.body), self.request.headers, self.request.body
        )
        self.receiver.heard.append(heard)
        self.receiver.news.set()
        if self.receiver.moods:
            await self.receiver.moods.pop(0)(self.receiver, self)
        else:
            self.set_status(204)

    def log_exception(self, *_: Any) -> None:
        """An assertion in here shows as an attempt that failed."""


class _Elsewhere(RequestHandler):
    def initialize(self, receiver: Receiver) -> None:
        self.receiver = receiver

    def prepare(self) -> None:
        self.receiver.elsewhere.append(self.request.path)
        self.finish()


def check_signature(headers: Mapping[str, str], body: bytes, key: bytes) -> None:
    """As a receiver does by the scheme, written anew here: one of the signatures must be right, and the time near."""
    key_id, at = headers["webhook-id"], headers["webhook-timestamp"]
    signed = b".".join([key_id.encode(), at.encode(), body])
    right = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    given = headers["webhook-signature"].split(" ")
    assert any(hmac.compare_digest(each, right) for each in given), "not signed with the secret"
    assert abs(int(at) - time.time()) < TOLERANCE_S, "not of now"
    assert "." not in key_id


def answers(status: int, **headers: str) -> Mood:
    """Answers so."""

    async def mood(_: Receiver, handler: RequestHandler) -> None:
        handler.set_status(status)
        for name, value in headers.items():
            handler.set_header(name.replace("_", "-"), value)
        handler.write(b"an angry page" * 100)

    return mood


def redirects(to: str) -> Mood:
    """Answers with another address."""

    async def mood(_: Receiver, handler: RequestHandler) -> None:
        handler.redirect(to, status=307)

    return mood


async def hangs_up(_: Receiver, handler: RequestHandler) -> None:
    """Closes the connection without a word."""
    handler.request.connection.stream.close()  # type: ignore[union-attr]  # of tornado's HTTP/1 connection
