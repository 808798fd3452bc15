"""Waiting for a share before a server starts: in line while the page is open, and on to the hub when it is granted."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from jupyter_gpushare.hub.claim_key import claim_key
from tests.broker.service.bench import until

from .bench import HUB_TOKEN, close

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from jupyter_gpushare.rules.lease import Lease

    from .bench import ServiceBench

    Play = Callable[[Callable[[ServiceBench], Coroutine[Any, Any, None]]], None]


def claim_of(bench: ServiceBench, person: str = "ana", server: str = "") -> Lease | None:
    """The claim of a server."""
    books = bench.service.broker.books
    return books.leases.get(books.holders.get((person, claim_key(person, server)), ""))


async def fill(bench: ServiceBench) -> tuple[str, str]:
    """Have every GPU taken by somebody of another project; the leases."""
    first = await bench.running("bo", "team-b", "one", "1")
    return first.id, (await bench.running("bo", "team-b", "two", "1")).id


async def end(bench: ServiceBench, lease: str) -> None:
    """Have a lease ended, and gone."""
    token = bench.hub.token_of("bo", "custom:gpushare:write")
    assert (await bench.ask("DELETE", f"leases/{lease}", token)).status == 202
    for holding in bench._holdings:
        if holding.lease is not None and holding.lease.id == lease:
            holding.did("released", holding.lease.epoch)
    await until(lambda: lease not in bench.service.broker.books.leases)


def test_a_share_that_is_free_leads_straight_on_to_the_hub(play: Play) -> None:
    """Where there is room meanwhile nobody waits: the browser visits the hub's spawn page with the form's fields."""

    async def story(bench: ServiceBench) -> None:
        link = bench.wait_link(fields={"share": ["1"], "opts": ["a b", "c&d"]}, next="/user/ana/lab/tree/x.ipynb")
        ana = bench.browser("ana")
        answer = await ana.get(link)
        parts = urlsplit(answer.url)
        assert parts.path == "/hub/spawn/ana"
        assert parse_qs(parts.query) == {
            "opt-share": ["1"],
            "opt-opts": ["a b", "c&d"],
            "next": ["/user/ana/lab/tree/x.ipynb"],
        }
        claim = claim_of(bench)
        assert claim is not None
        assert claim.status.value == "granted"
        assert claim.hold is not None
        assert not claim.hold.is_starting, "only the hub says that a server starts"

    play(story)


def test_an_older_hub_is_sent_the_fields_as_it_reads_them(bench: ServiceBench, play: Play) -> None:
    """Before version 6 the hub knew no prefix for options in an address."""
    bench.hub.version = "5.5.4"

    async def story(bench: ServiceBench) -> None:
        answer = await bench.browser("ana").get(bench.wait_link(server="lab"))
        assert urlsplit(answer.url).path == "/hub/spawn/ana/lab"
        assert parse_qs(urlsplit(answer.url).query) == {"share": ["1"]}

    play(story)


def test_the_page_shows_the_place_in_line_and_survives_a_reload(play: Play) -> None:
    """There is one claim however often the page is opened, and it keeps its place."""

    async def story(bench: ServiceBench) -> None:
        await fill(bench)
        link, ana = bench.wait_link(), bench.browser("ana")
        page = await ana.get(link)
        assert page.status == 200
        assert "1st in line" in page.text
        first = claim_of(bench)
        assert first is not None
        other = await bench.browser("ben").get(bench.wait_link("ben"))
        assert "2nd in line" in other.text
        assert "1st in line" in (await ana.get(link)).text
        again = claim_of(bench)
        assert again is not None
        assert again.id == first.id
        assert "ana" not in other.text, "nobody is told who else waits"

    play(story)


def test_an_open_page_stays_in_line_and_goes_on_when_granted(play: Play) -> None:
    """Its socket keeps the claim, tells the place, and at last where to go."""

    async def story(bench: ServiceBench) -> None:
        one, _ = await fill(bench)
        link, ana = bench.wait_link(), bench.browser("ana")
        await ana.get(link)
        socket = await ana.socket(live_of(link, await ana.xsrf()))
        assert "1st in line" in str(await socket.read_message())
        await end(bench, one)
        while (said := await socket.read_message()) is not None:
            if "go" in (message := msgspec.json.decode(said)):
                break
        assert urlsplit(message["go"]).path == "/hub/spawn/ana"
        claim = claim_of(bench)
        assert claim is not None
        assert claim.status.value == "granted"
        await close(socket)

    play(story)


def live_of(link: str, xsrf: str) -> str:
    """The socket of the page at *link*."""
    parts = urlsplit(link)
    path = parts.path.replace("/services/gpushare/", "/services/gpushare/live/")
    return f"{path}?{parts.query}&_xsrf={xsrf}"


def test_a_page_without_script_looks_again_by_itself(play: Play) -> None:
    """A place in line is kept for a minute: a page that only waits to be looked at would lose it."""

    async def story(bench: ServiceBench) -> None:
        await fill(bench)
        link, ana = bench.wait_link(), bench.browser("ana")
        page = await ana.get(link)
        assert re.search(
            '<noscript><meta http-equiv="refresh" content="[1-9]"></noscript>.*</head>', page.text, re.DOTALL
        )
        assert "refresh" not in (await ana.post(link)).text, "who waits no more would stand in line again"

    play(story)


def test_cancelling_frees_the_claim(play: Play) -> None:
    """[Cancel] leaves nothing behind, and says so."""

    async def story(bench: ServiceBench) -> None:
        await fill(bench)
        link, ana = bench.wait_link(), bench.browser("ana")
        await ana.get(link)
        page = await ana.post(link)
        assert "You wait no more" in page.text
        assert claim_of(bench) is None

    play(story)


def test_a_late_click_on_cancel_does_not_end_what_runs(play: Play) -> None:
    """The server has come meanwhile: it is no claim any more but somebody's work."""

    async def story(bench: ServiceBench) -> None:
        lease = await bench.running("ana", "team-a", claim_key("ana", ""), "1")
        await bench.browser("ana").post(bench.wait_link())
        assert bench.service.broker.books.leases[lease.id].target.value == "running"

    play(story)


