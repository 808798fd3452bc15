"""Claims that a hub holds, through kills and restarts of the broker, and a thousand of them at once."""

from __future__ import annotations

import asyncio
import copy
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.broker.memory_ledger import MemoryBooks, MemoryLedger
from jupyter_gpushare.rules.invariants import violations
from jupyter_gpushare.rules.lease import Status
from tests.broker.service.bench import SMALL, Bench, never, processes_of, until
from tests.broker.service.hub_town import HubTown, session

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from jupyter_gpushare.rules.change import Change

    Play = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]

KEY = "hub:ana%2F"
NAME = "hub:ana/"


@pytest.fixture(name="town")
def _town(bench: Bench) -> HubTown:
    """A hub's broker with one device."""
    return HubTown(bench)


class RecordingLedger(MemoryLedger):
    """Remembers the books as they were after each commit, for brokers that were killed there."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[MemoryBooks] = []

    def commit(self, change: Change) -> None:
        """Keep it, and a copy of all."""
        super().commit(change)
        past, books = copy.deepcopy(self.books.past), self.books
        self.steps.append(
            MemoryBooks(
                snapshot=books.snapshot,
                audit=list(books.audit),
                holders=dict(books.holders),
                restores=dict(books.restores),
                past=past,
                lines=books.lines,
                lock=threading.Lock(),
            )
        )


def test_a_broker_that_is_killed_at_any_step_leaves_no_claim_behind(town: HubTown, play: Play, tmp_path: Path) -> None:
    """Whatever was kept: the next broker holds it for who comes in time, once, and frees it for who does not."""
    ledger = RecordingLedger()
    town.bench.options["ledger"] = ledger

    async def story(bench: Bench) -> None:
        await town.start("one", share="1", reserve_s=1)
        await town.put(KEY, who="ana", wait=True, for_s=1)
        await town.ask("DELETE", "claims/one?person=ana")
        await until(lambda: any(lease.hold and lease.status is Status.GRANTED for lease in leases(bench)))
        await town.start(KEY, reserve_s=1)
        await bench.stop()
        town.file.write_text(town.file.read_text() + '[broker]\nholder_grace = "1s"\n')
        for step in ledger.steps:
            bench.options["ledger"] = MemoryLedger(step)
            before = set(step.snapshot.leases)
            await bench.start()
            assert not violations(bench.broker.books)
            kept = await town.start(KEY, reserve_s=1)
            if kept.status in (200, 201):
                assert [lease.key for lease in leases(bench)].count(NAME) == 1
                if any(step.snapshot.leases[key].key == NAME for key in before):
                    assert kept.claim.lease.id in before
            await until(lambda: not bench.broker.books.leases)
            await bench.stop()

    play(story)


def test_a_restart_shortens_nobodys_reservation(town: HubTown, play: Play) -> None:
    """A server that is slow to start finds its share, although the broker was away and holders had less time."""
    town.file.write_text(town.file.read_text() + '[broker]\nholder_grace = "1s"\n')
    books = MemoryBooks()
    town.bench.options["ledger"] = MemoryLedger(books)

    async def story(bench: Bench) -> None:
        before = (await town.start(KEY, reserve_s=500)).claim
        await bench.stop()
        bench.options["ledger"] = MemoryLedger(books)
        await bench.start()
        await never(lambda: not bench.lease(before.lease.id) or bench.lease(before.lease.id).status != "granted", 2.5)
        holding = town.client(before.token).hold(session(NAME), processes_of(os.getpid()))
        assert (await asyncio.wait_for(holding.granted(), 60)).id == before.lease.id
        await holding.close()

    play(story)


def leases(bench: Bench) -> list[Any]:
    """All of them."""
    return list(bench.broker.books.leases.values())


def test_a_thousand_claims_at_once_over_book_nothing(tmp_path: Path) -> None:
    """Each is granted or refused with a reason, no more than there is, and after their end nothing is left."""
    bench = Bench(tmp_path, *[SMALL] * 4)
    town = HubTown(bench, '[projects.team]\nquota = "unlimited"\n')
    people = [f"p{number:04}" for number in range(1000)]
    gate = asyncio.Semaphore(100)

    async def claim(person: str) -> int:
        async with gate:
            answer = await town.start(f"hub:{person}%2F", person=person, share="0.25")
        assert answer.status == 201 or answer.code == "WAITING_FOR_DEVICE", answer
        return answer.status

    async def whole() -> None:
        try:
            await bench.start()
            statuses = await asyncio.gather(*map(claim, people))
            assert statuses.count(201) == 16
            assert not violations(bench.broker.books)
            assert len(bench.broker.books.leases) == 16
            for person in people:
                assert (await town.ask("DELETE", f"claims/hub:{person}%2F?person={person}")).status == 204
            assert not bench.broker.books.leases
        finally:
            await bench.close()

    asyncio.run(whole())
