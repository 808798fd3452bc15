"""Who asks, of the hub's word: asked once, remembered for a minute, and told truly when the hub is away."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.broker.service.bench import until

from .bench import HUB_TOKEN

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from .bench import ServiceBench

    Play = Callable[[Callable[[ServiceBench], Coroutine[Any, Any, None]]], None]


def test_the_hub_is_asked_once_for_many_requests_at_once(play: Play) -> None:
    """Two hundred requests with one token are one question, and so are those of the next minute."""

    async def story(bench: ServiceBench) -> None:
        token = bench.hub.token_of("ana", "custom:gpushare:read")
        bench.hub.release = asyncio.Event()
        asking = [asyncio.ensure_future(bench.ask("GET", "devices", token)) for _ in range(50)]
        await until(lambda: bench.hub.asked)
        bench.hub.release.set()
        assert {answer.status for answer in await asyncio.gather(*asking)} == {200}
        assert (await bench.ask("GET", "leases", token)).status == 200
        assert bench.hub.asked.count("/hub/api/user") == 1

    play(story)


def test_a_minute_later_the_hub_is_asked_again(play: Play) -> None:
    """A token that was revoked, and a group that was left, count for a minute at most."""

    async def story(bench: ServiceBench) -> None:
        bench.hub.user("dora", groups=["gpu-admins"])
        token = bench.hub.token_of("dora", "tokens!user=dora")
        assert (await bench.ask("POST", "admin/stop-parking", token, {"stop": False})).status == 200
        bench.hub.users["dora"].groups = []
        later = bench.service.identity.monotonic() + 61
        bench.service.identity.monotonic = lambda: later
        assert (await bench.ask("POST", "admin/stop-parking", token, {"stop": False})).status == 403
        del bench.hub.tokens[token]
        bench.service.identity.monotonic = lambda: later + 61
        assert (await bench.ask("GET", "leases", token)).status == 401

    play(story)


def test_a_hub_that_is_away_makes_nobody_and_says_so(play: Play) -> None:
    """Who is not remembered hears that the hub is away, and not that it is unknown; who is goes on."""

    async def story(bench: ServiceBench) -> None:
        known = bench.hub.token_of("ana", "custom:gpushare:read")
        other = bench.hub.token_of("bo", "custom:gpushare:read")
        assert (await bench.ask("GET", "leases", known)).status == 200
        await bench.hub.stop()
        assert (await bench.ask("GET", "leases", known)).status == 200
        answer = await bench.ask("GET", "leases", other)
        assert (answer.status, answer.json()["error"]["code"]) == (503, "HUB_AWAY")
        bench.hub.start()
        assert (await bench.ask("GET", "leases", other)).status == 200
        bench.hub.is_broken = True
        third = bench.hub.token_of("cy", "custom:gpushare:read")
        assert (await bench.ask("GET", "leases", third)).status == 503

    play(story)


def test_a_token_that_was_made_for_something_else_opens_nothing(play: Play) -> None:
    """Also an admin's: the hub knows whose it is, and it may nothing here; the refusal names the scopes that would do."""

    async def story(bench: ServiceBench) -> None:
        for scopes, kind in (
            (("read:users!user=root-admin",), "user"),
            (("access:services!service=other",), "user"),
            (("custom:gpushare:write!user=somebody-else",), "user"),
            (("list:users", "admin:servers"), "service"),
        ):
            token = bench.hub.token_of("root-admin", *scopes, kind=kind)
            answer = await bench.ask("GET", "leases", token)
            assert (answer.status, answer.json()["error"]["code"]) == (403, "NO_SCOPE"), scopes
            assert "custom:gpushare:read" in answer.json()["error"]["text"]
            page = await bench.fetch("GET", "overview", {"Authorization": f"token {token}"})
            assert page.status == 403, scopes

    play(story)


