"""Who may do what by the interface: every route and verb, by tokens with scopes that a hub gives, asked of the hub."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

from jupyter_gpushare.broker.access import HUB_ACCESS, Role
from jupyter_gpushare.broker.openapi import VERBS as BROKERS
from jupyter_gpushare.broker.wire import HelloMessage
from jupyter_gpushare.hub.culling.handlers import ACCESS as CULLING
from jupyter_gpushare.hub.culling.openapi_verbs import VERBS as CULLINGS
from tests.broker.service.bench import SESSION, SWITCHED, upgrade
from tests.broker.service.test_access import SOCKETS

from .bench import HUB_TOKEN, POLICY, close
from .test_access import VERBS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from .bench import ServiceBench

    Play = Callable[[Callable[[ServiceBench], Coroutine[Any, Any, None]]], None]

TABLE = {**HUB_ACCESS, **CULLING}
PATHS = {verb.route: verb.path for verb in (*BROKERS, *CULLINGS)} | {each: f"/{each}" for each in SOCKETS}
#: What one who only looks may.
LOOKS = ("GET", "HEAD")
NOBODY = frozenset({Role.NOBODY})
PERSON = frozenset({Role.PERSON})
OWNER = PERSON | {Role.MEMBER, Role.OWNER}
ADMIN = frozenset({Role.ADMIN})
#: What is asked about, by what its place in a path is called.
PLACES = {"key": "hub:walk%2Fx", "project": "team-a", "person": "ben", "number": "1"}
#: What is hidden from those who may see nothing of it.
HIDDEN = ("lease", "members", "member", "limits")
#: Who may speak for others must say for whom.
FOR_OTHERS = ("availability", "claim", "memberships")
BODIES: dict[str, dict[str, Any]] = {
    "apply": {"text": POLICY, "dry_run": True},
    "reclaim": {"lease": "{lease}"},
    "drain": {"host": "simulated", "undo": True},
    "stop-parking": {"stop": False},
    "claim": {"share": "0.1", "project": "team-a", "person": "{person}"},
    "alive": {"person": "{person}"},
    "limits": {"person": "ben", "limit": "0.5"},
    "asks": {"project": "team-a", "amount": "0.75"},
    "ask": {"state": "approved"},
    "culling/testimony": {"server": "hub:ana/", "idle_s": 1.0},
    "culling/losses": {"stops": [{"person": "nobody", "server": "", "why": "IDLE"}]},
}


@dataclass(frozen=True)
class Token:
    """One token. *scopes* as the hub's documents write them; *roles* towards ana's lease and its project."""

    name: str
    scopes: tuple[str, ...]
    roles: frozenset[Role]
    kind: str = "user"
    looks: bool = False
    groups: tuple[str, ...] = ()


#: By what they are for.
TOKENS = {
    "a page of hers": Token("ana", ("tokens!user=ana", "servers!user=ana"), OWNER),
    "her script": Token("ana", ("custom:gpushare:write",), OWNER),
    "her script for its user": Token("ana", ("custom:gpushare:write!user=ana",), OWNER),
    "her dashboard": Token("ana", ("custom:gpushare:read",), OWNER, looks=True),
    "her server, older": Token("ana", ("access:services!service=gpushare",), OWNER, looks=True),
    "her server": Token("ana", ("custom:gpushare:write!server=ana/",), OWNER),
    "a member by name": Token("ben", ("tokens!user=ben",), PERSON | {Role.MEMBER}),
    "a member by group": Token("mia", ("tokens!user=mia",), PERSON | {Role.MEMBER}, groups=("team-a",)),
    "an owner of the project": Token("cy", ("tokens!user=cy",), PERSON | {Role.PROJECT_OWNER}),
    "somebody else": Token("bo", ("tokens!user=bo",), PERSON),
    "an admin": Token("root-admin", ("tokens!user=root-admin",), PERSON | ADMIN),
    "an admin by group": Token("dora", ("tokens!user=dora",), PERSON | ADMIN, groups=("gpu-admins",)),
    "an admin's script": Token("root-admin", ("custom:gpushare:admin",), PERSON | ADMIN),
    "an admin's server": Token("root-admin", ("custom:gpushare:write",), PERSON),
    "Prometheus": Token("prometheus", ("custom:gpushare:read",), frozenset({Role.SERVICE}), "service", looks=True),
    "a service that writes": Token("bot", ("custom:gpushare:write",), frozenset({Role.SERVICE}), "service", looks=True),
    "a service that may enter": Token("bot", ("access:services",), frozenset({Role.SERVICE}), "service", looks=True),
    "the culler": Token("culler", ("custom:gpushare:admin",), frozenset({Role.SERVICE}) | ADMIN, "service"),
    # Known to the hub, and nothing of ours in their scopes: the same as one that may do nothing at all.
    "another service's": Token("ana", ("access:services!service=other",), frozenset()),
    "for another server": Token("ana", ("custom:gpushare:write!server=bo/",), frozenset()),
    "for other users": Token("ana", ("custom:gpushare:write!user=bo",), frozenset()),
    "for another group": Token("ana", ("custom:gpushare:admin!group=gpu-admins",), frozenset()),
    "a service for one user": Token("bot", ("custom:gpushare:admin!user=bot",), frozenset(), "service"),
}
#: Those that the hub did not make: nobody's, the hub's own, and a lease's.
OTHERS = {
    "nobody": Token("", (), NOBODY),
    "unknown": Token("", (), NOBODY),
    "the hub": Token("the hub", (), frozenset({Role.HUB}), "hub"),
    "the lease": Token("", (), frozenset({Role.LEASE})),
}
ALL = {**TOKENS, **OTHERS}
NO_SUCH_TOKEN = "f" * 32


async def strings_of(bench: ServiceBench) -> tuple[dict[str, str], str]:
    """Every token as it is sent; ana's lease, whose own one is among them."""
    made = {}
    for who, token in TOKENS.items():
        if token.kind == "user":
            bench.hub.user(token.name).groups = list(token.groups)
        made[who] = bench.hub.token_of(token.name, *token.scopes, kind=token.kind)
    url = f"{bench.url}api/v1/holder".replace("http", "ws", 1)
    headers = {"Authorization": f"token {made['her script']}"}
    holder = await websocket_connect(HTTPRequest(url, headers=headers))
    claim = msgspec.structs.replace(SESSION, project="team-a", share="0.25")
    await holder.write_message(msgspec.json.encode(HelloMessage(claim, [])))
    welcome = msgspec.json.decode(str(await holder.read_message()))
    await close(holder)
    made |= {"nobody": "", "unknown": NO_SUCH_TOKEN, "the hub": HUB_TOKEN, "the lease": welcome["token"]}
    return made, welcome["lease"]["id"]


