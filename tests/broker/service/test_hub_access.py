"""What a hub's people may do: for themselves, for others, and whose names they are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from tornado.httpclient import HTTPRequest
from tornado.simple_httpclient import SimpleAsyncHTTPClient

from jupyter_gpushare.broker import handlers, hub_wire, wire
from jupyter_gpushare.broker.access import Caller
from tests.broker.service.bench import SESSION, Bench
from tests.broker.service.test_access import TOKENS, _town, ask  # noqa: F401  # a fixture

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tornado.httputil import HTTPServerRequest

    Play = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]

T = TypeVar("T")


def test_a_person_claims_for_nobody_else(town: Bench, play: Play) -> None:
    """Another one's claim is neither made, seen, kept nor ended by a person, an owner or a service; by the hub it is."""

    async def story(bench: Bench) -> None:
        wish = {"share": "0.25", "project": "team", "person": "owner", "wait": True}
        wrong = []
        for who in ("other", "mate", "lead", "member", "service"):
            token = TOKENS.get(who, who)
            for verb, path, body in (
                ("PUT", "/claims/k", wish),
                ("GET", "/claims/k?person=owner", None),
                ("POST", "/claims/k/alive", {"person": "owner"}),
                ("DELETE", "/claims/k?person=owner", None),
                ("GET", "/availability?share=1&person=owner", None),
                ("GET", "/memberships?person=owner", None),
            ):
                code = await ask(bench, verb, path, token, body)
                wrong += [(who, verb, path, code)] if code != 403 else []
        assert not wrong
        for word in ({"groups": ["leads"]}, {"is_starting": True}):
            own = {"share": "0.25", "project": "team", **word}
            assert await ask(bench, "PUT", "/claims/k", TOKENS["owner"], own) == 403
        assert await ask(bench, "POST", "/claims/k/alive", TOKENS["owner"], {"is_running": True}) == 403
        assert await ask(bench, "PUT", "/claims/k", "hub", wish) == 201
        assert await ask(bench, "GET", "/claims/k", TOKENS["owner"]) == 200
        assert await ask(bench, "DELETE", "/claims/k?person=owner", "hub") == 204
        assert await ask(bench, "PUT", "/claims/k", "hub", {"share": "0.25", "project": "team"}) == 400

    play(story)


def test_names_are_told_to_owners_of_the_project_and_to_nobody_else_of_the_hub(town: Bench, play: Play) -> None:
    """A hub's team mate sees that a share is in use and not whose; the project's owner sees both; a service neither."""

    async def story(bench: Bench) -> None:
        raw = await bench.raw(Authorization=f"Bearer {TOKENS['owner']}")
        await raw.greet(msgspec.structs.replace(SESSION, project="team", name="secret.ipynb"))
        seen = {}
        for who in ("mate", "lead", "service", "hub", "reader"):
            answer = await fetch(bench, "/leases", who, wire.LeasesAnswer)
            seen[who] = [(lease.person, lease.name) for lease in answer.leases]
        assert seen == {
            "mate": [("", "")],
            "lead": [("owner", "secret.ipynb")],
            "service": [("", "")],
            "hub": [("owner", "secret.ipynb")],
            "reader": [("owner", "secret.ipynb")],
        }

    play(story)


def test_who_is_in_a_project_is_told_to_its_owners(town: Bench, play: Play) -> None:
    """The names behind a project are its owners' and admins' business; a member sees how it stands."""

    async def story(bench: Bench) -> None:
        for who, owners in (("mate", []), ("lead", ["@leads"]), ("service", [])):
            answer = await fetch(bench, "/projects", who, wire.ProjectsAnswer)
            assert [project.owners for project in answer.projects] == [owners]
        people = await fetch(bench, "/projects/team/members", "lead", hub_wire.MembersAnswer)
        assert people.names == ["@team", "member", "owner"]
        assert [(each.person, each.via) for each in people.members] == [
            ("mate", "@team"),
            ("member", ""),
            ("owner", ""),
        ]

    play(story)


def test_a_person_called_like_a_group_is_no_member(town: Bench, play: Play) -> None:
    """Whoever gets the name ``@team`` or ``@leads`` at the hub gets nothing by it."""
    callers = {"@team": Caller("@team", groups=frozenset()), "@leads": Caller("@leads", groups=frozenset())}

    async def identify(request: HTTPServerRequest) -> Caller | None:
        return callers.get(request.headers.get("Authorization", "").removeprefix("Bearer "))

    town.options["identify"] = identify

    async def story(bench: Bench) -> None:
        assert await ask(bench, "PUT", "/claims/k", "@team", {"share": "0.25", "project": "team"}) == 409
        assert await ask(bench, "GET", "/projects/team/members", "@leads") == 404

    play(story)


async def fetch(bench: Bench, path: str, token: str, kind: type[T]) -> T:
    """What somebody is answered over the network."""
    address = next(each for each in bench.broker.addresses if each.startswith("http"))
    client = SimpleAsyncHTTPClient(force_instance=True)
    try:
        request = HTTPRequest(f"{address}{handlers.API}{path}", headers={"Authorization": f"Bearer {token}"})
        return msgspec.json.decode((await client.fetch(request)).body, type=kind)
    finally:
        client.close()
