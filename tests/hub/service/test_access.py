"""Who may do what on the pages: every page and action, every verb, every kind of caller; the same for WebSockets."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.routing import Rule
from tornado.websocket import websocket_connect

from jupyter_gpushare.broker.access import Role
from jupyter_gpushare.hub.pages.actions import ACTIONS
from jupyter_gpushare.hub.service.page_access import PAGE_ACCESS, action_route
from jupyter_gpushare.hub.service.routes import routes_of

from .bench import HUB_TOKEN, close

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from .bench import ServiceBench

    Play = Callable[[Callable[[ServiceBench], Coroutine[Any, Any, None]]], None]

VERBS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
PERSON = frozenset({Role.PERSON})
#: What each caller is to the lease and the project of this test.
ROLES = {
    "anonymous": frozenset({Role.NOBODY}),
    "ana": PERSON | {Role.OWNER, Role.MEMBER},
    "ben": PERSON | {Role.MEMBER},
    "cy": PERSON | {Role.PROJECT_OWNER},
    "bo": PERSON,
    "root-admin": PERSON | {Role.ADMIN},
    "dora": PERSON | {Role.ADMIN},
    "a service": frozenset({Role.SERVICE}),
    "the hub": frozenset({Role.HUB}),
}
#: Signed addresses and files are walked in `test_signed_access`.
SHOWN = ("home", "overview", "sessions", "project", "admin", "audit.csv")
LIVE = ("overview", "sessions", "project", "admin")


async def tokens_of(bench: ServiceBench) -> dict[str, str]:
    """A full token of each caller."""
    bench.hub.user("dora", groups=["gpu-admins"])
    people = {name: bench.hub.token_of(name, f"tokens!user={name}") for name in ("ana", "ben", "cy", "bo", "dora")}
    return {
        **people,
        "root-admin": bench.hub.token_of("root-admin", "tokens!user=root-admin"),
        "anonymous": "",
        "a service": bench.hub.token_of("other", "custom:gpushare:read", "custom:gpushare:write", kind="service"),
        "the hub": HUB_TOKEN,
    }


def fields_of(name: str, lease: str) -> str:
    """A form for the action *name*, on the lease and project of this test."""
    values = {
        "lease": lease, "project": "team-a", "what": "limit", "amount": "1", "ask": "1", "person": "ben", "limit": "1",
        "host": "simulated", "quota": "2", "why": "a test", "answer": "", "evacuate": "", "device": "",
    }  # fmt: skip
    wanted = (each.removesuffix("?") for each in ACTIONS[name].fields)
    return "&".join(f"{each}={values[each]}" for each in wanted)


def test_every_address_is_in_the_table(bench: ServiceBench, play: Play) -> None:
    """A page that somebody adds must say who may see it."""

    async def story(bench: ServiceBench) -> None:
        rules = [rule for rule in routes_of(bench.service) if not isinstance(rule, Rule)]
        known = {route for route, _ in PAGE_ACCESS}
        for path, handler, arguments in rules:
            page, name = arguments.get("page"), arguments.get("name")
            route = page.value if page else action_route(name) if name else handler.route
            assert route in known, path

    play(story)


def test_everybody_may_exactly_what_the_table_says(play: Play) -> None:
    """Each page, each verb, each caller: sent to sign in, refused, or answered."""

    async def story(bench: ServiceBench) -> None:
        lease = await bench.running("ana", "team-a")
        tokens = await tokens_of(bench)
        wrong: list[tuple[object, ...]] = []
        for who, roles in ROLES.items():
            for route in SHOWN:
                for verb in VERBS:
                    path = "" if route == "home" else route
                    answer = await bench.fetch(verb, path, headers(tokens[who]), "" if verb == "POST" else None)
                    if answer.status not in expected_of_page(route, verb, who, roles):
                        wrong.append((who, verb, route, answer.status))
            for name in ACTIONS:
                for verb in VERBS:
                    if verb == "POST" and name == "end" and roles & PAGE_ACCESS[action_route(name), verb]:
                        continue  # it would end the lease that the others are asked about
                    body = fields_of(name, lease.id) if verb == "POST" else None
                    asked = {**headers(tokens[who]), "Accept": "application/json"}
                    answer = await bench.fetch(verb, f"actions/{name}", {**asked, **FORM}, body)
                    if answer.status not in expected_of_action(name, verb, who, roles):
                        wrong.append((who, verb, name, answer.status, answer.text[:200]))
        assert not wrong

    play(story)


FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def headers(token: str) -> dict[str, str]:
    """As a program sends them."""
    return {"Authorization": f"token {token}"} if token else {}


def expected_of_page(route: str, verb: str, who: str, roles: frozenset[Role]) -> tuple[int, ...]:
    """The statuses that are right."""
    allowed = PAGE_ACCESS.get((route, verb))
    if allowed is None:
        return (405,)
    if who == "anonymous":
        return (302,)
    if roles & allowed:
        return (302,) if route == "home" else (200,)
    return (401,) if who == "the hub" else (403,)


def expected_of_action(name: str, verb: str, who: str, roles: frozenset[Role]) -> tuple[int, ...]:
    """The statuses that are right. The broker may still find that there is nothing to do (409), or no such ask (404)."""
    allowed = PAGE_ACCESS.get((action_route(name), verb))
    if allowed is None:
        return (405,)
    if who in ("anonymous", "the hub"):
        return (401,)
    if who == "a service":
        return (403,)
    whose = ACTIONS[name].whose
    done = (200, 409)
    right: dict[str, tuple[int, ...]] = {
        "holder": done if roles & allowed else (404,),
        "admin": done if roles & allowed else (403,),
        # Of asks: whose the first one is depends on the order of this walk.
        "asker": (*done, 403, 404),
        "member": done if Role.MEMBER in roles else (404,),
        "owner": done if roles & {Role.PROJECT_OWNER, Role.ADMIN} else (403, 404),
    }
    return right[whose] + ((404,) if name in ("approve", "deny") else ())


def test_sockets_are_for_those_who_may_see_the_page(play: Play) -> None:
    """The stream of a page is refused to whom the page is."""

    async def story(bench: ServiceBench) -> None:
        tokens = await tokens_of(bench)
        asked = [(who, page) for who in ROLES for page in LIVE]
        opened = await asyncio.gather(*(opens(bench, f"live/{page}", tokens[who]) for who, page in asked))
        expected = [bool(ROLES[who] & PAGE_ACCESS[page, "GET"]) for who, page in asked]
        assert dict(zip(asked, opened, strict=True)) == dict(zip(asked, expected, strict=True))

    play(story)


async def opens(bench: ServiceBench, path: str, token: str) -> bool:
    """Whether a program with *token* gets that WebSocket, and anything through it."""
    url = f"{bench.url}{path}".replace("http", "ws", 1)
    try:
        socket = await websocket_connect(HTTPRequest(url, headers=headers(token)))
    except HTTPClientError as error:
        return error.code not in (401, 403)
    assert "fragments" in str(await socket.read_message())
    await close(socket)
    return True


@pytest.mark.parametrize("mode", ["cors", "same-origin", "no-cors"])
def test_a_script_of_another_server_reads_no_page_by_the_cookie(mode: str, bench: ServiceBench, play: Play) -> None:
    """On one origin with users' servers, only a page of ours may have its scripts read ours."""

    async def story(bench: ServiceBench) -> None:
        browser = bench.browser("ana")
        await browser.get("sessions")
        for path in ("sessions", "api/v1/leases"):
            refused = await browser.get(path, follow=False, **{"Sec-Fetch-Mode": mode})
            assert refused.status == 403, path
            asked = {"Sec-Fetch-Mode": mode, "X-XSRFToken": await browser.xsrf()}
            assert (await browser.get(path, follow=False, **asked)).status == 200, path

    play(story)


