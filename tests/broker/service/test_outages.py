"""The time that holders have for what they are asked, when nobody could ask them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from jupyter_gpushare.broker.clock import VirtualClock
from jupyter_gpushare.broker.ledger import LedgerError
from jupyter_gpushare.rules.copies import is_overdue
from tests.broker.service.bench import GIB, JOB, SESSION, Bench, until
from tests.broker.service.test_bad_ledgers import FailingLedger

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Play = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]

WHOLE = msgspec.structs.replace(SESSION, share="1")
_HOUR_S = 3600


def is_late(bench: Bench, key: str) -> bool:
    """Whether the broker counts on this lease's holder no more."""
    return is_overdue(bench.broker.books, bench.lease(key), bench.broker.clock.now())


def test_an_hour_without_a_broker_makes_nobody_late(bench: Bench, play: Play) -> None:
    """A job that was called back before has its whole grace once there is somebody to tell it."""
    clock = bench.options["clock"] = VirtualClock()

    async def story(bench: Bench) -> None:
        session = await bench.parked(WHOLE)
        job = await bench.running(JOB)
        assert job.lease is not None
        key = job.lease.id
        session.want("running")
        await job.until(lambda lease: lease.status == "yielding")
        await bench.stop()
        clock.advance(_HOUR_S)
        assert bench.books.snapshot.leases[key].deadline is not None
        await bench.start()
        assert bench.lease(key).status == "yielding"
        assert not is_late(bench, key)
        clock.advance(JOB.grace_s or 0)
        assert is_late(bench, key)

    play(story)


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
