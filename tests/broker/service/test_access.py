"""Who may do what: every route and every verb, as everybody."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import pytest
from tornado.httpclient import HTTPRequest
from tornado.simple_httpclient import SimpleAsyncHTTPClient

from jupyter_gpushare.broker import admin_wire, handlers, openapi, serving, wire
from jupyter_gpushare.broker.access import ACCESS, HUB_ACCESS, Caller, Role
from jupyter_gpushare.broker.client import BrokerError
from jupyter_gpushare.broker.configuration import Configuration
from tests.broker.service.bench import SESSION, SWITCHED, Bench, upgrade

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tornado.httputil import HTTPServerRequest

    Play = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]

T = TypeVar("T")
VERBS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
TOKENS = {"owner": "o" * 24, "member": "m" * 24, "other": "x" * 24, "admin": "a" * 24}
#: Whom only a hub knows, by the tokens that it gave them.
HUBS_OWN = {
    "lead": Caller("lead", groups=frozenset({"leads"})),
    "mate": Caller("mate", groups=frozenset({"team"})),
    "reader": Caller("owner", groups=frozenset(), reads_only=True),
    "service": Caller("service culler", groups=frozenset(), kind="service", reads_only=True),
    "hub": Caller("the hub", groups=frozenset(), kind="hub"),
}
#: Who somebody is to the lease of this test, by the name of the token.
ROLES = {
    "nobody": {Role.NOBODY},
    "other": {Role.PERSON},
    "member": {Role.PERSON, Role.MEMBER},
    "owner": {Role.PERSON, Role.MEMBER, Role.OWNER},
    "mate": {Role.PERSON, Role.MEMBER},
    "lead": {Role.PERSON, Role.PROJECT_OWNER},
    "reader": {Role.PERSON, Role.MEMBER, Role.OWNER},
    "service": {Role.SERVICE},
    "hub": {Role.HUB},
    "lease": {Role.LEASE},
    "admin": {Role.PERSON, Role.ADMIN},
}
POLICY = '[projects.team]\nquota = "1"\nmembers = ["owner", "member", "@team"]\nowners = ["@leads"]\n'
BODIES: dict[str, dict[str, Any]] = {
    "apply": {"text": POLICY, "dry_run": True},
    "reclaim": {"lease": "{lease}"},
    "drain": {"host": "simulated", "undo": True},
    "stop-parking": {"stop": False},
    "claim": {"share": "0.1", "project": "team", "person": "{person}"},
    "alive": {"person": "{person}"},
    "limits": {"person": "member", "limit": "0.5"},
    "asks": {"project": "team", "amount": "0.75"},
    "ask": {"state": "approved"},
}
#: What is asked about, by what its place in a path is called.
PLACES = {"key": "hub:walk%2Fx", "project": "team", "person": "member", "number": "1"}
READS = ("GET", "HEAD")
SOCKETS = ("holder", "stream")


def all_routes() -> dict[str, str]:
    """Every path that is served, by the name in the table."""
    paths = {verb.route: verb.path for verb in openapi.VERBS}
    return paths | {"holder": "/holder", "stream": "/stream"}


@pytest.fixture(name="town")
def _town(bench: Bench) -> Bench:
    """A multi-user broker in the network, with people in it."""
    tokens = bench.directory / "tokens"
    lines = [f"{name} {token}{' admin' if name == 'admin' else ''}" for name, token in TOKENS.items()]
    tokens.write_text("# people\n" + "\n".join(lines) + "\n")
    tokens.chmod(0o600)
    policy = bench.directory / "gpushare.toml"
    policy.write_text(POLICY)
    bench.settings = replace(bench.settings, mode="multi_user", tokens=tokens, port=0, configuration=policy)
    bench.options["identify"] = known_to_the_hub
    return bench


async def known_to_the_hub(request: HTTPServerRequest) -> Caller | None:
    """Whom a hub would name for a token."""
    return HUBS_OWN.get(request.headers.get("Authorization", "").removeprefix("Bearer "))


async def ask(bench: Bench, verb: str, path: str, token: str = "", body: Any = None) -> int:
    """The status that somebody gets over the network."""
    address = next(each for each in bench.broker.addresses if each.startswith("http"))
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = HTTPRequest(
        f"{address}{handlers.API}{path}",
        verb,
        headers=headers,
        body=None if body is None else msgspec.json.encode(body),
        allow_nonstandard_methods=True,
    )
    client = SimpleAsyncHTTPClient(force_instance=True)
    try:
        return (await client.fetch(request, raise_error=False)).code
    finally:
        client.close()


def test_every_route_is_in_the_table_and_in_the_document() -> None:
    """A route that somebody adds must say who may use it, and be described."""
    served = {handler.route for _, handler in serving.ROUTES}
    assert served == {route for route, _ in ACCESS} == set(all_routes())
    described = {(verb.route, verb.method.upper()) for verb in openapi.VERBS}
    assert described == {key for key in ACCESS if key[0] not in SOCKETS}


def test_everybody_may_exactly_what_the_table_says(town: Bench, play: Play) -> None:
    """Each route, each verb, each kind of caller: 401 or 404 for strangers, 403 for known people, else not refused."""

    async def story(bench: Bench) -> None:
        raw = await bench.raw(Authorization=f"Bearer {TOKENS['owner']}")
        welcome = await raw.greet(msgspec.structs.replace(SESSION, project="team"))
        address = next(each for each in bench.broker.addresses if each.startswith("http"))
        wrong = []
        for who, roles in ROLES.items():
            token = {"nobody": "", "lease": welcome.token}.get(who) or TOKENS.get(who, who)
            for route, path in all_routes().items():
                for verb in VERBS:
                    if verb == "DELETE" and route == "lease" and roles & ACCESS["lease", "DELETE"] and who != "reader":
                        continue  # it would end the lease that the others are asked about
                    url = path.format(lease_id=welcome.lease.id, **PLACES) + query_of(route, who)
                    body = body_of(route, who, welcome.lease.id) if verb in ("POST", "PUT") else None
                    if route in SOCKETS and verb == "GET":
                        code = await upgrade(f"{address}{handlers.API}{path}", token)
                    else:
                        code = await ask(bench, verb, url, token, body)
                    if not is_right(code, route, verb, who):
                        wrong.append((who, verb, path, code))
        assert not wrong

    play(story)


def query_of(route: str, who: str) -> str:
    """What a request says beside its path: the hub and admins say for whom they ask."""
    words = ["share=0.5"] if route == "availability" else []
    if who in ("hub", "admin") and route in ("availability", "claim", "memberships"):
        words.append("person=owner")
    return f"?{'&'.join(words)}" if words else ""


def body_of(route: str, who: str, lease: str) -> dict[str, Any]:
    """What a request says."""
    person = "owner" if who in ("hub", "admin") else ""
    return {
        key: value.format(lease=lease, person=person) if isinstance(value, str) else value
        for key, value in BODIES.get(route, {}).items()
    }


def is_right(code: int, route: str, verb: str, who: str) -> bool:
    """Whether that is the answer to one who may, or to one who may not."""
    if (route, verb) not in ACCESS:
        return code == 405
    is_let = bool(ROLES[who] & (HUB_ACCESS if who in HUBS_OWN else ACCESS)[route, verb])
    if who == "reader" and (verb not in READS or route == "holder"):
        is_let = False  # whatever it is, its token lets it look and no more
    if is_let and route in SOCKETS:
        return code == SWITCHED
    if is_let:
        # There may be none of one's own, and a file sets the configuration; that is said to those who may ask.
        return code in (200, 201, 202, 204, 404, 409)
    if who == "nobody":
        return code == 401
    is_hidden = route in ("lease", "members", "member", "limits")
    return code in ((403, 404) if is_hidden else (403,))


def test_what_one_may_not_see_does_not_exist(town: Bench, play: Play) -> None:
    """Somebody else's lease is in no list and under no id, and a notebook's name is told to its owner and admins."""

    async def story(bench: Bench) -> None:

        raw = await bench.raw(Authorization=f"Bearer {TOKENS['owner']}")
        welcome = await raw.greet(msgspec.structs.replace(SESSION, project="team", name="secret.ipynb"))
        address = next(each for each in bench.broker.addresses if each.startswith("http"))
        names = {}
        for who, token in TOKENS.items():
            client = SimpleAsyncHTTPClient(force_instance=True)
            request = HTTPRequest(f"{address}{handlers.API}/leases", headers={"Authorization": f"token {token}"})
            body = (await client.fetch(request)).body
            client.close()
            names[who] = [lease.name for lease in msgspec.json.decode(body, type=wire.LeasesAnswer).leases]
        assert names == {"owner": ["secret.ipynb"], "member": [""], "other": [], "admin": ["secret.ipynb"]}
        assert await ask(bench, "GET", f"/leases/{welcome.lease.id}", TOKENS["other"]) == 404
        assert await ask(bench, "DELETE", f"/leases/{welcome.lease.id}", TOKENS["member"]) == 403

    play(story)


def test_a_lease_token_works_for_that_lease_alone(town: Bench, play: Play) -> None:
    """It opens its own lease, and neither another one nor a new claim; altered by one character it opens nothing."""

    async def story(bench: Bench) -> None:

        claim = msgspec.structs.replace(SESSION, project="team", share="0.25")
        first = await (await bench.raw(Authorization=f"Bearer {TOKENS['owner']}")).greet(claim)
        second = await (await bench.raw(Authorization=f"Bearer {TOKENS['owner']}")).greet(
            msgspec.structs.replace(claim, key="two")
        )
        assert await ask(bench, "GET", f"/leases/{first.lease.id}", first.token) == 200
        assert await ask(bench, "GET", f"/leases/{second.lease.id}", first.token) == 404
        assert await ask(bench, "GET", "/leases", first.token) == 403
        forged = first.token[:-1] + ("0" if first.token[-1] != "0" else "1")
        assert await ask(bench, "GET", f"/leases/{first.lease.id}", forged) == 401
        raw = await bench.raw(Authorization=f"Bearer {first.token}")
        await raw.say(wire.HelloMessage(msgspec.structs.replace(claim, key="two"), []))
        said = await raw.hear()
        assert said.error.code == "TOKEN_OF_ANOTHER_LEASE"
        again = await bench.raw(Authorization=f"Bearer {first.token}")
        assert (await again.greet(claim)).lease.id == first.lease.id

    play(story)


def test_a_second_user_is_told_what_to_do(bench: Bench, play: Play) -> None:
    """A broker that somebody started for himself serves nobody else, and says how to get one for everybody."""

    async def story(bench: Bench) -> None:
        bench.uid = 4711
        with pytest.raises(BrokerError) as caught:
            await bench.client.request("GET", "leases")
        assert caught.value.code == "ANOTHER_USERS_BROKER"
        assert "install-service" in caught.value.text
        holding = bench.hold()
        with pytest.raises(BrokerError):
            await holding.granted()

    play(story)


def test_two_users_of_one_machine_are_two_people(bench: Bench, play: Play) -> None:
    """On the machine's broker each is who the system says: neither sees, ends or takes over what the other has."""
    bench.settings = replace(bench.settings, mode="multi_user")

    async def story(bench: Bench) -> None:
        bench.uid = 4711
        mine = await bench.running()
        bench.uid = 4712
        theirs = await bench.running()
        assert mine.lease is not None
        assert theirs.lease is not None
        assert (mine.lease.person, theirs.lease.person) == ("4711", "4712")
        assert mine.lease.id != theirs.lease.id
        with pytest.raises(BrokerError) as caught:
            await bench.client.request("DELETE", f"leases/{mine.lease.id}")
        assert caught.value.status == 404
        with pytest.raises(BrokerError) as caught:
            await bench.client.request("POST", "admin/stop-parking", admin_wire.StopParkingRequest(stop=True))
        assert caught.value.status == 403

    play(story)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_real_second_user_cannot_even_reach_the_socket(bench: Bench, play: Play) -> None:
    """The directory of somebody's own broker is closed to others by the system itself."""

    async def story(bench: Bench) -> None:
        code = (
            "import os, socket, sys; os.setgid(4711); os.setuid(4711); s = socket.socket(socket.AF_UNIX)\n"
            "try: s.connect(sys.argv[1])\nexcept PermissionError: print('refused')\n"
        )
        command = [sys.executable, "-c", code, str(bench.settings.socket)]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "refused"

    play(story)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_real_second_user_is_known_by_the_system(bench: Bench, play: Play) -> None:
    """On the machine's broker SO_PEERCRED says who connects, whatever that process claims to be."""
    bench.directory.chmod(0o755)
    bench.settings = replace(bench.settings, mode="multi_user")
    bench.settings.runtime.mkdir(mode=0o755)

    async def story(bench: Bench) -> None:
        code = (
            "import os, socket, sys; os.setgid(4711); os.setuid(4711); s = socket.socket(socket.AF_UNIX)\n"
            "s.connect(sys.argv[1])\n"
            "s.sendall(b'POST /services/gpushare/api/v1/admin/stop-parking HTTP/1.0\\r\\nX-User: root\\r\\n"
            'Content-Length: 13\\r\\n\\r\\n{"stop":true}\'); print(s.recv(1000).split()[1].decode())\n'
        )
        command = [sys.executable, "-c", code, str(bench.settings.socket)]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "403"

    play(story)


