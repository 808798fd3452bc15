"""Memory and patience have bounds; what cannot be right is refused when the file is read."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from jupyter_gpushare.broker.clock import VirtualClock
from jupyter_gpushare.broker.configuration import Configuration, ConfigurationError
from jupyter_gpushare.broker.ledger import Recorded
from jupyter_gpushare.broker.news_configuration import EVENTS, NewsHook
from jupyter_gpushare.hub.news.courier import MOST_WAITING, Courier, Pauses
from jupyter_gpushare.hub.news.figures import NewsFigures
from jupyter_gpushare.hub.news.wording import LOSS_WORDS, News, news_of
from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.change import Entry, Verb
from jupyter_gpushare.rules.loss import Loss
from jupyter_gpushare.rules.reason import Reason

HOOK = NewsHook("chat", "http://127.0.0.1:9/hook", Path("/nonexistent/secret"))


class Desk:
    """One courier, its clock and its figures."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.registry = CollectorRegistry()
        self.is_done = asyncio.Event()
        figures = NewsFigures(self.registry)
        self.courier = Courier(HOOK, self.clock, figures, delivered=self.delivered, pauses=Pauses(0.001, 0.002))

    async def delivered(self, _: News) -> None:
        self.is_done.set()

    def given_up(self, why: str) -> float:
        """How many for this."""
        found = self.registry.get_sample_value("gpushare_news_given_up_total", {"hook": "chat", "why": why})
        return found or 0.0


def news(number: int = 0, until: float = 2e9) -> News:
    """A piece of news."""
    return News(f"n-{number}", "idle_soon", 0.0, until, number)


def test_memory_has_a_bound() -> None:
    """However much cannot be delivered: what is in no audit makes room, is counted, and what is in it stays."""

    async def story() -> None:
        desk = Desk()
        for _ in range(MOST_WAITING + 5):
            desk.courier.take(news())
        for number in range(1, 4):
            desk.courier.take(news(number))
        assert desk.courier.room == 0
        assert desk.given_up("overflow") == 8
        assert not desk.courier.is_idle

    asyncio.run(story())


def test_what_is_too_old_is_told_to_nobody() -> None:
    """An idle notebook that was parked long ago is no news; it is given up without an attempt, and counted."""

    async def story() -> None:
        desk = Desk()
        desk.courier.take(news(until=desk.clock.now() - 1))
        task = asyncio.create_task(desk.courier.go_on())
        await desk.is_done.wait()
        assert desk.given_up("too_old") == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(story())


def test_pauses_grow_up_to_a_bound() -> None:
    """A receiver that is away for long is not asked every second, and one that wants to be left alone is."""
    pauses = Pauses(1, 300)
    assert 0.8 <= pauses.after(1) <= 1.2
    assert 6.4 <= pauses.after(4) <= 9.6
    assert pauses.after(10_000) <= 360
    assert 24 <= pauses.after(1, 30) <= 36
    assert pauses.after(1, 1e9) <= 360


def test_every_loss_has_words() -> None:
    """A loss that nobody can be told of would be a silent one."""
    assert LOSS_WORDS.keys() == set(Loss)
    for loss in Loss:
        entry = Entry(at=1.0, verb=Verb.LOSS, person="ana", amount=Fraction.ONE, details={"loss": loss.value})
        told = news_of(Recorded(7, entry), None)
        assert told is not None
        assert told.data["text"] == LOSS_WORDS[loss]


@pytest.mark.parametrize("verb", [Verb.CALLED_BACK, Verb.RECLAIMED, Verb.MOVED])
@pytest.mark.parametrize(
    "reason", [Reason.CALLED_BACK, Reason.RECLAIMED, Reason.MOVED, Reason.DRAINED, Reason.DEVICE_GONE, None]
)
def test_every_call_back_has_words(verb: Verb, reason: Reason | None) -> None:
    """Whatever a job yields for; one that is asked again is not told again."""
    told = news_of(Recorded(7, Entry(at=1.0, verb=verb, reason=reason)), None)
    assert told is not None
    assert told.data["text"].endswith(".")
    assert news_of(Recorded(7, Entry(at=1.0, verb=verb, details={"again": "its deadline is over"})), None) is None