def test_the_hubs_own_token_is_asked_of_nobody(play: Play) -> None:
    """Hooks must work while the hub waits for them: it is known by the secret that both have."""

    async def story(bench: ServiceBench) -> None:
        await bench.hub.stop()
        assert (await bench.ask("GET", "claims?prefix=hub:", HUB_TOKEN)).status == 200
        assert (await bench.ask("GET", "claims?prefix=hub:", HUB_TOKEN[:-1])).status == 503

    play(story)


def test_tokens_that_none_can_be_are_not_asked_about(play: Play) -> None:
    """Nonsense costs the hub nothing."""

    async def story(bench: ServiceBench) -> None:
        for nonsense in ("x" * 5000, "gpi_e30.00", "gpi_", "gpl_x.y", "\xff\xfe", "a\tb"):
            assert (await bench.ask("GET", "leases", nonsense)).status == 401, nonsense
        assert bench.hub.asked == []

    play(story)


def test_what_is_remembered_does_not_grow_without_end(play: Play) -> None:
    """Somebody who tries one wrong token after another fills no memory."""

    async def story(bench: ServiceBench) -> None:
        identity = bench.service.identity
        identity.most_remembered = identity.most_unknown = 20
        tokens = [bench.hub.token_of(f"p{number}", "custom:gpushare:read") for number in range(25)]
        for number, token in enumerate(tokens):
            assert (await bench.ask("GET", "leases", token)).status == 200
            assert (await bench.ask("GET", "leases", f"wrong-token-{number}")).status == 401
        for number in range(40):
            assert (await bench.ask("GET", "leases", f"wrong-token-{number}")).status == 401
        assert (len(identity._remembered), len(identity._unknown)) == (20, 20)
        bench.hub.shown.clear()
        assert (await bench.ask("GET", "leases", tokens[-1])).status == 200
        assert bench.hub.shown == [], "whom the hub has named is not forgotten for those whom it has not"
        assert not any(token in repr(identity) for token in (*tokens, "wrong-token-39"))

    play(story)


def test_a_wrong_token_is_asked_about_again_soon(play: Play) -> None:
    """It may be one that was just being made; until then the hub is asked once."""

    async def story(bench: ServiceBench) -> None:
        identity = bench.service.identity
        for _ in range(3):
            assert (await bench.ask("GET", "leases", "token-of-ana-0")).status == 401
        assert bench.hub.shown == ["token-of-ana-0"]
        assert bench.hub.token_of("ana", "custom:gpushare:read") == "token-of-ana-0"
        later = identity.monotonic() + 11
        identity.monotonic = lambda: later
        assert (await bench.ask("GET", "leases", "token-of-ana-0")).status == 200

    play(story)


def test_nonsense_has_nobody_wait(play: Play) -> None:
    """While the hub is asked about many tokens that are nobody's, it is asked about people as ever."""

    async def story(bench: ServiceBench) -> None:
        hub, identity = bench.hub, bench.service.identity
        token = hub.token_of("ana", "custom:gpushare:read")
        browser = bench.browser("bo")
        assert (await browser.get("sessions")).status == 200
        assert (await bench.ask("GET", "leases", token)).status == 200
        hub.shown.clear()
        later = identity.monotonic() + 61
        identity.monotonic = lambda: later
        hub.release = asyncio.Event()
        nonsense = [asyncio.ensure_future(bench.ask("GET", "leases", f"wrong-{number}")) for number in range(60)]
        await until(lambda: len(hub.shown) >= 4)
        people = [
            asyncio.ensure_future(bench.ask("GET", "leases", token)),
            asyncio.ensure_future(browser.get("sessions")),
        ]
        await until(lambda: sum(not each.startswith("wrong-") for each in hub.shown) == 2)
        assert sum(each.startswith("wrong-") for each in hub.shown) == 4
        hub.release.set()
        assert [answer.status for answer in await asyncio.gather(*people)] == [200, 200]
        assert {answer.status for answer in await asyncio.gather(*nonsense)} == {401}

    play(story)
