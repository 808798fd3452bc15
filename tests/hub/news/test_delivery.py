"""News reach whoever is to hear them: signed, at least once, in their order, whatever the receiver does."""

from __future__ import annotations

import asyncio
import getpass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from jupyter_gpushare.hub.news import attempt
from jupyter_gpushare.rules.event import Idle
from jupyter_gpushare.rules.loss import Loss
from tests.broker.service.bench import JOB, SESSION, until
from tests.hub.news.receiver import Receiver, answers, hangs_up, redirects

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.hub.news.receiver import Heard
    from tests.hub.news.site import NewsSite

    Play = Callable[[Callable[[NewsSite], Coroutine[Any, Any, None]]], None]


def has(count: int) -> Callable[[list[Heard]], bool]:
    """Whether so many attempts were heard."""
    return lambda heard: len(heard) >= count


def of_type(event: str) -> Callable[[list[Heard]], list[Heard]]:
    """Those of one event."""
    return lambda heard: [each for each in heard if each.body["type"] == f"gpushare.{event}"]


def test_a_loss_is_told_and_names_nobody_but_its_owner(play: Play) -> None:
    """Who, how much, what and when; no notebook, no project, no lease."""

    async def story(site: NewsSite) -> None:
        await site.lose("secret-plans.ipynb")
        heard = (await site.receiver.until(has(1)))[0]
        assert heard.body["type"] == "gpushare.loss"
        assert heard.body["data"] == {
            "person": getpass.getuser(),
            "share": "0.5",
            "loss": Loss.OVERRUN_OF_ITS_OWN.value,
            "text": "A program is ended: it held more GPU memory than its share allows, and stayed there.",
        }
        assert heard.body["timestamp"].endswith("Z")
        assert heard.body.keys() == {"type", "timestamp", "data"}
        await until(lambda: site.figures("gpushare_news_total").get(("loss", "chat")) == 1)
        assert site.figures("gpushare_news_waiting") == {("chat",): 0}

    play(story)


def test_a_turn_and_a_call_back_are_told(play: Play) -> None:
    """A job that waited hears of its turn; one that works on a lent share hears that it is called back, and why."""

    async def story(site: NewsSite) -> None:
        bench = site.bench
        lease = site.session.lease
        assert lease is not None
        whole = bench.hold(msgspec.structs.replace(JOB, share="1"))
        await asyncio.wait_for(whole.until(lambda each: each.status == "queued"), 60)
        waiting = next(each for each in bench.broker.books.leases.values() if each.name == "train")
        await until(lambda: bench.broker.clock.now() - waiting.submitted > 1.5)
        site.session.want("parked", 1 << 30)
        asked = await asyncio.wait_for(site.session.until(lambda each: each.status == "parking"), 60)
        site.session.did("released", asked.epoch)
        granted = await asyncio.wait_for(whole.granted(), 60)
        whole.did("running", granted.epoch)
        turn = of_type("your_turn")(await site.receiver.until(of_type("your_turn")))[0]
        assert turn.body["data"] == {
            "person": getpass.getuser(),
            "share": "1",
            "text": "Your GPU share of 1 is there.",
        }
        site.session.want("running")
        called = of_type("called_back")(await site.receiver.until(of_type("called_back")))[0]
        assert called.body["data"]["reason"] == "CALLED_BACK"
        assert called.body["data"]["text"] == "The notebook whose share this was runs again."

    play(story)


def test_who_is_granted_at_once_is_told_nothing(play: Play) -> None:
    """A turn is news to those alone who waited for it."""

    async def story(site: NewsSite) -> None:
        await site.bench.running(msgspec.structs.replace(SESSION, key="two", share="0.25"))
        await site.lose()
        assert [each.body["type"] for each in await site.receiver.until(has(1))] == ["gpushare.loss"]

    play(story)


def test_an_idle_share_is_told_of_before_it_is_parked_and_once(play: Play) -> None:
    """In time to keep it; the same stretch of idleness is told once, the next one again."""

    async def story(site: NewsSite) -> None:
        broker, lease = site.bench.broker, site.session.lease
        assert lease is not None
        await broker.reconciler.submit([Idle(lease.id, broker.clock.now() - 300)])
        await site.lose()
        await site.receiver.until(has(1))
        since = broker.clock.now() - 500
        await broker.reconciler.submit([Idle(lease.id, since)])
        first = (await site.receiver.until(has(2)))[1]
        assert first.body["type"] == "gpushare.idle_soon"
        assert first.body["data"].keys() == {"person", "share", "parks_at", "text"}
        # A holder that connects again says a little differently since when.
        await broker.reconciler.submit([Idle(lease.id, since + 2)])
        await site.lose()
        assert (await site.receiver.until(has(3)))[2].body["type"] == "gpushare.loss"
        await broker.reconciler.submit([Idle(lease.id, None)])
        await broker.reconciler.submit([Idle(lease.id, broker.clock.now() - 490)])
        again = (await site.receiver.until(has(4)))[3]
        assert again.body["type"] == "gpushare.idle_soon"
        assert again.key != first.key

    play(story)