def test_processes_of_others_are_not_counted_as_ones_own(bench: Bench, play: Play) -> None:
    """Nobody gets another user's, or another lease's, processes into its books."""
    bench.settings = replace(bench.settings, mode="multi_user")

    async def story(bench: Bench) -> None:
        bench.uid = 4711
        stranger = await bench.running(SESSION, os.getpid())
        assert stranger.lease is not None
        assert not bench.broker.desk.roster.has(stranger.lease.id)

    play(story)


def test_a_token_does_not_make_other_users_processes_ones_own(bench: Bench, play: Play) -> None:
    """Who shows the token of its lease is still the user that the system says: others' memory stays foreign."""
    bench.settings = replace(bench.settings, mode="multi_user")

    async def story(bench: Bench) -> None:
        bench.uid = 4711
        first = await (await bench.raw()).greet(SESSION)
        raw = await bench.raw(Authorization=f"Bearer {first.token}")
        again = await raw.greet(SESSION, os.getpid())
        assert again.lease.id == first.lease.id
        assert not bench.broker.desk.roster.has(first.lease.id)

    play(story)


def test_a_wrong_token_is_nobody_and_scans_nothing(town: Bench, play: Play) -> None:
    """Without a right token even the existence of routes is all that is told."""

    async def story(bench: Bench) -> None:
        for header in ("nonsense", "Bearer ", "Bearer x", "Basic " + TOKENS["admin"]):
            address = next(each for each in bench.broker.addresses if each.startswith("http"))
            client = SimpleAsyncHTTPClient(force_instance=True)
            request = HTTPRequest(f"{address}{handlers.API}/leases", headers={"Authorization": header})
            assert (await client.fetch(request, raise_error=False)).code == 401
            client.close()
        assert await ask(bench, "GET", "/health") == 200
        assert await ask(bench, "GET", "/../../etc/passwd", TOKENS["admin"]) == 404

    play(story)


