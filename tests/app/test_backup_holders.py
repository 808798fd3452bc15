"""Yesterday's backup is put back while notebooks and jobs live: nobody loses anything, whatever happened since."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from jupyter_gpushare.app.ledger_files import back_up, put_back
from jupyter_gpushare.broker.sql.ledger import SqlLedger
from jupyter_gpushare.rules.invariants import violations
from tests.broker.service.bench import GIB, SESSION, SMALL, Bench, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_gpushare.broker.client import Holding
    from jupyter_gpushare.broker.wire import ClaimModel


@pytest.fixture
def directory() -> Iterator[Path]:
    """With a short name: a socket's path must be short."""
    found = Path(tempfile.mkdtemp(prefix="gs"))
    yield found
    shutil.rmtree(found)


def quarter(name: str) -> ClaimModel:
    """A session's claim."""
    return msgspec.structs.replace(SESSION, key=name, name=name, share="0.25")


async def start(bench: Bench, books: Path) -> None:
    """A broker on *books*."""
    bench.options["ledger"] = SqlLedger.open(f"sqlite:///{books}")
    await bench.start()


async def settle(holding: Holding, status: str) -> None:
    """Do what the lease asks for until it has *status*."""
    asked = ("granted", "resuming") if status == "running" else ("parking",)
    async with asyncio.timeout(60):
        lease = await holding.until(lambda each: each.status in (*asked, status))
        if lease.status != status:
            holding.did("running" if status == "running" else "released", lease.epoch)
            await holding.until(lambda each: each.status == status)


def test_a_backup_of_yesterday_loses_nobody(directory: Path) -> None:
    """Since it was made one has parked, one has come back, one is new and one has ended: all are as they are today."""
    books = directory / "books" / "broker.sqlite"

    async def story(bench: Bench) -> None:
        bench.settings.state.mkdir(mode=0o700, parents=True)
        (bench.settings.state / "applied.toml").write_text('[broker]\nholder_grace = "2s"\n')
        await start(bench, books)
        stays, parks = await bench.running(quarter("stays")), await bench.running(quarter("parks"))
        returns, ends = await bench.parked(quarter("returns")), await bench.running(quarter("ends"))
        sleeps = await bench.parked(quarter("sleeps"))
        back_up(books, directory / "yesterday.sqlite")
        parks.want("parked", GIB // 8)
        await settle(parks, "parked")
        returns.want("running")
        await settle(returns, "running")
        await ends.end()
        new = await bench.running(quarter("new"))
        today = {"stays": "running", "parks": "parked", "returns": "running", "sleeps": "parked", "new": "running"}
        holdings = dict(zip(today, (stays, parks, returns, sleeps, new), strict=True))
        await bench.stop()
        put_back(directory / "yesterday.sqlite", books)
        await start(bench, books)
        await until(lambda: all(each.connected for each in holdings.values()))
        await asyncio.gather(*(settle(each, today[name]) for name, each in holdings.items()))
        await until(lambda: kept(bench) == today)
        assert violations(bench.broker.books) == []

    async def whole() -> None:
        bench = Bench(directory, SMALL, SMALL)
        try:
            await story(bench)
        finally:
            await bench.close()

    asyncio.run(whole())


def kept(bench: Bench) -> dict[str, str]:
    """Everybody, and where they are."""
    return {lease.name: lease.status.value for lease in bench.broker.books.leases.values()}