def test_an_idle_share_is_told_of_when_culling_has_it_parked(play: Play) -> None:
    """Where the admin's file says so sooner than the pool, for everybody or for one share, that is the time."""

    async def story(site: NewsSite) -> None:
        broker, lease = site.bench.broker, site.session.lease
        assert lease is not None
        since = broker.clock.now() - 80
        await broker.reconciler.submit([Idle(lease.id, since)])
        profile = f'[culling.profiles."{lease.share}"]\npark_after = "2m"'
        await site.configure(site.hook(), f'[culling]\npark_after = "5m"\n{profile}')
        told = (await site.receiver.until(has(1)))[0].body
        assert told["type"] == "gpushare.idle_soon"
        parks_at = datetime.fromisoformat(told["data"]["parks_at"]).timestamp()
        assert parks_at == pytest.approx(since + 120, abs=1)

    play(story)


def test_a_notebooks_own_time_is_what_is_told(play: Play) -> None:
    """Its session knows it: never is not told, however long the pool's time is over; another time is told as it is."""

    async def story(site: NewsSite) -> None:
        broker, lease = site.bench.broker, site.session.lease
        assert lease is not None
        now = broker.clock.now()
        site.parks_at[lease.id] = None
        await broker.reconciler.submit([Idle(lease.id, now - 500)])
        await until(lambda: site.looked >= 3)
        await site.lose()
        assert [each.body["type"] for each in await site.receiver.until(has(1))] == ["gpushare.loss"]
        site.parks_at[lease.id] = now + 90
        told = (await site.receiver.until(has(2)))[1].body
        assert told["type"] == "gpushare.idle_soon"
        parks_at = datetime.fromisoformat(told["data"]["parks_at"]).timestamp()
        assert parks_at == pytest.approx(now + 90, abs=1)

    play(story)


def test_who_keeps_a_share_is_not_told_that_it_will_be_parked(play: Play) -> None:
    """It will not be; when they keep it no longer, and it is about to be, they are told."""

    async def story(site: NewsSite) -> None:
        broker, lease = site.bench.broker, site.session.lease
        assert lease is not None
        site.kept.add(lease.id)
        await broker.reconciler.submit([Idle(lease.id, broker.clock.now() - 500)])
        await until(lambda: site.asked >= 3)
        await site.lose()
        assert [each.body["type"] for each in await site.receiver.until(has(1))] == ["gpushare.loss"]
        site.kept.clear()
        assert (await site.receiver.until(has(2)))[1].body["type"] == "gpushare.idle_soon"

    play(story)


def test_what_fails_is_told_again_under_the_same_id(play: Play) -> None:
    """An error, a connection that breaks, "not now": the same news until they are taken, and the next ones after them."""

    async def story(site: NewsSite) -> None:
        site.receiver.moods = [
            answers(500),
            hangs_up,
            answers(429, Retry_After="0.01"),
            answers(503, Retry_After="soon"),
        ]
        await site.lose()
        await site.lose()
        heard = await site.receiver.until(has(6))
        assert len({each.key for each in heard[:5]}) == 1
        assert len({each.raw for each in heard[:5]}) == 1
        assert heard[5].key != heard[4].key
        await until(lambda: site.figures("gpushare_news_total").get(("loss", "chat")) == 2)
        assert site.figures("gpushare_news_failures_total") == {("chat", "failing"): 3, ("chat", "away"): 1}
        assert site.figures("gpushare_news_failing") == {("chat",): 0}

    play(story)


def test_a_redirect_is_not_followed(play: Play) -> None:
    """What is signed for one address is sent to no other; it is given up in the end, and the next news are told."""

    async def story(site: NewsSite) -> None:
        site.receiver.moods = [redirects("/elsewhere") for _ in range(4)]
        await site.lose()
        await site.lose()
        heard = await site.receiver.until(has(5))
        assert len({each.key for each in heard}) == 2
        assert site.receiver.elsewhere == []
        assert site.figures("gpushare_news_given_up_total") == {("chat", "refused"): 1}
        assert site.figures("gpushare_news_failures_total") == {("chat", "redirected"): 4}

    play(story)


