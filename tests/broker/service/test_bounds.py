"""One person cannot take the whole broker: connections and claims have a bound, which is told."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from jupyter_gpushare.broker.client import BrokerError
from jupyter_gpushare.broker.ledger import LedgerError
from tests.broker.service.bench import SESSION, until
from tests.broker.service.test_bad_ledgers import FailingLedger

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.broker.service.bench import Bench

    Play = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]

SOMEBODY, ANOTHER = 65533, 65532
REQUEST = b"GET /services/gpushare/api/v1/projects HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(name="shared")
def _shared(bench: Bench) -> Bench:
    """A broker for everybody, of which one person may have three connections and two claims."""
    configuration = bench.directory / "gpushare.toml"
    configuration.write_text(
        "[broker]\nperson_connections = 3\nperson_claims = 2\n[projects.default]\nquota = 10\n[pools.default]\n"
    )
    bench.settings = replace(bench.settings, mode="multi_user", configuration=configuration)
    bench.uid = SOMEBODY
    return bench


async def opened(bench: Bench) -> socket.socket:
    """A connection that says nothing yet; the broker has taken it."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.setblocking(False)  # noqa: FBT003  # the standard library's
    await asyncio.get_running_loop().sock_connect(connection, str(bench.settings.socket))
    return connection


async def answer(connection: socket.socket) -> bytes:
    """What it is answered to a request."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(connection, REQUEST)
    return await asyncio.wait_for(loop.sock_recv(connection, 1 << 16), 30)


def test_one_connection_too_many_is_refused_and_others_are_served(shared: Bench, play: Play) -> None:
    """The fourth of a person is told why; another person is served; and one that is closed makes room."""

    async def story(bench: Bench) -> None:
        mine = [await opened(bench) for _ in range(3)]
        for each in mine:
            assert b"200 OK" in await answer(each)
        fourth = await opened(bench)
        refused = await answer(fourth)
        assert b"429" in refused
        assert b"You have 3 connections to the broker, which is the most for one person." in refused
        bench.uid = ANOTHER
        other = await opened(bench)
        assert b"200 OK" in await answer(other)
        bench.uid = SOMEBODY
        mine.pop().close()

        async def admitted() -> bool:
            again = await opened(bench)
            mine.append(again)
            return b"200 OK" in await answer(again)

        while not await admitted():
            mine.pop().close()
        for each in (*mine, fourth, other):
            each.close()

    play(story)


def test_one_claim_too_many_is_refused_until_one_ends(shared: Bench, play: Play) -> None:
    """Who holds two of two shares gets no third one, reads why, and has it when one of them is over."""

    async def story(bench: Bench) -> None:
        claims = [msgspec.structs.replace(SESSION, key=f"lab-{number}", share="0.1") for number in range(3)]
        first, second = bench.hold(claims[0]), bench.hold(claims[1])
        await first.granted()
        await second.granted()
        third = bench.hold(claims[2])
        with pytest.raises(BrokerError, match="You hold or wait for 2 shares here") as refused:
            await third.granted()
        assert refused.value.code == "TOO_MANY_CLAIMS"
        await first.end()
        await until(lambda: len(bench.broker.books.leases) == 1)
        await bench.hold(claims[2]).granted()

    play(story)


def test_a_thousand_at_once_do_not_slip_through(shared: Bench, play: Play) -> None:
    """Claims that are still being decided count too."""
    assert shared.settings.configuration is not None
    text = shared.settings.configuration.read_text()
    shared.settings.configuration.write_text(text.replace("connections = 3", "connections = 100"))

    async def story(bench: Bench) -> None:
        claims = [msgspec.structs.replace(SESSION, key=f"lab-{number}", share="0.01") for number in range(40)]
        holdings = [bench.hold(claim) for claim in claims]
        await until(lambda: all(each.refusal is not None or each.lease is not None for each in holdings))
        assert sum(each.refusal is None for each in holdings) == 2

    play(story)


def test_a_claim_that_is_decided_and_not_kept_yet_counts_once(shared: Bench, play: Play) -> None:
    """While the ledger is slow, who holds one of two shares gets the second and not the third."""
    ledger = shared.options["ledger"] = FailingLedger(shared.books)

    async def story(bench: Bench) -> None:
        claims = [msgspec.structs.replace(SESSION, key=f"lab-{number}", share="0.1") for number in range(3)]
        decided = bench.broker.reconciler
        ledger.error = LedgerError("The disk is slow.")
        first = bench.hold(claims[0])
        await until(lambda: len(decided.snapshot.leases) == 1)
        second = bench.hold(claims[1])
        await until(lambda: len(decided.snapshot.leases) == 2 or second.refusal is not None)
        third = bench.hold(claims[2])
        await until(lambda: third.refusal is not None or len(decided.snapshot.leases) == 3)
        ledger.error = None
        await first.granted()
        await second.granted()
        assert third.refusal is not None
        assert third.refusal.code == "TOO_MANY_CLAIMS"

    play(story)


def test_an_admin_is_not_bounded(shared: Bench, play: Play) -> None:
    """Root, who looks after the broker, can always reach it."""
    shared.uid = 0

    async def story(bench: Bench) -> None:
        connections = [await opened(bench) for _ in range(8)]
        for each in connections:
            assert b"200 OK" in await answer(each)
            each.close()

    play(story)
