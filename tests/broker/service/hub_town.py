"""A hub's broker, its hub and its people: nobody but a token says who is there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
from tornado.httpclient import HTTPRequest
from tornado.simple_httpclient import SimpleAsyncHTTPClient

from jupyter_gpushare.broker import hub_wire
from jupyter_gpushare.broker.access import Caller
from jupyter_gpushare.broker.client import BrokerClient, Endpoint, Pauses
from jupyter_gpushare.broker.handlers import API
from jupyter_gpushare.broker.settings import Settings
from jupyter_gpushare.broker.wire import ClaimModel, ErrorAnswer

if TYPE_CHECKING:
    from tornado.httputil import HTTPServerRequest

    from tests.broker.service.bench import Bench

__all__ = ["HUB", "POLICY", "Answer", "HubTown", "session"]

HUB = "hub"
POLICY = """
[projects.team]
quota = "2"
members = ["ana", "bo", "@team"]
owners = ["cy", "@leads"]

[projects.other]
quota = "1"
members = ["dee"]

[projects.spare]
quota = "0"
members = ["bo"]

[pools.default]
minimum_turn = "0s"
"""
_T = TypeVar("_T")


class Answer(NamedTuple):
    """What somebody is answered."""

    status: int
    body: bytes

    def of(self, kind: type[_T]) -> _T:
        """The body, as *kind*."""
        return msgspec.json.decode(self.body, type=kind)

    @property
    def code(self) -> str:
        """Why it was refused."""
        return self.of(ErrorAnswer).error.code

    @property
    def claim(self) -> hub_wire.ClaimAnswer:
        """The claim."""
        return self.of(hub_wire.ClaimAnswer)


def session(key: str, **more: Any) -> ClaimModel:
    """What a notebook server that a hub started says in its hello."""
    plain = ClaimModel(key=key, kind="interactive", project="team", share="0.5", name="lab", is_parkable=True)
    return msgspec.structs.replace(plain, **more)


class HubTown:
    """Asks a broker as a hub and as the hub's people.

    Attributes:
        bench: the broker.
        groups: the groups of each person, as the hub says.
    """

    def __init__(self, bench: Bench, policy: str = POLICY) -> None:
        self.bench = bench
        self.groups: dict[str, frozenset[str]] = {}
        state = bench.directory / "hub"
        state.mkdir(mode=0o700)
        self.file = bench.directory / "gpushare.toml"
        self.file.write_text(policy)
        settings = Settings.hub(bench.environ, state=state, port=0, configuration=self.file)
        bench.settings = replace(settings, ledger="memory")
        bench.options["identify"] = self._identify

    @property
    def url(self) -> str:
        """Where the broker is."""
        return self.bench.broker.addresses[0]

    def client(self, token: str) -> BrokerClient:
        """Asks the broker with *token*."""
        return BrokerClient(Endpoint.parse(self.url, token), 30.0, Pauses(0.01, 0.05, 10.0))

    async def ask(self, verb: str, path: str, who: str = HUB, body: Any = None) -> Answer:
        """What *who* is answered: the hub, a person by name, ``admin``. A *path* with a slash before it is a whole one."""
        text = body if isinstance(body, (bytes, str)) else None if body is None else msgspec.json.encode(body)
        request = HTTPRequest(
            self.url + (path if path.startswith("/") else f"{API}/{path}"),
            verb,
            headers={"Authorization": f"Bearer {who}"},
            body=text,
            allow_nonstandard_methods=True,
            request_timeout=60,
        )
        client = SimpleAsyncHTTPClient(force_instance=True)
        try:
            answer = await client.fetch(request, raise_error=False)
        finally:
            client.close()
        return Answer(answer.code, answer.body or b"")

    async def put(self, key: str, who: str = HUB, **words: Any) -> Answer:
        """Claim half a GPU for ana of the team, or what *words* say."""
        plain: dict[str, Any] = {"share": "0.5", "project": "team"} | ({"person": "ana"} if who == HUB else {})
        return await self.ask("PUT", f"claims/{key}", who, plain | words)

    async def start(self, key: str, **words: Any) -> Answer:
        """Claim as a hub's hook does when a server starts."""
        return await self.put(key, is_starting=True, **words)

    async def alive(self, key: str, who: str = HUB, **words: Any) -> Answer:
        """Keep a claim."""
        return await self.ask("POST", f"claims/{key}/alive", who, ({"person": "ana"} if who == HUB else {}) | words)

    async def _identify(self, request: HTTPServerRequest) -> Caller | None:
        who = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if who == HUB:
            return Caller("the hub", groups=frozenset(), kind="hub")
        if not who or who.startswith("gpl_"):
            return None
        return Caller(who, is_admin=who == "admin", groups=self.groups.get(who, frozenset()))