def test_a_receiver_that_does_not_want_it_does_not_hold_up_the_others(play: Play) -> None:
    """Four refusals are enough; what comes after it is delivered."""

    async def story(site: NewsSite) -> None:
        site.receiver.moods = [answers(400) for _ in range(4)]
        await site.lose()
        await site.lose()
        heard = await site.receiver.until(has(5))
        assert [each.key == heard[0].key for each in heard] == [True, True, True, True, False]

    play(story)


def test_a_slow_receiver_keeps_nobody_waiting(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one does not answer the broker does, and another receiver is told; then it is tried again."""
    monkeypatch.setattr(attempt, "WITHIN_S", 1.0)
    go_on = asyncio.Event()

    async def sleeps(*_: Any) -> None:
        await go_on.wait()

    async def story(site: NewsSite) -> None:
        site.receivers.append(Receiver())
        await site.configure(site.hook(), site.hook("mail", site.receivers[1].url))
        await until(lambda: ("mail",) in site.figures("gpushare_news_waiting"))
        site.receiver.moods = [sleeps]
        await site.lose()
        await site.receivers[1].until(has(1))
        await site.bench.client.request("GET", "health")
        heard = await site.receiver.until(has(2))
        assert heard[0].key == heard[1].key
        assert site.figures("gpushare_news_failures_total") == {("chat", "slow"): 1}
        go_on.set()

    play(story)


def test_what_was_not_told_before_a_restart_is_told_after_it(play: Play) -> None:
    """Nothing is lost when the service ends between a decision and its news, and what was taken is not told again."""

    async def story(site: NewsSite) -> None:
        await site.lose()
        await site.receiver.until(has(1))
        await until(lambda: site.figures("gpushare_news_total").get(("loss", "chat")) == 1)
        site.receiver.moods = [answers(500) for _ in range(1000)]
        await site.lose()
        failed = (await site.receiver.until(has(3)))[1]
        await site.stop_following()
        await site.lose()
        site.receiver.heard.clear()
        site.receiver.moods.clear()
        await site.restart()
        heard = await site.receiver.until(has(2))
        assert heard[0].key == failed.key
        assert len({each.key for each in heard}) == 2

    play(story)


def test_a_new_receiver_hears_nothing_old(play: Play) -> None:
    """Whoever is added to the file is told from now on; one that is taken out is told no more."""

    async def story(site: NewsSite) -> None:
        await site.lose()
        await site.receiver.until(has(1))
        site.receivers.append(Receiver())
        await site.configure(site.hook("mail", site.receivers[1].url, '["loss"]'))
        await until(lambda: site.figures("gpushare_news_waiting") == {("mail",): 0})
        await site.lose()
        assert len(await site.receivers[1].until(has(1))) == 1
        assert len(site.receiver.heard) == 1

    play(story)


def test_only_what_was_asked_for_is_told(play: Play) -> None:
    """A receiver of losses hears of nothing else."""

    async def story(site: NewsSite) -> None:
        await site.configure(site.hook(events='["loss"]'))
        await until(lambda: site.figures("gpushare_news_waiting") == {("chat",): 0})
        broker, lease = site.bench.broker, site.session.lease
        assert lease is not None
        await broker.reconciler.submit([Idle(lease.id, broker.clock.now() - 500)])
        await site.lose()
        assert [each.body["type"] for each in await site.receiver.until(has(1))] == ["gpushare.loss"]

    play(story)


def test_without_its_secret_news_wait(play: Play) -> None:
    """Nothing is ever sent without a signature; it shows, and goes on once the secret is there and kept well."""

    async def story(site: NewsSite) -> None:
        site.secret.chmod(0o644)
        await site.lose()
        await until(lambda: site.figures("gpushare_news_failing") == {("chat",): 1})
        assert site.receiver.heard == []
        site.secret.chmod(0o600)
        await site.receiver.until(has(1))
        await until(lambda: site.figures("gpushare_news_failing") == {("chat",): 0})

    play(story)


def test_books_from_a_backup_are_shorter_than_what_was_told(play: Play) -> None:
    """Whoever has heard up to a line that is no more hears what comes next all the same."""

    async def story(site: NewsSite) -> None:
        await site.stop_following()
        place = site.bench.settings.state / "news.json"
        place.write_text('{"chat": 999999}')
        await site.follow()
        await until(lambda: place.read_text() != '{"chat": 999999}')
        await site.lose()
        await site.receiver.until(has(1))

    play(story)
