"""Open pages are told what changes on them, and nothing else; and only as long as their people may look."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tornado.httpclient import HTTPClientError

from jupyter_gpushare.broker.public_error import PublicError
from jupyter_gpushare.hub.pages import Asked, Page, PageName
from jupyter_gpushare.hub.service.live_pages import Looking
from jupyter_gpushare.hub.service.standing import Level, Standing
from jupyter_gpushare.rules.message import Message
from tests.broker.service.bench import until

from .bench import close

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from .bench import ServiceBench

    Play = Callable[[Callable[[ServiceBench], Coroutine[Any, Any, None]]], None]

ANA = Standing("ana", is_service=False, groups=frozenset(), level=Level.ACT)


@dataclass
class Hole:
    """A peephole that keeps what it is sent. *behind*: it does not read. *now*: who sits there."""

    sent: list[bytes] = field(default_factory=list)
    behind: bool = False
    ended: str = ""
    now: Standing | None = ANA
    away: bool = False

    def send(self, body: bytes) -> None:
        self.sent.append(body)

    def is_behind(self) -> bool:
        return self.behind

    def end(self, reason: str, *, for_good: bool = True) -> None:
        self.ended = f"{reason}{'' if for_good else ', come again'}"

    async def who(self) -> Standing | None:
        if self.away:
            raise PublicError(503, Message("HUB_AWAY", "away"))
        return self.now


def look(bench: ServiceBench, hole: Hole, page: PageName = PageName.SESSIONS, who: Standing = ANA) -> Looking:
    """An open page."""
    looking = Looking(hole, page, who, Asked(), "xsrf")
    bench.service.live.add(looking)
    return looking


async def rest(bench: ServiceBench) -> None:
    """The service looks after no page by itself: the test does."""
    await bench.service.live.stop()


def later(bench: ServiceBench, seconds: float) -> None:
    """Let time pass for the open pages."""
    now = bench.service.live._monotonic() + seconds
    bench.service.live._monotonic = lambda: now


def test_only_what_has_changed_is_sent(play: Play) -> None:
    """All of it at first, then nothing while nothing changes, then the part that does."""

    async def story(bench: ServiceBench) -> None:
        await rest(bench)
        live, hole = bench.service.live, Hole()
        looking = look(bench, hole)
        await live.look_at_all()
        whole = msgspec.json.decode(hole.sent.pop())["fragments"]
        assert {"sums", "past"} <= whole.keys()
        looking.next_at = 0
        await live.look_at_all()
        assert hole.sent == []
        lease = await bench.running("ana", "team-a")
        looking.next_at = 0
        await live.look_at_all()
        shape = msgspec.json.decode(hole.sent.pop())["fragments"]
        assert shape.keys() == {"gpushare-main"}, "another element is there than before: the page has another shape"
        assert lease.id in shape["gpushare-main"]
        bench._holdings[0].want("parked", 1 << 20)
        await until(lambda: bench.service.broker.books.leases[lease.id].target.value == "parked")
        looking.next_at = 0
        await live.look_at_all()
        changed = msgspec.json.decode(hole.sent.pop())["fragments"]
        assert f"lease-{lease.id}" in changed
        assert "past" not in changed

    play(story)


def test_many_who_may_see_the_same_are_sent_what_was_made_once(play: Play) -> None:
    """Fifty tabs of one person cost one page."""

    async def story(bench: ServiceBench) -> None:
        await rest(bench)
        made = []
        render = bench.service.render

        async def counted(*arguments: Any, **more: Any) -> Any:
            made.append(1)
            return await render(*arguments, **more)

        bench.service.render = counted  # type: ignore[method-assign]
        holes = [Hole() for _ in range(50)]
        for hole in holes:
            look(bench, hole)
        await bench.service.live.look_at_all()
        assert len(made) == 1
        assert all(len(hole.sent) == 1 for hole in holes)

    play(story)


def test_a_page_that_does_not_read_is_not_written_to(play: Play) -> None:
    """Nothing piles up for a browser that sleeps: when it reads again it gets what is true then."""

    async def story(bench: ServiceBench) -> None:
        await rest(bench)
        hole = Hole(behind=True)
        look(bench, hole)
        await bench.service.live.look_at_all()
        assert hole.sent == []
        hole.behind = False
        await bench.service.live.look_at_all()
        assert len(hole.sent) == 1

    play(story)


def test_no_page_is_sent_more_than_twenty_kilobytes_a_second(play: Play) -> None:
    """A large page is renewed part by part, each message within what a second may carry, until nothing differs."""

    async def story(bench: ServiceBench) -> None:
        await rest(bench)
        hole = Hole()
        looking = look(bench, hole)
        parts = {f"part-{number}": str(number) * 9_000 for number in range(5)} | {"large": "x" * 50_000}

        async def large(*_arguments: Any, **_more: Any) -> Any:
            return Page(PageName.SESSIONS, "", dict(parts), None, {})  # type: ignore[arg-type]  # nobody asks for main

        bench.service.render = large  # type: ignore[method-assign]
        now, shown = bench.service.live._monotonic(), dict[str, str]()
        for second in range(20):
            moment = now + second
            bench.service.live._monotonic = partial(float, moment)
            await bench.service.live.look_at_all()
            for body in hole.sent:
                shown |= msgspec.json.decode(body)["fragments"]
            assert sum(map(len, hole.sent)) <= 20_000 or looking.next_at >= moment + 2.5
            hole.sent.clear()
        assert shown == parts
        parts["part-0"] = "new"
        bench.service.live._monotonic = lambda: now + 30
        await bench.service.live.look_at_all()
        assert msgspec.json.decode(hole.sent[0])["fragments"] == {"part-0": "new"}

    play(story)


def test_whoever_is_shut_out_meanwhile_is_told_nothing_more(play: Play) -> None:
    """An admin who is none any more, and who has logged out: within a minute their open pages end."""

    async def story(bench: ServiceBench) -> None:
        await rest(bench)
        admin = Standing("root-admin", is_service=False, groups=frozenset(), level=Level.ADMINISTER)
        one, other, away = Hole(now=admin), Hole(), Hole(away=True)
        look(bench, one, PageName.ADMIN, admin)
        look(bench, other)
        look(bench, away)
        await bench.service.live.look_at_all()
        assert all(hole.sent for hole in (one, other, away))
        one.now, other.now = Standing("root-admin", is_service=False, groups=frozenset(), level=Level.ACT), None
        later(bench, 61)
        await bench.service.live.look_at_all()
        await until(lambda: "may not look" in one.ended and "signed in" in other.ended)
        assert not away.ended, "a hub that is away shuts nobody out"
        assert len(bench.service.live) == 1

    play(story)


def test_a_hub_that_hangs_keeps_nobody_elses_page_waiting(play: Play) -> None:
    """One page is asked about anew and there is no answer: the others are told on."""

    async def story(bench: ServiceBench) -> None:
        await rest(bench)
        asked = asyncio.Event()

        class Hanging(Hole):
            async def who(self) -> Standing | None:
                asked.set()
                await asyncio.Event().wait()
                return None

        old, new = Hanging(), Hole()
        look(bench, old)
        later(bench, 61)
        look(bench, new)
        await bench.service.live.look_at_all()
        await asyncio.wait_for(asked.wait(), 60)
        assert len(new.sent) == 1
        await bench.service.live.look_at_all()
        assert old.sent == []

    play(story)


def test_a_page_that_cannot_be_made_costs_nobody_else_theirs(play: Play) -> None:
    """One broken page is closed, and the next one is told all the same."""

    async def story(bench: ServiceBench) -> None:
        await rest(bench)

        class Broken(Hole):
            def send(self, body: bytes) -> None:
                raise RuntimeError(f"{len(body)} bytes are a fault")

        broken, hole = Broken(), Hole()
        look(bench, broken)
        look(bench, hole)
        await bench.service.live.look_at_all()
        assert broken.ended.endswith("come again")
        assert len(hole.sent) == 1

    play(story)


def test_a_real_browser_sees_another_persons_change(play: Play) -> None:
    """What one person does shows on the open overview of another, without a name."""

    async def story(bench: ServiceBench) -> None:
        bo = bench.browser("bo")
        await bo.get("overview")
        socket = await bo.socket(f"live/overview?_xsrf={await bo.xsrf()}")
        first = str(await socket.read_message())
        assert "0.0 / 2" in first
        await bench.running("ana", "team-a")
        said = ""
        while "0.5 / 2" not in said:
            said = str(await asyncio.wait_for(asyncio.ensure_future(socket.read_message()), 60))
            assert said != "None"
        assert "ana" not in said
        await close(socket)

    play(story)


def test_stopping_closes_every_open_page(play: Play) -> None:
    """The service ends though somebody looks on."""

    async def story(bench: ServiceBench) -> None:
        ana = bench.browser("ana")
        await ana.get("sessions")
        socket = await ana.socket(f"live/sessions?_xsrf={await ana.xsrf()}")
        await socket.read_message()
        await bench.stop()
        await close(socket)

    play(story)


def test_a_socket_whose_address_makes_no_sense_is_refused(play: Play) -> None:
    """As the page itself would be: in words, before it is opened."""

    async def story(bench: ServiceBench) -> None:
        admin = bench.browser("root-admin")
        await admin.get("admin")
        for wrong, status in (
            ("live/admin?since=never", 400),
            ("live/project?project=nowhere", 404),
            ("live/wait/", 404),
        ):
            with pytest.raises(HTTPClientError) as refused:
                await admin.socket(f"{wrong}{'&' if '?' in wrong else '?'}_xsrf={await admin.xsrf()}")
            assert refused.value.code == status, wrong

    play(story)
