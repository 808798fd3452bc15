"""What the hub signs for its service: it works for whom and for what it was made, and nobody else can make one."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gpushare.hub.broker_link import BrokerLink
from jupyter_gpushare.hub.picker_link import PickerLink
from jupyter_gpushare.hub.sealed import SealError
from jupyter_gpushare.hub.wait_link import WaitLink, WaitLinkError

from .stand_in_service import StandInService, picture_of

if TYPE_CHECKING:
    from jupyter_gpushare.hub.picture import Picture

SECRET = "s" * 43
WAIT = WaitLink(
    person="ada",
    server="gpu box/?#é",
    share="0.5",
    project="team-a",
    fields={"share": ["0.5"], "image": ["a&b=c", "é"]},
    made=1000.0,
)
PICKER = PickerLink("ada", ["team-a"], ["0.5"], 1000.0)


def parts(url: str) -> tuple[str, str]:
    """What is signed, and the signature."""
    query = parse_qs(urlsplit(url).query, strict_parsing=True)
    return query["for"][0], query["sign"][0]


def test_link_comes_back_as_it_was() -> None:
    """Names and fields with anything in them survive the address; the server's name is a part of its path."""
    url = WAIT.url("/services/gpushare/", SECRET)
    assert urlsplit(url).path == f"/services/gpushare/wait/{quote('gpu box/?#é', safe='')}"
    assert WaitLink.read(*parts(url), SECRET, "ada") == WAIT
    assert PickerLink.read(*parts(f"?{PICKER.query(SECRET)}"), SECRET, 2000.0) == PICKER


def test_link_of_somebody_else() -> None:
    """A link that was sent to somebody, or stolen, starts nothing for another person."""
    with pytest.raises(WaitLinkError, match="made for somebody else"):
        WaitLink.read(*parts(WAIT.url("/", SECRET)), SECRET, "bo")


def test_link_for_something_else() -> None:
    """What was signed to look cannot be used to act."""
    looks = parts(f"?{PICKER.query(SECRET)}")
    with pytest.raises(WaitLinkError, match="the hub did not make it"):
        WaitLink.read(*looks, SECRET, "ada")
    with pytest.raises(SealError, match="the hub did not make it"):
        PickerLink.read(*parts(WAIT.url("/", SECRET)), SECRET, 1000.0)


def test_link_that_was_changed() -> None:
    """One other character anywhere, or another hub's secret, and it is worth nothing."""
    body, signature = parts(WAIT.url("/", SECRET))
    for changed in ((body[:-2] + "A=", signature), (body, signature[:-1] + "g"), (body, ""), ("", signature)):
        with pytest.raises(WaitLinkError):
            WaitLink.read(*changed, SECRET, "ada")
    with pytest.raises(WaitLinkError):
        WaitLink.read(body, signature, "t" * 43, "ada")


@given(body=st.text(max_size=50), signature=st.text(max_size=80))
def test_anything_in_place_of_a_link(body: str, signature: str) -> None:
    """Whatever stands in the address, the answer is that it does not work."""
    with pytest.raises(SealError):
        PickerLink.read(body, signature, SECRET, 0.0)
    with pytest.raises(WaitLinkError):
        WaitLink.read(body, signature, SECRET, "ada")


def test_link_that_holds_too_much() -> None:
    """No address is made that a proxy would cut."""
    with pytest.raises(WaitLinkError, match="the form cannot be kept while you wait: it comes to"):
        msgspec.structs.replace(WAIT, fields={"notes": ["x" * 10_000]}).url("/", SECRET)


def test_what_the_hub_sends_may_be_longer() -> None:
    """Somebody in hundreds of groups has a picker too; an address as long is refused before it is looked at."""
    long = msgspec.structs.replace(PICKER, groups=[f"group-{each:05}" for each in range(1000)])
    sent = parts(f"?{long.form(SECRET)}")
    assert PickerLink.read(*sent, SECRET, 2000.0, is_sent=True) == long
    with pytest.raises(SealError, match="the hub did not make it"):
        PickerLink.read(*sent, SECRET, 2000.0)
    with pytest.raises(SealError, match="an address holds 6000"):
        long.query(SECRET)


def test_wait_page_of_another_version() -> None:
    """A page that was open while the hub was upgraded, or went back, goes on waiting."""

    class Later(WaitLink, frozen=True):
        more: str = "what nobody here knows"

    link = Later(**{name: getattr(WAIT, name) for name in WAIT.__struct_fields__})
    assert WaitLink.read(*parts(link.url("/", SECRET)), SECRET, "ada") == WAIT


@pytest.mark.parametrize("now", [1000.0 + 86_401, 1000.0 - 86_401])
def test_page_that_was_opened_long_ago(now: float) -> None:
    """An old page's address tells nobody anything any more."""
    with pytest.raises(SealError, match="opened too long ago"):
        PickerLink.read(*parts(f"?{PICKER.query(SECRET)}"), SECRET, now)


def looked(service: StandInService, times: int = 1, **changed: Any) -> list[Picture | None]:
    """How *times* looks in a row come out."""

    async def told() -> list[Picture | None]:
        async with service.running():
            service.secret = SECRET
            url = f"http://127.0.0.1:{service.port}/services/gpushare/"
            made = msgspec.structs.replace(PICKER, made=0.0, **changed)
            link = BrokerLink(SECRET)
            return [await link.picture(url, _now(made)) for _ in range(times)]

    return asyncio.run(told())


def _now(link: PickerLink) -> PickerLink:
    """*link* as made this moment."""
    return msgspec.structs.replace(link, made=time.time())


def test_form_that_is_rendered_often_asks_once() -> None:
    """A page and its error page a moment later, and a hundred people's, do not ask the broker each time."""
    service = StandInService(picture=picture_of("0.5"))
    first, second = looked(service, 2)
    assert first is not None
    assert first == second
    assert len(service.looks) == 1


def test_form_without_an_answer() -> None:
    """A service that fails, or is not there, leaves the page without figures, and not without a page."""
    assert looked(StandInService(picture=None)) == [None]
    nobody = BrokerLink(SECRET)
    assert asyncio.run(nobody.picture("http://127.0.0.1:9/services/gpushare/", _now(PICKER))) is None


def test_form_of_a_service_that_hangs() -> None:
    """The page comes all the same, before anybody would give up on it."""

    async def told() -> Picture | None:
        connected: list[asyncio.StreamWriter] = []
        server = await asyncio.start_server(lambda _, writer: connected.append(writer), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        picture = await BrokerLink(SECRET).picture(f"http://127.0.0.1:{port}/services/gpushare/", _now(PICKER))
        for writer in connected:
            writer.close()
        server.close()
        await server.wait_closed()
        return picture

    assert asyncio.run(told()) is None