def test_every_route_of_the_interface_is_walked() -> None:
    """A route that somebody adds to the service must say who may, and is asked for here."""
    assert set(PATHS) == {route for route, _ in TABLE}


def test_each_token_opens_exactly_what_its_scopes_say(play: Play) -> None:
    """Each route and verb, sockets by a real upgrade: 401 for nobody, 403 for what a token is not for, else let in."""

    async def story(bench: ServiceBench) -> None:
        tokens, lease = await strings_of(bench)
        wrong: list[tuple[object, ...]] = []
        for who, token in ALL.items():
            for route, path in PATHS.items():
                address = "api/v1" + path.format(lease_id=lease, **PLACES) + query_of(route, token)
                for verb in VERBS:
                    if (route, verb) == ("lease", "DELETE") and is_let(token, route, verb):
                        continue  # it would end the lease that the others are asked about
                    if verb == "GET" and route in SOCKETS:
                        status = await upgrade(f"{bench.url}{address}", tokens[who])
                    else:
                        body = body_of(route, verb, token, lease)
                        status = (await bench.fetch(verb, address, headers(tokens[who]), body)).status
                    if not is_right(status, route, verb, token):
                        wrong.append((who, verb, route, status))
        assert not wrong
        assert lease in bench.service.broker.books.leases, "nobody who may not has ended it"

    play(story)


