"""A broker that says exactly what a test tells it to: late, twice, wrong, or nothing at all."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_unix_socket
from tornado.web import Application, RequestHandler
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from jupyter_gpushare.broker.client import Endpoint
from jupyter_gpushare.broker.client_endpoint import API
from jupyter_gpushare.broker.wire import (
    BrokerModel,
    ErrorAnswer,
    GrantModel,
    HelloMessage,
    LeaseMessage,
    LeaseModel,
    MessageModel,
    RefusedMessage,
    ToBroker,
    ToHolder,
    UsageMessage,
    WelcomeMessage,
)

if TYPE_CHECKING:
    from pathlib import Path

BROKER = BrokerModel("0", "one", "on_demand", 0.0, "memory", is_parking_stopped=False, holders=1)


def lease_of(hello: HelloMessage | None = None, **changes: Any) -> LeaseModel:
    """A lease that is queued, with whatever is different about it."""
    claim = None if hello is None else hello.claim
    plain = LeaseModel(
        id="L1",
        kind="interactive" if claim is None else claim.kind,
        project="team-a" if claim is None else claim.project,
        person="ada",
        name="lab" if claim is None else claim.name,
        share="0.5" if claim is None else claim.share,
        pool="",
        status="queued",
        target="running",
        submitted=1.0,
        since=1.0,
        epoch=0,
        grants=[],
        bursts=[],
        lent="0",
        host_memory=0,
        turns_lost=0,
        reason=None,
        place=None,
        estimate_s=None,
        deadline=None,
        lent_to=[],
    )
    return msgspec.structs.replace(plain, **changes)


def granted(device: str = "GPU-0", **changes: Any) -> dict[str, Any]:
    """What is different about a lease that has half of *device*."""
    grant = GrantModel(device, "here", "0.5", 40 << 30, "0")
    return {"status": "granted", "epoch": 1, "grants": [grant]} | changes


def sentence(code: str, text: str = "Because.") -> MessageModel:
    """A reason."""
    return MessageModel(code, text, {}, text)


class ScriptedBroker:
    """Listens on a Unix socket.

    Attributes:
        lease: what it welcomes a holder with; the claim as it came where None.
        heard: every message of every holder, but reports of use, which are in *usage*.
        sockets: the open connections.
        is_silent: whether it says nothing, not even welcome.
        turns_away: with which HTTP status it refuses to open a holder's connection; None where it does not.
        answers: what it answers to a path: a status and a body.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lease: LeaseModel | None = None
        self.heard: list[ToBroker] = []
        self.usage: list[UsageMessage] = []
        self.sockets: list[Any] = []
        self.connections = 0
        self.is_silent = False
        self.turns_away: int | None = None
        self.refuses: RefusedMessage | None = None
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.asked: list[tuple[str, str, bytes]] = []
        self._server: HTTPServer | None = None

    @property
    def endpoint(self) -> Endpoint:
        """Its address."""
        return Endpoint.at_socket(self.path)

    @property
    def hellos(self) -> list[HelloMessage]:
        """Every first message."""
        return [each for each in self.heard if isinstance(each, HelloMessage)]

    def start(self) -> None:
        """Listen."""
        routes = [(f"{API}/holder", _Holder, {"broker": self}), (r".*", _Rest, {"broker": self})]
        self._server = HTTPServer(Application(routes))
        self._server.add_socket(bind_unix_socket(str(self.path)))

    def stop(self) -> None:
        """Go away, and everybody's connection with it."""
        self.drop()
        if self._server is not None:
            self._server.stop()
            self._server = None
            self.path.unlink(missing_ok=True)

    def drop(self) -> None:
        """End every connection."""
        for socket in list(self.sockets):
            socket.close()

    def tell(self, **changes: Any) -> LeaseModel:
        """The lease is now so: say it to everybody."""
        self.lease = msgspec.structs.replace(self.lease or lease_of(), **changes)
        self.say(LeaseMessage(self.lease))
        return self.lease

    def say(self, message: ToHolder) -> None:
        """Say it to everybody."""
        self.say_text(msgspec.json.encode(message).decode())

    def say_text(self, text: str) -> None:
        """Say it, whatever it is."""
        for socket in list(self.sockets):
            socket.send(text)

    def take(self, socket: Any, message: ToBroker) -> None:
        """A holder said *message*."""
        if isinstance(message, UsageMessage):
            self.usage.append(message)
            return
        self.heard.append(message)
        if not isinstance(message, HelloMessage) or self.is_silent:
            return
        if self.refuses is not None:
            socket.send(msgspec.json.encode(self.refuses).decode())
            return
        self.lease = lease_of(message) if self.lease is None else self.lease
        socket.send(msgspec.json.encode(WelcomeMessage(BROKER, self.lease, "token-of-L1")).decode())


class _Holder(WebSocketHandler):
    def initialize(self, broker: ScriptedBroker) -> None:
        self.broker = broker

    def prepare(self) -> None:
        if self.broker.turns_away is not None:
            self.broker.asked.append(("GET", "holder", b""))
            self.set_status(self.broker.turns_away)
            self.finish()

    def open(self) -> None:
        self.broker.sockets.append(self)
        self.broker.connections += 1

    def on_message(self, message: str | bytes) -> None:
        self.broker.take(self, msgspec.json.decode(message, type=ToBroker))

    def on_close(self) -> None:
        self.broker.sockets.remove(self)

    def send(self, text: str) -> None:
        try:
            sent = asyncio.ensure_future(self.write_message(text))
        except WebSocketClosedError:
            return  # the holder went away; that is what a test may be about
        sent.add_done_callback(lambda done: done.exception())


class _Rest(RequestHandler):
    def initialize(self, broker: ScriptedBroker) -> None:
        self.broker = broker

    def _answer(self) -> None:
        request = self.request
        path = request.path.removeprefix(f"{API}/")
        self.broker.asked.append((request.method or "", request.uri or "", request.body))
        unknown = msgspec.json.encode(ErrorAnswer(sentence("NOT_FOUND", "There is no such thing."), "path"))
        status, body = self.broker.answers.get(path, (404, unknown))
        self.set_status(status)
        self.finish(body)

    def get(self) -> None:
        self._answer()

    def post(self) -> None:
        self._answer()

    def delete(self) -> None:
        self._answer()