def test_no_form_and_no_socket_works_without_the_token(play: Play) -> None:
    """The cookie alone changes nothing and opens nothing, whatever the page that sends it."""

    async def story(bench: ServiceBench) -> None:
        lease = await bench.running("ana", "team-a")
        browser = bench.browser("ana")
        await browser.get("sessions")
        for wrong in ("", "0" * 64):
            answer = await browser.post("actions/release", lease=lease.id, _xsrf=wrong)
            assert answer.status == 403
            with pytest.raises(HTTPClientError) as refused:
                await browser.socket(f"live/sessions?_xsrf={wrong}")
            assert refused.value.code == 403
        assert bench.service.broker.books.leases[lease.id].target.value == "running"
        other = bench.browser("bo")
        await other.get("sessions")
        assert (await browser.post("actions/release", lease=lease.id, _xsrf=await other.xsrf())).status == 403
        socket = await browser.socket(f"live/sessions?_xsrf={await browser.xsrf()}")
        assert "fragments" in str(await socket.read_message())
        await close(socket)

    play(story)


def test_the_api_takes_the_cookie_of_a_page_with_its_token(play: Play) -> None:
    """A page's own script may ask the interface; the same request without the token is refused."""

    async def story(bench: ServiceBench) -> None:
        lease = await bench.running("ana", "team-a")
        browser = bench.browser("ana")
        await browser.get("sessions")
        path = f"api/v1/leases/{lease.id}"
        cookie = browser._with_cookies({"Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin"})
        assert (await bench.fetch("DELETE", path, cookie)).status == 403
        for socket in ("stream", "holder"):
            with pytest.raises(HTTPClientError) as refused:
                await browser.socket(f"api/v1/{socket}")
            assert refused.value.code == 403
        stream = await browser.socket(f"api/v1/stream?_xsrf={await browser.xsrf()}")
        assert "state" in str(await stream.read_message())
        await close(stream)
        assert (await bench.fetch("DELETE", path, {**cookie, "X-XSRFToken": await browser.xsrf()})).status == 202

    play(story)


