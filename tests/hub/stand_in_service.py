"""A small service in the place of ours: it grants, refuses, waits, hangs and vanishes as a test wants, and remembers."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from jupyter_gpushare.broker.hub_wire import ClaimAnswer, ClaimRequest, HoldModel
from jupyter_gpushare.broker.wire import ErrorAnswer, LeaseModel, MessageModel
from jupyter_gpushare.hub.picker_link import PickerLink
from jupyter_gpushare.hub.picture import CardPicture, Picture

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

PREFIX = "/services/gpushare/"
TOKEN = "the-lease-s-own-token"


@dataclass
class StandInService:
    """What it does next, and what it was asked.

    Attributes:
        port: where it listens.
        refusal: status, code and sentence with which claims are refused; None grants them.
        hangs: whether claims are never answered.
        picture: how pickers stand; None answers none.
        asked: every claim, with its key.
        ended: the key and person of every claim that was let go.
        looks: every picker that asked.
        tokens: what was shown with claims.
        secret: what the hub signs with.
        stopped: set when it listens no more.
        was_asked: set by a claim.
        was_ended: set by the end of one.
    """

    port: int = 0
    refusal: tuple[int, str, str] | None = None
    hangs: bool = False
    picture: Picture | None = None
    asked: list[tuple[str, ClaimRequest]] = field(default_factory=list)
    ended: list[tuple[str, str]] = field(default_factory=list)
    looks: list[PickerLink] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    secret: str = ""
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    was_asked: asyncio.Event = field(default_factory=asyncio.Event)
    was_ended: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[StandInService]:
        """Listen meanwhile."""
        ours = {"service": self}
        application = Application([(rf"{PREFIX}api/v1/claims/(.+)", _Claim, ours), (rf"{PREFIX}picker", _Picker, ours)])
        server = HTTPServer(application)
        sockets = bind_sockets(self.port, "127.0.0.1", family=socket.AF_INET)
        server.add_sockets(sockets)
        self.port = sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            self.stopped.set()
            server.stop()
            await server.close_all_connections()


def lease_of(request: ClaimRequest, **changed: Any) -> LeaseModel:
    """A lease that was granted for *request*."""
    now = time.time()
    said = {
        "id": "l1", "kind": "interactive", "project": request.project, "person": request.person, "name": request.name,
        "share": request.share, "pool": "default", "status": "granted", "target": "running", "submitted": now,
        "since": now, "epoch": 1, "grants": [], "bursts": [], "lent": "0", "host_memory": 0, "turns_lost": 0,
        "reason": None, "place": None, "estimate_s": None, "deadline": None, "lent_to": [], **changed,
    }  # fmt: skip
    return msgspec.convert(said, LeaseModel)


def picture_of(*shares: str, **said: Any) -> Picture:
    """A picker of somebody in team-a, whose *shares* can all be had."""
    cards = [CardPicture(share, "now", "2 free now", "10 GB guaranteed of an A100") for share in shares]
    usual = {"project": "team-a", "projects": ["team-a"], "headline": "team-a · 1.5 of 4 GPUs in use by your team"}
    return Picture(cards, **{**usual, **said})


class _Claim(RequestHandler):
    def initialize(self, service: StandInService) -> None:
        self.service = service

    async def put(self, key: str) -> None:
        service = self.service
        request = msgspec.json.decode(self.request.body, type=ClaimRequest)
        service.asked.append((unquote(key), request))
        service.tokens.append(self.request.headers.get("Authorization", ""))
        service.was_asked.set()
        if service.hangs:
            await service.stopped.wait()
            return
        if service.refusal is not None:
            status, code, text = service.refusal
            self.set_status(status)
            self.finish(msgspec.json.encode(ErrorAnswer(MessageModel(code, text, {}, text))))
            return
        answer = ClaimAnswer(unquote(key), lease_of(request), HoldModel(time.time() + 60, is_starting=True), TOKEN)
        self.set_status(201)
        self.finish(msgspec.json.encode(answer))

    def delete(self, key: str) -> None:
        self.service.ended.append((unquote(key), self.get_query_argument("person")))
        self.service.was_ended.set()
        self.set_status(204)


class _Picker(RequestHandler):
    def initialize(self, service: StandInService) -> None:
        self.service = service

    def post(self) -> None:
        body, signature = self.get_body_argument("for"), self.get_body_argument("sign")
        link = PickerLink.read(body, signature, self.service.secret, time.time(), is_sent=True)
        self.service.looks.append(link)
        picture = self.service.picture
        if picture is None:
            self.send_error(503)
            return
        known = {card.share: card for card in picture.cards}
        cards = [known.get(share, CardPicture(share, "now", "free now", "")) for share in link.shares]
        self.finish(msgspec.json.encode(msgspec.structs.replace(picture, cards=cards)))