def test_configured_names_and_groups_are_admins(bench: Bench, play: Play) -> None:
    """`[broker] admins` names people, and Unix groups with an @."""
    import grp

    root_group = grp.getgrgid(0).gr_name
    bench.settings = replace(bench.settings, mode="multi_user")

    async def story(bench: Bench) -> None:
        broker = bench.broker
        bench.uid = 4711
        with pytest.raises(BrokerError):
            await bench.client.request("POST", "admin/stop-parking", admin_wire.StopParkingRequest(stop=False))
        broker.peers = replace(broker.peers, admins=frozenset({"4711"}))
        await bench.client.request("POST", "admin/stop-parking", admin_wire.StopParkingRequest(stop=False))
        broker.peers = replace(broker.peers, admins=frozenset({f"@{root_group}"}))
        with pytest.raises(BrokerError):
            await bench.client.request("POST", "admin/stop-parking", admin_wire.StopParkingRequest(stop=False))
        assert isinstance(broker.configured.now, Configuration)

    play(story)


def test_a_listening_socket_is_never_taken_from_another_broker(bench: Bench, play: Play) -> None:
    """A second broker on the same socket says that there is one, and leaves it alone."""

    async def story(bench: Bench) -> None:
        from jupyter_gpushare.broker.listening import listen

        with pytest.raises(OSError, match="another broker listens"):
            listen(bench.settings)
        with socket.socket(socket.AF_UNIX) as probe:
            probe.connect(str(bench.settings.socket))

    play(story)
