"""Holders that do not do as they are asked: deaf, hasty, late, doubled, and wrong about what they use."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from jupyter_gpushare.broker import wire
from jupyter_gpushare.broker.clock import VirtualClock
from jupyter_gpushare.broker.roster import Roster
from jupyter_gpushare.devices.identity import Identity, identify, myself
from jupyter_gpushare.rules.invariants import violations
from jupyter_gpushare.share import Share
from tests.broker.service.bench import GIB, JOB, SESSION, Bench, never, until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    Play = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]

WHOLE = msgspec.structs.replace(SESSION, share="1")
MIB = 1 << 20


def test_who_ignores_a_call_back_is_asked_again_and_never_robbed(bench: Bench, play: Play) -> None:
    """Past its deadline, and past many more, its memory is its own: the session waits and says for whom."""
    clock = VirtualClock()
    bench.options["clock"] = clock

    async def story(bench: Bench) -> None:
        training = bench.program()
        session = await bench.parked(WHOLE)
        job = await bench.running(JOB, training.pid)
        training.run("buffer = cuda.allocate(1 << 30)")
        session.want("running")
        called = await job.until(lambda lease: lease.status == "yielding")
        assert called.deadline is not None
        for _ in range(5):
            clock.advance(3600)
            await until(lambda: job.lease and job.lease.deadline and job.lease.deadline > clock.now())
        assert session.lease is not None
        assert bench.lease(session.lease.id).status == "parked"
        assert session.lease.reason is not None
        assert session.lease.reason.code == "WAITING_FOR_CALL_BACK"
        assert training.run("answer = cuda.memory_allocated()") == str(GIB)
        training.run("buffer.free(); cuda.device_reset()")
        job.did("released", called.epoch)
        await session.until(lambda lease: lease.status == "resuming")
        assert violations(bench.broker.books) == []

    play(story)


def test_answers_that_come_twice_late_and_out_of_order_count_once(play: Play) -> None:
    """Every word of a holder's life, said again at every later moment, moves nothing a second time."""

    async def story(bench: Bench) -> None:
        session = await bench.parked(WHOLE)
        assert session.lease is not None
        key = session.lease.id
        old = [("running", epoch) for epoch in (1, 1, 0)] + [("released", epoch) for epoch in (1, 1, 0)]
        for what, epoch in old:
            session.did("running" if what == "running" else "released", epoch)
        session.could_not(1, "NOT_PARKABLE", "late")
        await never(lambda: bench.lease(key).status != "parked")
        session.want("running")
        back = await session.until(lambda lease: lease.status == "resuming")
        for what, epoch in [*old, ("running", back.epoch), *old, ("running", back.epoch)]:
            session.did("running" if what == "running" else "released", epoch)
        await session.until(lambda lease: lease.status == "running")
        await never(lambda: bench.lease(key).status != "running")
        assert bench.lease(key).epoch == back.epoch
        assert violations(bench.broker.books) == []

    play(story)


def test_who_says_that_it_uses_nothing_gains_nothing(play: Play) -> None:
    """Capacity follows what is granted and what devices show, not what a holder says of itself."""

    async def story(bench: Bench) -> None:
        notebook = bench.program()
        notebook.run("buffer = cuda.allocate(1 << 30)")
        liar = await bench.running(WHOLE, notebook.pid)
        liar.report(0, 0.0, 1e6)
        waiting = bench.hold(JOB)
        await waiting.until(lambda lease: lease.status == "queued")
        liar.want("parked", 1)
        parking = await liar.until(lambda lease: lease.status == "parking")
        liar.did("released", parking.epoch)
        await never(lambda: waiting.lease and waiting.lease.status != "queued")
        assert bench.lease(parking.id).status == "parking"

    play(story)


@pytest.mark.parametrize("share", ["nan", "-0.5", "1e400", "inf", "99999999999999999999", "0.5..0.1", "-1GiB", "0"])
def test_a_share_that_cannot_be_is_refused_live_too(play: Play, share: str) -> None:
    """A holder that runs and asks for nonsense keeps what it has, and hears what is wrong with its wish."""

    async def story(bench: Bench) -> None:
        session = await bench.running()
        assert session.lease is not None
        raw = await bench.raw()
        welcome = await raw.greet(msgspec.structs.replace(SESSION, key="other"))
        await raw.say(wire.WantMessage(share=share))
        said = await raw.until(lambda each: isinstance(each, wire.RefusedMessage))
        assert not said.is_final
        assert bench.lease(welcome.lease.id).share == bench.lease(session.lease.id).share

    play(story)


@pytest.mark.parametrize("share", ["0.5", "0.50", "0.25", "0.250"])
def test_a_share_is_answered_however_it_is_written_and_also_when_it_is_the_same(play: Play, share: str) -> None:
    """Nobody waits for ever for a change that changes nothing, or that the lease shows in other words."""

    async def story(bench: Bench) -> None:
        session = await bench.running()
        lease = await asyncio.wait_for(session.want_share(share), 60)
        assert Share.parse(lease.share) == Share.parse(share)

    play(story)


def test_what_joins_a_roster_while_it_is_written_is_written_next(tmp_path: Path) -> None:
    """A broker that is killed must not take a holder's memory for foreign because it joined at a busy moment."""
    path = tmp_path / "roster.json"
    roster, parent = Roster(path), identify(os.getppid())
    assert parent is not None
    roster.put("old", [parent])
    before = roster.roots()
    roster.put("new", [myself()])
    roster.write(before)
    roster.write(roster.roots())
    assert Roster(path).roots() == {parent: "old", myself(): "new"}


def test_a_roster_that_could_not_be_written_is_written_again(tmp_path: Path) -> None:
    """A full disk costs the broker's memory of its holders only for as long as it is full."""
    path = tmp_path / "away" / "roster.json"
    roster = Roster(path)
    roster.put("s", [myself()])
    with pytest.raises(OSError, match="away"):
        roster.write(roster.roots())
    path.parent.mkdir()
    roster.write(roster.roots())
    assert Roster(path).roots() == {Identity(myself().pid, myself().start): "s"}
