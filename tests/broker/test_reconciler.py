"""Decided, kept, told: in that order, whatever the ledger does."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.broker.clock import VirtualClock
from jupyter_gpushare.broker.ledger import LedgerError, NotLeaderError
from jupyter_gpushare.broker.memory_ledger import MemoryLedger
from jupyter_gpushare.broker.reconciler import Reconciler, StoppedError
from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.event import ParkingSwitched, PolicySet, Submitted, TimePassed
from jupyter_gpushare.rules.lease import Kind, Lease
from jupyter_gpushare.rules.pool import Pool
from jupyter_gpushare.rules.project import Project
from jupyter_gpushare.rules.snapshot import EMPTY
from jupyter_gpushare.share import Share
from tests.broker.service.bench import until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from jupyter_gpushare.rules.change import Change

POLICY = PolicySet((Project("team", Fraction.UNLIMITED),), (Pool("default"),))


class SlowLedger(MemoryLedger):
    """Keeps nothing before it is told to go on, and counts; fails with *error* if there is one."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go_on = threading.Event()
        self.began = threading.Event()
        self.commits: list[Change] = []
        self.error: Exception | None = None

    def commit(self, change: Change) -> None:
        """Keep *change*, when it may."""
        self.began.set()
        assert self.may_go_on.wait(60)
        if self.error is not None:
            raise self.error
        super().commit(change)
        self.commits.append(change)


def claim(number: int) -> Submitted:
    """A job that waits: there are no devices."""
    lease = Lease(
        id=f"job-{number}",
        kind=Kind.TRAINING,
        project="team",
        person="ann",
        name="job",
        share=Share.parse("1"),
        submitted=float(number),
        since=0.0,
        key=str(number),
    )
    return Submitted(lease)


def play(story: Callable[[Reconciler, SlowLedger], Coroutine[Any, Any, None]], **options: Any) -> None:
    """Play a story with a reconciler on a slow ledger."""

    async def whole() -> None:
        ledger = SlowLedger()
        ledger.take_over("one")
        with ThreadPoolExecutor(1) as thread:
            reconciler = Reconciler(ledger, thread, EMPTY, options.pop("clock", VirtualClock()), **options)
            reconciler.start()
            try:
                await story(reconciler, ledger)
            finally:
                ledger.may_go_on.set()
                ledger.error = None
                await reconciler.stop()

    asyncio.run(whole())


async def in_thread(event: threading.Event) -> None:
    """Wait for a thread."""
    assert await asyncio.to_thread(event.wait, 60)


def test_nothing_is_answered_or_published_before_it_is_kept() -> None:
    """Books in memory go on at once; answers, publications and the books for answers wait for the commit."""

    async def story(reconciler: Reconciler, ledger: SlowLedger) -> None:
        told: list[bool] = []
        reconciler.subscribe(lambda published: told.append("team" in published.new.projects))
        asked = asyncio.ensure_future(reconciler.submit([POLICY]))
        await in_thread(ledger.began)
        assert "team" in reconciler.snapshot.projects
        assert "team" not in reconciler.committed.projects
        assert not asked.done()
        assert not told
        ledger.may_go_on.set()
        await asked
        assert told == [True]
        assert "team" in reconciler.committed.projects

    play(story)


def test_what_comes_during_a_commit_is_kept_by_the_next_one_together() -> None:
    """A hundred claims while the ledger is busy cost one more commit, and each is answered."""

    async def story(reconciler: Reconciler, ledger: SlowLedger) -> None:
        first = asyncio.ensure_future(reconciler.submit([POLICY]))
        await in_thread(ledger.began)
        rest = [asyncio.ensure_future(reconciler.submit([claim(number)])) for number in range(100)]
        await until(lambda: len(reconciler.snapshot.leases) == 100)
        ledger.may_go_on.set()
        await asyncio.gather(first, *rest)
        assert len(ledger.commits) == 2
        assert len(ledger.load().leases) == 100

    play(story)