def test_only_her_own_tokens_that_act_and_admins_end_a_lease(play: Play) -> None:
    """What the walk leaves out: ended by each token that may, each time it is there again."""

    async def story(bench: ServiceBench) -> None:
        tokens, _ = await strings_of(bench)
        may = [who for who, token in ALL.items() if is_let(token, "lease", "DELETE") and who != "the lease"]
        assert {ALL[who].name for who in may} == {"ana", "root-admin", "dora", "culler", "the hub"}
        for number, who in enumerate(may):
            lease = await bench.running("ana", "team-a", f"lab-{number}", "0.01")
            answer = await bench.fetch("DELETE", f"api/v1/leases/{lease.id}", headers(tokens[who]))
            assert answer.status == 202, (who, answer.text)

    play(story)


def test_a_token_that_the_hub_takes_back_opens_nothing_more(bench: ServiceBench, play: Play) -> None:
    """Asked of the hub again, within a minute at most: revoked tokens, and admins who are none any more."""

    async def story(bench: ServiceBench) -> None:
        tokens, _ = await strings_of(bench)
        admin, script = headers(tokens["an admin by group"]), headers(tokens["her script"])
        stop = msgspec.json.encode({"stop": False}).decode()
        assert (await bench.fetch("POST", "api/v1/admin/stop-parking", admin, stop)).status == 200
        assert (await bench.fetch("GET", "api/v1/leases", script)).status == 200
        bench.hub.user("dora").groups = []
        del bench.hub.tokens[tokens["her script"]]
        later = bench.service.identity.monotonic() + 60
        bench.service.identity.monotonic = lambda: later
        assert (await bench.fetch("POST", "api/v1/admin/stop-parking", admin, stop)).status == 403
        assert (await bench.fetch("GET", "api/v1/leases", script)).status == 401

    play(story)


def headers(token: str) -> dict[str, str]:
    """As a program sends them."""
    return {"Authorization": f"token {token}"} if token else {}


def speaks_for_others(token: Token) -> bool:
    """The hub and admins say for whom they ask."""
    return bool(token.roles & {Role.HUB, Role.ADMIN})


def query_of(route: str, token: Token) -> str:
    """What a request says beside its path."""
    words = ["share=0.5"] if route == "availability" else []
    if speaks_for_others(token) and route in FOR_OTHERS:
        words.append("person=ana")
    return f"?{'&'.join(words)}" if words else ""


def body_of(route: str, verb: str, token: Token, lease: str) -> str | None:
    """What a request says."""
    if verb not in ("POST", "PUT"):
        return None
    person = "ana" if speaks_for_others(token) else ""
    words = {
        key: value.format(lease=lease, person=person) if isinstance(value, str) else value
        for key, value in BODIES.get(route, {}).items()
    }
    return msgspec.json.encode(words).decode()


def is_let(token: Token, route: str, verb: str) -> bool:
    """Whether the table lets it: one that only looks holds nothing, either, and a service never asks for itself."""
    if token.looks and (verb not in LOOKS or route == "holder"):
        return False
    if token.kind == "service" and (route, verb) == ("asks", "POST"):
        return False
    return bool(token.roles & TABLE.get((route, verb), frozenset()))


def is_right(status: int, route: str, verb: str, token: Token) -> bool:
    """Whether that is the answer to one who may, or to one who may not."""
    if not token.roles:
        return status == 403  # whatever it asks for
    if (route, verb) not in TABLE:
        return status == 405
    if is_let(token, route, verb):
        if route in SOCKETS:
            return status == SWITCHED
        # There may be none of one's own, and a file sets the configuration; that is said to those who may ask.
        return status in (200, 201, 202, 204, 404, 409)
    if token.roles == NOBODY:
        return status == 401
    return status in ((403, 404) if route in HIDDEN else (403,))