def test_after_the_time_is_up_the_claim_is_given_up(play: Play) -> None:
    """Ten minutes are over: nobody stands in line any more, and the page says what became of it."""

    async def story(bench: ServiceBench) -> None:
        await fill(bench)
        ana = bench.browser("ana")
        await ana.get(bench.wait_link())
        assert claim_of(bench) is not None
        page = await ana.get(bench.wait_link(made=time.time() - 601))
        assert "No share became free in time" in page.text
        assert claim_of(bench) is None

    play(story)


def test_a_share_that_can_never_be_had_is_refused_in_words(play: Play) -> None:
    """Over quota: no line is stood in, and the page says why."""

    async def story(bench: ServiceBench) -> None:
        page = await bench.browser("ana").get(bench.wait_link(share="3x1"))
        assert page.status == 200
        assert "This share cannot be had" in page.text
        assert claim_of(bench) is None
        page = await bench.browser("bo").get(bench.wait_link("bo"))
        assert "no member of team-a" in page.text

    play(story)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda link: link.replace("/wait/?", "/wait/other?"),
        lambda link: link.replace("sign=", "sign=0"),
        lambda link: link.replace("for=", "for=ew"),
        lambda link: link + "&for=e30=",
        lambda link: link.partition("?")[0],
    ],
)
def test_a_link_that_the_hub_did_not_write_does_nothing(
    wrong: Callable[[str], str], bench: ServiceBench, play: Play
) -> None:
    """Who writes or changes such an address gets no claim, and no spawn in somebody's name."""

    async def story(bench: ServiceBench) -> None:
        answer = await bench.browser("ana").get(wrong(bench.wait_link()))
        assert answer.status in (403, 404)
        assert not bench.service.broker.books.leases

    play(story)


def test_a_link_of_somebody_else_does_nothing(play: Play) -> None:
    """A link works for the person whom the hub made it for, and for nobody who is sent it."""

    async def story(bench: ServiceBench) -> None:
        answer = await bench.browser("ben").get(bench.wait_link("ana"))
        assert answer.status == 403
        assert "somebody else" in answer.text
        assert not bench.service.broker.books.leases

    play(story)


def test_the_hook_finds_the_grant_of_the_page(play: Play) -> None:
    """The hub's own PUT with the same key confirms what the page was granted: there is one lease."""

    async def story(bench: ServiceBench) -> None:
        await bench.browser("ana").get(bench.wait_link())
        granted = claim_of(bench)
        assert granted is not None
        body = {"share": "1", "project": "team-a", "person": "ana", "is_starting": True, "groups": []}
        key = claim_key("ana", "").replace("/", "%2F")
        answer = await bench.ask("PUT", f"claims/{key}", HUB_TOKEN, body)
        assert answer.status == 200, answer.text
        assert answer.json()["lease"]["id"] == granted.id
        assert answer.json()["hold"]["is_starting"]

    play(story)
