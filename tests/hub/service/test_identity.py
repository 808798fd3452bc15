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
        bench.service.identity.most_remembered = 20
        for number in range(40):
            assert (await bench.ask("GET", "leases", f"wrong-token-{number}")).status == 401
        assert len(bench.service.identity._remembered) == 20

    play(story)
