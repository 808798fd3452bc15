"""A ledger that fails, is lost, or was restored from a backup: nothing is promised that is not kept."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from jupyter_gpushare.broker import admin_wire, wire
from jupyter_gpushare.broker.client import BrokerError
from jupyter_gpushare.broker.ledger import ConflictError, LedgerError
from jupyter_gpushare.broker.memory_ledger import MemoryLedger
from jupyter_gpushare.broker.sql.ledger import SqlLedger
from tests.broker.service.bench import GIB, JOB, SESSION, Bench, until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from jupyter_gpushare.rules.change import Change

    Play = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]

WHOLE = msgspec.structs.replace(SESSION, share="1")


class FailingLedger(MemoryLedger):
    """Keeps nothing while *error* is set."""

    error: Exception | None = None

    def commit(self, change: Change) -> None:
        """Keep *change*, or fail."""
        if self.error is not None:
            raise self.error
        super().commit(change)


def test_a_ledger_that_fails_promises_nothing_and_loses_nothing(bench: Bench, play: Play) -> None:
    """While it fails nobody is told anything new and /health says what to do; when it works all that was asked is done."""
    ledger = FailingLedger(bench.books)
    bench.options["ledger"] = ledger

    async def story(bench: Bench) -> None:
        session = await bench.running(WHOLE)
        assert session.lease is not None
        key = session.lease.id
        ledger.error = LedgerError("The disk is full: make room on it.")
        session.want("parked", GIB)
        await until(lambda: bench.broker.reconciler.trouble)
        with pytest.raises(BrokerError) as caught:
            await bench.client.request("GET", "health")
        assert caught.value.status == 503
        assert "make room" in caught.value.text
        assert bench.lease(key).status == "running"
        assert session.lease.status == "running"
        metrics = (await bench.client.fetch("GET", "metrics")).decode()
        assert "gpushare_ledger_failing 1.0" in metrics
        ledger.error = None
        await session.until(lambda lease: lease.status == "parking")
        assert (await bench.client.request("GET", "health")) == {"status": "ok"}

    play(story)


def test_a_request_does_not_wait_for_ever_for_the_ledger(bench: Bench, play: Play) -> None:
    """Whoever asks while the ledger fails hears 503 and that it is noted, and it is done once the ledger works."""
    ledger = FailingLedger(bench.books)
    bench.options["ledger"] = ledger
    bench.settings = replace(bench.settings, commit_s=0.2)

    async def story(bench: Bench) -> None:
        ledger.error = LedgerError("It is locked.")
        with pytest.raises(BrokerError) as caught:
            await bench.client.request("POST", "admin/stop-parking", admin_wire.StopParkingRequest(True))  # noqa: FBT003
        assert caught.value.status == 503
        assert not bench.broker.books.is_parking_stopped
        ledger.error = None
        await until(lambda: bench.broker.books.is_parking_stopped)

    play(story)


def test_what_the_ledger_refuses_for_good_is_forgotten(bench: Bench, play: Play) -> None:
    """A change that the ledger will never keep is not decided on: the books go back, and holders say it again."""
    ledger = FailingLedger(bench.books)
    bench.options["ledger"] = ledger

    async def story(bench: Bench) -> None:
        session = await bench.running(WHOLE)
        assert session.lease is not None
        key = session.lease.id
        ledger.error = ConflictError("It breaks a rule.")
        session.want("parked", GIB)
        await until(lambda: not session.connected)
        ledger.error = None
        await session.until(lambda lease: lease.status == "parking")
        assert bench.lease(key).host_memory.bytes == GIB

    play(story)


def test_a_broker_whose_ledger_was_taken_over_stops(play: Play) -> None:
    """Two brokers never decide on one ledger: the older one stops at its next commit."""

    async def story(bench: Bench) -> None:
        await bench.running()
        MemoryLedger(bench.books).take_over("another")
        session = bench.hold(msgspec.structs.replace(SESSION, key="late"))
        await asyncio.wait_for(bench.broker.stopped.wait(), 60)
        assert session.lease is None

    play(story)


def test_a_real_database_that_is_gone_is_named_and_comes_back(bench: Bench, play: Play) -> None:
    """The file is moved away under a running broker: nothing new is promised, and with it back everything is done."""
    path = bench.directory / "broker.sqlite"
    bench.options["ledger"] = SqlLedger.open(f"sqlite:///{path}", patience_s=0.2)

    async def story(bench: Bench) -> None:
        session = await bench.running(WHOLE)
        path.rename(path.with_suffix(".away"))
        session.want("parked", GIB)
        trouble = await until(lambda: bench.broker.reconciler.trouble)
        assert str(path) in str(trouble)
        path.with_suffix(".away").rename(path)
        await session.until(lambda lease: lease.status == "parking")

    play(story)


def test_a_lease_that_the_backup_does_not_know_is_adopted_from_its_holder(bench: Bench, play: Play) -> None:
    """Restored from an old backup, the books learn of a lease from its holder's token and what the device shows."""

    async def story(bench: Bench) -> None:
        program = bench.program()
        program.run("buffer = cuda.allocate(1 << 30)")
        raw = await bench.raw()
        welcome = await raw.greet(WHOLE, program.pid)
        await raw.say(wire.DidMessage("running", welcome.lease.epoch))
        lease = await raw.until_status("running")
        await bench.stop()
        bench.books = type(bench.books)()
        (bench.settings.runtime / "roster.json").unlink()
        await bench.start()
        forged = await bench.raw()
        liar = msgspec.structs.replace(lease, id="f" * 32)
        told = await forged.greet(
            msgspec.structs.replace(WHOLE, key="liar"), lease=liar, epoch=9, is_resident=True, token=welcome.token
        )
        assert told.lease.id != liar.id
        again = await bench.raw()
        back = await again.greet(WHOLE, program.pid, lease=lease, epoch=7, is_resident=True, token=welcome.token)
        assert back.lease.id == lease.id
        assert back.lease.epoch >= 7
        assert back.lease.status == "running"
        assert back.lease.grants == lease.grants

    play(story)


def test_an_adopted_lease_that_no_device_shows_waits_in_line(bench: Bench, play: Play) -> None:
    """A holder's word that it is on the device is not enough to take capacity."""

    async def story(bench: Bench) -> None:
        raw = await bench.raw()
        welcome = await raw.greet(WHOLE, os.getpid())
        await bench.stop()
        bench.books = type(bench.books)()
        await bench.start()
        await bench.running(JOB)
        again = await bench.raw()
        back = await again.greet(WHOLE, lease=welcome.lease, epoch=1, is_resident=True, token=welcome.token)
        assert back.lease.status == "queued"

    play(story)