@pytest.mark.parametrize("error", [LedgerError("It is locked."), OverflowError("a mistake of ours")], ids=repr)
def test_a_failed_commit_is_tried_again_with_all_that_came_since(error: Exception) -> None:
    """Nothing is dropped and nothing said until it is kept; the trouble, whatever it is, is known meanwhile."""

    async def story(reconciler: Reconciler, ledger: SlowLedger) -> None:
        ledger.may_go_on.set()
        await reconciler.submit([POLICY])
        ledger.error = error
        asked = [asyncio.ensure_future(reconciler.submit([claim(number)])) for number in range(3)]
        await until(lambda: reconciler.trouble)
        assert not any(each.done() for each in asked)
        assert not reconciler.committed.leases
        ledger.error = None
        await asyncio.gather(*asked)
        assert reconciler.trouble is None
        assert reconciler.trouble_since is None
        assert len(reconciler.committed.leases) == 3

    play(story)


def test_another_leader_stops_it_at_once() -> None:
    """Whoever waits hears that nothing was promised, and nothing is decided any more."""
    stopped: list[bool] = []

    async def story(reconciler: Reconciler, ledger: SlowLedger) -> None:
        ledger.may_go_on.set()
        ledger.error = NotLeaderError("Another broker has it.")
        with pytest.raises(StoppedError):
            await reconciler.submit([POLICY])
        assert stopped == [True]
        with pytest.raises(StoppedError):
            await reconciler.submit([POLICY])

    play(story, dethroned=lambda: stopped.append(True))


def test_one_event_that_the_rules_cannot_take_harms_no_other() -> None:
    """A mistake of ours is told to whoever sent it; the others of the same moment are served."""

    async def story(reconciler: Reconciler, ledger: SlowLedger) -> None:
        ledger.may_go_on.set()
        await reconciler.submit([POLICY])
        nonsense: Any = object()
        asked = [reconciler.submit([claim(1)]), reconciler.submit([nonsense]), reconciler.submit([claim(2)])]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert [isinstance(each, Exception) for each in answers] == [False, True, False]
        assert len(reconciler.committed.leases) == 2

    play(story)


def test_a_subscriber_that_fails_harms_no_other() -> None:
    """A commit stands, and everybody else hears of it."""

    async def story(reconciler: Reconciler, ledger: SlowLedger) -> None:
        ledger.may_go_on.set()
        heard: list[Any] = []
        reconciler.subscribe(lambda _: 1 / 0)  # type: ignore[arg-type]  # a mistake
        reconciler.subscribe(heard.append)
        await reconciler.submit([POLICY])
        assert heard

    play(story)


def test_time_alone_is_looked_at_when_the_rules_asked_for_it() -> None:
    """What waits for a moment is decided at that moment, without any event."""
    clock = VirtualClock()

    async def story(reconciler: Reconciler, ledger: SlowLedger) -> None:
        ledger.may_go_on.set()
        reconciler._set_alarm(clock.now() + 100)
        decided = asyncio.Event()
        reconciler._timings.decided = lambda _seconds: decided.set()
        clock.advance(99)
        await asyncio.sleep(0)
        assert not decided.is_set()
        clock.advance(2)
        await asyncio.wait_for(decided.wait(), 60)

    play(story, clock=clock)


def test_stopping_keeps_what_is_decided() -> None:
    """A broker that is asked to stop while a commit is under way leaves nothing half-way."""

    async def story(reconciler: Reconciler, ledger: SlowLedger) -> None:
        asked = asyncio.ensure_future(reconciler.submit([POLICY]))
        await in_thread(ledger.began)
        late = asyncio.ensure_future(reconciler.submit([ParkingSwitched(is_stopped=True, by="admin")]))
        await until(lambda: reconciler.snapshot.is_parking_stopped)
        ledger.may_go_on.set()
        await reconciler.stop()
        await asyncio.gather(asked, late)
        assert ledger.load().is_parking_stopped
        with pytest.raises(StoppedError):
            await reconciler.submit([TimePassed()])

    play(story)
