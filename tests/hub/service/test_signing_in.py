"""Signing in by the hub, and who is known by what it shows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from .bench import ServiceBench

    Play = Callable[[Callable[[ServiceBench], Coroutine[Any, Any, None]]], None]


def test_a_person_signs_in_by_the_hub_and_comes_back_to_the_page(play: Play) -> None:
    """Whoever opens a page is sent to the hub once, and then sees that page."""

    async def story(bench: ServiceBench) -> None:
        browser = bench.browser("ana")
        page = await browser.get("sessions")
        assert page.status == 200
        assert page.url.endswith("/services/gpushare/sessions")
        assert "ana" in page.text
        again = await browser.get("overview", follow=False)
        assert again.status == 200

    play(story)


def test_signing_in_survives_a_restart_on_the_way(play: Play) -> None:
    """The service began anew while somebody was at the hub: the first page to come is the one that the hub sends to."""

    async def story(bench: ServiceBench) -> None:
        browser = bench.browser("ana")
        sent = await browser.get("sessions", follow=False)
        await bench.stop()
        await bench.start()
        back = await bench.fetch("GET", f"oauth_callback?code=x&state={state_of(sent.headers['Location'])}", {})
        assert back.status == 403, "the state of before is gone: no crash, and the person tries again"
        assert (await browser.get("sessions")).status == 200

    play(story)


def state_of(location: str) -> str:
    """What the hub gives back."""
    return parse_qs(urlsplit(location).query)["state"][0]


def test_a_sign_in_that_nobody_began_is_refused(play: Play) -> None:
    """A code that somebody else sends does not sign anybody in (RFC 6749, 10.12)."""

    async def story(bench: ServiceBench) -> None:
        for query in ("", "code=x", "code=x&state=y", "error=access_denied"):
            answer = await bench.fetch("GET", f"oauth_callback?{query}", {})
            assert answer.status in (400, 403), query
            assert "Set-Cookie" not in answer.headers or "service-gpushare=" not in answer.headers["Set-Cookie"]

    play(story)


def test_a_second_click_on_the_way_back_leads_on(play: Play) -> None:
    """Who has signed in meanwhile goes to the page, and is not told that something did not match."""

    async def story(bench: ServiceBench) -> None:
        browser = bench.browser("ana")
        sent = await browser.get("sessions", follow=False)
        state = state_of(sent.headers["Location"])
        await browser.get("sessions")
        assert (await browser.get(f"oauth_callback?code=old&state={state}", follow=False)).status == 302

    play(story)


def test_an_announcement_of_the_hub_stands_on_our_pages(bench: ServiceBench, play: Play) -> None:
    """What an admin has to say to everybody who uses the hub, those on our pages read too."""

    async def story(bench: ServiceBench) -> None:
        shown = {"announcement": "No GPUs <em>on Friday</em>"}
        bench.service.environment = replace(bench.service.environment, template_vars=shown)
        for path in ("sessions", "overview", "project"):
            assert "No GPUs <em>on Friday</em>" in (await bench.browser("ana").get(path)).text

    play(story)


def test_an_admins_file_decides_who_administers(play: Play) -> None:
    """By name, and by a group of the hub; a hub's own admins always may."""

    async def story(bench: ServiceBench) -> None:
        bench.hub.user("dora", groups=["gpu-admins"])
        bench.hub.user("hub-admin", admin=True)
        for name, status in (("root-admin", 200), ("dora", 200), ("hub-admin", 200), ("ana", 403)):
            assert (await bench.browser(name).get("admin")).status == status, name

    play(story)