def test_a_token_that_only_looks_does_nothing(play: Play) -> None:
    """With the scope custom:gpushare:read pages can be seen, nothing posted, and nobody put in line."""

    async def story(bench: ServiceBench) -> None:
        lease = await bench.running("ana", "team-a")
        token = bench.hub.token_of("ana", "custom:gpushare:read")
        assert (await bench.fetch("GET", "sessions", headers(token))).status == 200
        body = fields_of("release", lease.id)
        answer = await bench.fetch("POST", "actions/release", {**headers(token), **FORM}, body)
        assert answer.status == 403
        assert (await bench.ask("DELETE", f"leases/{lease.id}", token)).status == 403
        before = bench.service.broker.books.leases
        link = bench.wait_link(share="0.25")
        assert (await bench.fetch("GET", link, headers(token))).status == 403, "to look there is to stand in line"
        assert bench.service.broker.books.leases == before

    play(story)


def test_a_project_that_is_none_of_ones_business_does_not_exist(play: Play) -> None:
    """Whether a project of that name exists is told to those in it, and to admins."""

    async def story(bench: ServiceBench) -> None:
        bo = bench.browser("bo")
        known, unknown = await bo.get("project?project=team-a"), await bo.get("project?project=nowhere")
        assert (known.status, unknown.status) == (404, 404)
        assert (await bench.browser("ana").get("project?project=team-a")).status == 200

    play(story)


def test_pages_lie_in_no_frame_and_in_no_store(play: Play) -> None:
    """Nobody looks into our pages from another one, and nothing in between keeps them."""

    async def story(bench: ServiceBench) -> None:
        page = await bench.browser("ana").get("sessions")
        assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
        assert page.headers["Cache-Control"] == "no-store"
        assert page.headers["X-Content-Type-Options"] == "nosniff"

    play(story)


def test_who_opens_our_pages_in_a_window_has_no_hold_on_them(play: Play) -> None:
    """Every page says so: those on the way to it, those that say what went wrong, and those that nobody may see."""

    async def story(bench: ServiceBench) -> None:
        ana, nobody = bench.browser("ana"), await bench.fetch("GET", "sessions", {"Sec-Fetch-Mode": "navigate"})
        paths = ("", "overview", "sessions", "project", bench.wait_link(), bench.wait_link(share="3x1"))
        pages = [nobody, *[await ana.get(path, follow=False) for path in paths]]
        pages += [await ana.get(path) for path in ("sessions", "admin", "project?project=nowhere", "wait/")]
        pages += [await bench.fetch("GET", "oauth_callback?code=x&state=y", {})]
        assert [page.status for page in pages] == [302, 302, 302, 302, 302, 302, 302, 200, 403, 404, 404, 403]
        assert {page.headers.get("Cross-Origin-Opener-Policy") for page in pages} == {"same-origin"}

    play(story)


def test_no_script_reads_what_our_forms_carry(play: Play) -> None:
    """A script of somebody's server can give its page our path; it is still shown none of our cookies."""

    async def story(bench: ServiceBench) -> None:
        ana = bench.browser("ana")
        await ana.get("sessions")
        ana.cookies.pop("_xsrf")
        set_ = (await ana.get("sessions")).headers.get_list("Set-Cookie")
        [ours] = [line for line in set_ if line.startswith("_xsrf=")]
        assert "httponly" in ours.lower()

    play(story)


def test_only_who_may_know_every_project_reads_the_figures(play: Play) -> None:
    """Figures name projects: admins and services that may look read them, and no person whose pages hide the others."""
    asked = {
        ("bo", "user"): ("custom:gpushare:write", "access:services!service=gpushare"),
        ("cy", "user"): ("tokens!user=cy",),
        ("root-admin", "user"): ("tokens!user=root-admin",),
        ("prometheus", "service"): ("custom:gpushare:read",),
    }

    async def story(bench: ServiceBench) -> None:
        await bench.running("ana", "team-a")
        seen = {}
        for (name, kind), scopes in asked.items():
            answer = await bench.ask("GET", "metrics", bench.hub.token_of(name, *scopes, kind=kind))
            seen[name] = (answer.status, 'project="team-a"' in answer.text)
        assert seen == {
            "bo": (403, False),
            "cy": (403, False),
            "root-admin": (200, True),
            "prometheus": (200, True),
        }

    play(story)
