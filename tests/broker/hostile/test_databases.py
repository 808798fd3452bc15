"""A real database under a running broker: locked by a stranger, full, and restored from yesterday while holders live."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from sqlalchemy import event

from jupyter_gpushare.broker.client import BrokerError
from jupyter_gpushare.broker.sql.ledger import SqlLedger
from jupyter_gpushare.rules.change import Verb
from jupyter_gpushare.rules.invariants import violations
from tests.broker.service.bench import GIB, JOB, SESSION, Bench, until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    Play = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]

WHOLE = msgspec.structs.replace(SESSION, share="1")


async def promises_nothing(bench: Bench, key: str, status: str) -> None:
    """While commits fail the books that are shown stay, and /health says why."""
    await until(lambda: bench.broker.reconciler.trouble or bench.lease(key).status != status)
    assert bench.broker.reconciler.trouble
    with pytest.raises(BrokerError) as caught:
        await bench.client.request("GET", "health")
    assert caught.value.status == 503
    assert bench.lease(key).status == status


def test_a_database_that_a_stranger_locks_delays_and_loses_nothing(bench: Bench, books: Path, play: Play) -> None:
    """A backup program that holds the lock for long costs time; what was wanted meanwhile is done when it lets go."""

    async def story(bench: Bench) -> None:
        session = await bench.running(WHOLE)
        assert session.lease is not None
        with closing(sqlite3.connect(books, isolation_level=None)) as stranger:
            stranger.execute("BEGIN EXCLUSIVE")
            session.want("parked", GIB)
            await promises_nothing(bench, session.lease.id, "running")
            stranger.execute("ROLLBACK")
        await session.until(lambda lease: lease.status == "parking")
        assert await bench.client.request("GET", "health") == {"status": "ok"}

    play(story)


def test_a_full_disk_delays_and_loses_nothing(bench: Bench, books: Path, play: Play) -> None:
    """With no page left the claims of new holders wait for room on the disk, and each is kept once when there is some."""
    limit = ["PRAGMA max_page_count = 1"]

    async def story(bench: Bench) -> None:
        ledger = bench.options["ledger"]
        event.listen(ledger.engine, "checkout", lambda connection, *_: connection.execute(limit[-1]))
        late = [bench.hold(msgspec.structs.replace(JOB, key=f"late-{n}", name="x" * 200)) for n in range(100)]
        trouble = await until(lambda: bench.broker.reconciler.trouble)
        assert "full" in str(trouble)
        assert any(each.lease is None for each in late)
        limit.append("PRAGMA max_page_count = 1073741823")
        await until(lambda: all(each.lease is not None for each in late))
        assert sorted(lease.key for lease in bench.broker.books.leases.values()) == sorted(
            f"late-{n}" for n in range(100)
        )
        lines = [each.entry for each in ledger.audit(limit=10_000) if each.entry.verb is Verb.SUBMITTED]
        assert len(lines) == 100

    play(story)


def test_restored_from_yesterday_everybody_is_where_he_is(bench: Bench, books: Path, play: Play) -> None:
    """The backup knows a session that runs and no job; meanwhile it parked and lent: so it is afterwards, and fits."""

    async def story(bench: Bench) -> None:
        notebook, training = bench.program(), bench.program()
        session = await bench.running(WHOLE, notebook.pid)
        assert session.lease is not None
        await bench.stop()
        shutil.copy(books, books.with_suffix(".yesterday"))
        await _again(bench, books)
        await until(lambda: session.connected)
        await _park(session)
        training.run("buffer = cuda.allocate(1 << 30)")
        job = await bench.running(msgspec.structs.replace(JOB, name="real"), training.pid)
        assert job.lease is not None
        believed = {each.id: each.epoch for each in (session.lease, job.lease)}
        await bench.stop()
        _restore(books)
        await _again(bench, books)
        await until(lambda: session.connected and job.connected)
        await until(lambda: session.lease and session.lease.status in ("parked", "parking"))
        if session.lease.status == "parking":
            session.did("released", session.lease.epoch)
        await session.until(lambda lease: lease.status == "parked")
        await job.until(lambda lease: lease.status == "running")
        kept = bench.broker.books.leases
        assert set(kept) == set(believed)
        assert all(kept[key].epoch >= epoch for key, epoch in believed.items())
        assert violations(bench.broker.books) == []
        session.want("running")
        called = await job.until(lambda lease: lease.status in ("yielding", "parking"))
        training.run("buffer.free(); cuda.device_reset()")
        job.did("released", called.epoch)
        await session.until(lambda lease: lease.status == "resuming")

    play(story)


def _replace(books: Path) -> None:
    books.rename(books.with_suffix(".away"))
    books.write_bytes(os.urandom(4096))


def _restore(books: Path) -> None:
    for name in (books, *books.parent.glob(f"{books.name}-*")):
        name.unlink()
    shutil.copy(books.with_suffix(".yesterday"), books)


async def _again(bench: Bench, books: Path) -> None:
    bench.options["ledger"] = SqlLedger.open(f"sqlite:///{books}", patience_s=0.2)
    await bench.start()


async def _park(session: Any) -> None:
    session.want("parked", GIB)
    lease = await session.until(lambda each: each.status == "parking")
    session.did("released", lease.epoch)
    await session.until(lambda each: each.status == "parked")


def test_books_that_another_program_replaced_are_not_written_to(bench: Bench, books: Path, play: Play) -> None:
    """Another file in the ledger's place is named, and what runs goes on."""

    async def story(bench: Bench) -> None:
        session = await bench.running(WHOLE)
        assert session.lease is not None
        _replace(books)
        session.want("parked", GIB)
        await promises_nothing(bench, session.lease.id, "running")
        assert "another file" in str(bench.broker.reconciler.trouble)
        assert session.lease.status == "running"

    play(story)
