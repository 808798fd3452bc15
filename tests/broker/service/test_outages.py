"""The time that holders have for what they are asked, when nobody could ask them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from jupyter_gpushare.broker.clock import VirtualClock
from jupyter_gpushare.broker.heartbeat import Heartbeat
from jupyter_gpushare.broker.ledger import LedgerError
from jupyter_gpushare.rules.copies import is_overdue
from jupyter_gpushare.rules.event import OutageOver
from jupyter_gpushare.rules.pace import Pace
from tests.broker.service.bench import GIB, JOB, SESSION, Bench, until
from tests.broker.service.test_bad_ledgers import FailingLedger

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    Play = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]

WHOLE = msgspec.structs.replace(SESSION, share="1")
_HOUR_S = 3600


def is_late(bench: Bench, key: str) -> bool:
    """Whether the broker counts on this lease's holder no more."""
    return is_overdue(bench.broker.books, bench.lease(key), bench.broker.clock.now())


async def called_back(bench: Bench) -> str:
    """The lease of a job that has to leave because a session wants its share back."""
    session = await bench.parked(WHOLE)
    job = await bench.running(JOB)
    assert job.lease is not None
    session.want("running")
    await job.until(lambda lease: lease.status == "yielding")
    return job.lease.id


def test_an_hour_without_a_broker_makes_nobody_late(bench: Bench, play: Play) -> None:
    """A job that was called back before has its whole grace once there is somebody to tell it."""
    clock = bench.options["clock"] = VirtualClock()

    async def story(bench: Bench) -> None:
        key = await called_back(bench)
        await bench.stop()
        clock.advance(_HOUR_S)
        assert bench.books.snapshot.leases[key].deadline is not None
        await bench.start()
        assert bench.lease(key).status == "yielding"
        assert not is_late(bench, key)
        clock.advance(JOB.grace_s or 0)
        assert is_late(bench, key)

    play(story)


def test_a_broker_that_is_started_again_and_again_renews_nobodys_grace(bench: Bench, play: Play) -> None:
    """A job that ignores its call has its grace once, in all the time in which there was a broker to tell it."""
    clock = bench.options["clock"] = VirtualClock()

    async def story(bench: Bench) -> None:
        key = await called_back(bench)
        for _ in range(3):
            clock.advance((JOB.grace_s or 0) / 2)
            await bench.stop()
            clock.advance(_HOUR_S)
            await bench.start()
        assert is_late(bench, key)

    play(story)


def test_who_was_killed_leaves_word_until_when_it_lived(tmp_path: Path) -> None:
    """The next broker knows how long nobody was there; without a word it counts with for ever."""
    clock = VirtualClock()
    heart = Heartbeat(tmp_path / "heartbeat", clock)
    assert heart.outage() == OutageOver()
    heart.beat()
    clock.advance(100)
    assert Heartbeat(tmp_path / "heartbeat", clock).outage() == OutageOver(100.0)


def test_a_broker_that_can_tell_nobody_anything_is_as_one_that_is_away(tmp_path: Path) -> None:
    """It beats on while it is of use, and not a moment longer."""
    clock = VirtualClock()
    heart, needed = Heartbeat(tmp_path / "heartbeat", clock), [True, True, False]

    async def story() -> None:
        beating = asyncio.create_task(heart.go_on(lambda: needed.pop(0) if needed else False))
        while needed:
            clock.advance(1)
            await asyncio.sleep(0.05)
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)

    asyncio.run(story())
    lasted_s = heart.outage().lasted_s
    assert lasted_s is not None
    assert 0 < lasted_s < clock.now() - VirtualClock().now()


def test_an_hour_without_a_ledger_makes_nobody_late(bench: Bench, play: Play) -> None:
    """What was decided while nothing could be said counts from when it is said."""
    clock = bench.options["clock"] = VirtualClock()
    ledger = bench.options["ledger"] = FailingLedger(bench.books)

    async def story(bench: Bench) -> None:
        session = await bench.running(WHOLE)
        assert session.lease is not None
        key = session.lease.id
        ledger.error = LedgerError("The disk is full: make room on it.")
        session.want("parked", GIB)
        await until(lambda: bench.broker.reconciler.trouble)
        clock.advance(_HOUR_S)
        ledger.error = None
        await session.until(lambda lease: lease.status == "parking")
        await until(lambda: not is_late(bench, key))

    play(story)


def test_a_broker_that_is_started_again_knows_how_fast_its_hosts_are(bench: Bench, play: Play) -> None:
    """What it learned of copies is in the ledger, and in its estimates from the first one on."""

    async def story(bench: Bench) -> None:
        await bench.parked(WHOLE)
        await bench.stop()
        (host,) = bench.books.paces
        slow = bench.books.paces[host] = Pace(1e6, 1e6)
        await bench.start()
        assert bench.broker._pacing.paces.hosts == {host: slow}  # what its estimates stand on

    play(story)