def test_a_hostile_name_stays_text() -> None:
    """Whatever people are called, the body is JSON of plain characters and the headers are ours alone."""
    hostile = 'ana"\r\nwebhook-id: x\u2028<script>'
    entry = Entry(at=1.0, verb=Verb.LOSS, person=hostile, details={"loss": Loss.OVERRUN_OF_ITS_OWN.value})
    told = news_of(Recorded(7, entry), None)
    assert told is not None
    assert told.body().isascii()
    assert b"\n" not in told.body()
    assert told.key == "audit-7-1000"
    assert told.data["person"] == hostile


def parsed(text: str) -> tuple[NewsHook, ...]:
    """The hooks of a file with this table."""
    return Configuration.parse(f"[news.chat]\n{text}").news


def test_a_right_table_is_taken() -> None:
    """Without a word about events everything is told."""
    text = 'url = "https://[::1]:8443/x?y=z"\nsecret_file = "/etc/s"\n'
    assert parsed(text) == (NewsHook("chat", "https://[::1]:8443/x?y=z", Path("/etc/s"), frozenset(EVENTS)),)
    assert parsed(f'{text}events = ["loss"]')[0].events == {"loss"}
    assert Configuration.parse("").news == ()


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("3", "is no address of plain characters"),
        ('"ftp://a.example/"', "only http: and https: can be told"),
        ('"file:///etc/passwd"', "only http: and https: can be told"),
        ('"//a.example/"', "only http: and https: can be told"),
        ('"https://ana:secret@a.example/"', "has a password in it"),
        ('"https:///hook"', "names no host"),
        ('"https://a..example/"', "names no host"),
        ('"https://-a.example/"', "names no host"),
        ('"https://a.example:99999/"', "is no address: port out of range"),
        ('"https://a.example:0/"', "names no host"),
        ('"https://[::1/"', "is no address: invalid ipv6 url"),
        ('"https://a.example/#x"', "a part after #"),
        ('"https://a.example/a b"', "is no address of plain characters"),
        ('"https://a.example/\\r\\nx: y"', "is no address of plain characters"),
        ('"https://ä.example/"', "is no address of plain characters"),
        (f'"https://a.example/{"x" * 2000}"', "is longer than 2000"),
    ],
)
def test_a_wrong_address_is_refused(url: str, problem: str) -> None:
    """The table, the key and a right example are named; a password in it is not repeated."""
    with pytest.raises(ConfigurationError) as raised:
        parsed(f'url = {url}\nsecret_file = "/etc/s"')
    said = str(raised.value)
    assert said.startswith("[news.chat] url: ")
    assert problem in said
    assert said.endswith('write for example url = "https://chat.example.org/hooks/gpu"')
    assert "secret@" not in said


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('secret_file = "/etc/s"', '[news.chat] url: is missing; write for example url = "https://'),
        ('url = "https://a.example/"', "[news.chat] secret_file: is missing"),
        ('url = "https://a.example/"\nsecret_file = "s"', "[news.chat] secret_file: is no absolute path of a file"),
        ('url = "https://a.example/"\nsecret_file = "/"', "[news.chat] secret_file: is no absolute path of a file"),
        ('url = "https://a.example/"\nsecret_file = "/s"\nevents = []', "[news.chat] events: names no event"),
        (
            'url = "https://a.example/"\nsecret_file = "/s"\nevents = ["idle"]',
            "[news.chat] events: there is no event 'idle'; known are idle_soon, your_turn, called_back, loss",
        ),
        ('url = "https://a.example/"\nsecret_file = "/s"\nevents = "loss"', "[news.chat] events: 'loss' is no list"),
        ('url = "https://a.example/"\nsecret_file = "/s"\nsecret = "x"', "perhaps secret_file is meant"),
    ],
)
def test_a_wrong_table_is_refused(text: str, problem: str) -> None:
    """Every mistake is named with its cure."""
    with pytest.raises(ConfigurationError) as raised:
        parsed(text)
    assert problem in str(raised.value)
