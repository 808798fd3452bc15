"""Who may do what where the address itself says who may: every verb, every kind of caller; the same for its WebSocket."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from jupyter_gpushare.hub.picker_link import PickerLink
from jupyter_gpushare.hub.service.page_access import PAGE_ACCESS
from tests.broker.service.bench import SWITCHED, upgrade

from .bench import HUB_TOKEN
from .test_access import FORM, ROLES, SHOWN, VERBS, headers, tokens_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from .bench import ServiceBench

    Play = Callable[[Callable[[ServiceBench], Coroutine[Any, Any, None]]], None]

#: For anybody: what is refused there is the address, whoever shows it. The hub sends people to sign in with one of its
#: own, which nobody here has.
OPEN = {
    "static/gpushare.css": {"GET": 200, "HEAD": 200},
    "picker": {"GET": 200, "POST": 200},
    "oauth_callback?code=x&state=y": {"GET": 403},
}


def test_each_page_is_walked() -> None:
    """A page that somebody adds is asked for as everybody, here or where the plain ones are."""
    signed = {"wait", *(path.partition("?")[0].partition("/")[0].removesuffix("_callback") for path in OPEN)}
    pages = {route for route, _ in PAGE_ACCESS if not route.startswith("actions/")}
    assert pages == {*SHOWN, *signed}


def test_what_is_for_anybody_is_for_everybody_alike(play: Play) -> None:
    """Files, an open picker's picture, the way back from signing in: nobody gets more of them, nobody less."""

    async def story(bench: ServiceBench) -> None:
        tokens = await tokens_of(bench)
        link = PickerLink("ana", [], ["0.5"], time.time(), project="team-a")
        good, forged = (link.query(secret) for secret in (HUB_TOKEN, "x" * 40))
        wrong: list[tuple[object, ...]] = []
        for who in ROLES:
            asked = {**headers(tokens[who]), **FORM}
            for path, right in OPEN.items():
                for verb in VERBS:
                    address = f"{path}?{good}" if path == "picker" and verb == "GET" else path
                    body = link.form(HUB_TOKEN) if verb == "POST" else None
                    answer = await bench.fetch(verb, address, asked, body)
                    if answer.status != right.get(verb, 405):
                        wrong.append((who, verb, path, answer.status))
            for verb, address, body in (("GET", f"picker?{forged}", None), ("POST", "picker", forged)):
                answer = await bench.fetch(verb, address, asked, body)
                if answer.status != 403:
                    wrong.append((who, verb, "a forged picker", answer.status))
        assert not wrong

    play(story)


def test_one_waits_for_oneself_alone(play: Play) -> None:
    """The page on which somebody waits, in each verb: for its person; not for a service, the hub, nor any admin."""

    async def story(bench: ServiceBench) -> None:
        for member in ("ana", "ben"):
            await bench.running(member, "team-a")  # their limit leaves no room: they wait, and go nowhere
        tokens = await tokens_of(bench)
        wrong: list[tuple[object, ...]] = []
        for who in ROLES:
            for whose in ("ana", who):
                link = bench.wait_link(whose, share="0.75").removeprefix(bench.prefix)
                for verb in (*VERBS, "upgrade"):
                    if verb == "upgrade":
                        status = await upgrade(f"{bench.url}live/{link}", tokens[who])
                    else:
                        asked = {**headers(tokens[who]), **FORM}
                        status = (await bench.fetch(verb, link, asked, "" if verb == "POST" else None)).status
                    if status != expected_of_wait(verb, who, is_own=whose == who):
                        wrong.append((who, verb, whose, status))
        assert not wrong

    play(story)


def expected_of_wait(verb: str, who: str, *, is_own: bool) -> int:
    """The status that is right. Who may wait for a share there is told so by the page itself."""
    if verb not in ("GET", "POST", "upgrade"):
        return 405
    if who == "anonymous":
        return 302 if verb == "GET" else 401
    if who == "the hub":
        return 401
    if not ROLES[who] & PAGE_ACCESS["wait", "POST" if verb == "POST" else "GET"] or not is_own:
        return 403
    return SWITCHED if verb == "upgrade" else 200
