"""What only a holder can know: what it uses, what it ends itself, and what it had to do while no broker was there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from jupyter_gpushare.broker import wire
from jupyter_gpushare.broker.admin_wire import ReclaimRequest
from jupyter_gpushare.broker.audit_wire import AuditAnswer, AuditEntryModel
from jupyter_gpushare.broker.client import BrokerError
from jupyter_gpushare.rules.loss import Loss
from tests.broker.service.bench import GIB, JOB, SESSION, Bench, until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    Play = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]

WHOLE = msgspec.structs.replace(SESSION, share="1")
LOSS = Loss.JOB_STOPPED_AFTER_GRACE.value


@pytest.mark.parametrize(("reported", "booked"), [(None, 1 << 30), (2 << 30, 2 << 30), (1 << 20, 1 << 30)])
def test_a_reclaim_books_what_is_used_and_not_all_that_may_be(play: Play, reported: int | None, booked: int) -> None:
    """Host memory is scarce: as much as the holder reported or the devices show, whichever is more."""

    async def story(bench: Bench) -> None:
        program = bench.program()
        program.run("buffer = cuda.allocate(1 << 30)")
        session = await bench.running(WHOLE, program.pid)
        assert session.lease is not None
        key = session.lease.id
        if reported is not None:
            session.report(reported, None)
            await until(lambda: key in bench.broker.desk.usage)
        await bench.broker.evidence.look()
        await bench.client.request("POST", "admin/reclaim", ReclaimRequest(key), type=wire.LeaseModel)
        context = 600 << 20
        assert booked <= bench.lease(key).host_memory.bytes < booked + context

    play(story)


def test_a_loss_is_in_the_audit_and_counted(play: Play) -> None:
    """A job that is ended after its grace is ended by us: who looks for it finds it, also where the broker was away."""

    async def story(bench: Bench) -> None:
        job = await bench.running(JOB)
        job.announce(LOSS, "4711 4712")
        (line,) = await _losses(bench, 1)
        assert (line.by, line.details) == ("holder", {"loss": LOSS, "processes": "4711 4712"})
        assert 'gpushare_audit_lines_total{verb="loss"} 1.0' in (await bench.client.fetch("GET", "metrics")).decode()
        await bench.stop()
        await until(lambda: not job.connected)
        job.announce(LOSS, "4713")
        await bench.start()
        assert [line.details["processes"] for line in await _losses(bench, 2)] == ["4711 4712", "4713"]

    play(story)


async def _losses(bench: Bench, count: int) -> list[AuditEntryModel]:
    found: list[AuditEntryModel] = []
    while len(found) < count:
        answer = await bench.client.request("GET", "audit", type=AuditAnswer)
        found = [line for line in answer.entries if line.verb == "loss"]
    return found


def test_a_loss_that_there_is_not_is_refused(play: Play) -> None:
    """Nobody writes words of its own into the audit."""

    async def story(bench: Bench) -> None:
        raw = await bench.raw()
        await raw.greet()
        await raw.say(wire.LossMessage("made_up"))
        refused = await raw.until(lambda said: isinstance(said, wire.RefusedMessage))
        assert "made_up" in refused.error.text

    play(story)


def test_an_unknown_project_is_refused_with_those_there_are(play: Play) -> None:
    """Without a configuration there is one project, and a claim for another one is told its name."""

    async def story(bench: Bench) -> None:
        with pytest.raises(BrokerError, match="no project team-a; you may ask for: default") as refused:
            await bench.hold(msgspec.structs.replace(JOB, project="team-a")).granted()
        assert refused.value.code == "NO_SUCH_PROJECT"

    play(story)


def test_a_job_that_left_for_its_lender_without_a_broker_is_where_it_says(play: Play) -> None:
    """The broker believed it on the loan: it is parked, with its memory booked, and comes back with a new epoch."""

    async def story(bench: Bench) -> None:
        session = await bench.parked(WHOLE)
        job = await bench.running(msgspec.structs.replace(JOB, is_parkable=True))
        assert job.lease is not None
        before = job.lease
        await bench.stop()
        await until(lambda: not (job.connected or session.connected))
        job.did("released", before.epoch)
        job.acted_alone("parked", GIB)
        await bench.start()
        back = await job.until(lambda lease: lease.status == "resuming")
        assert (back.id, back.epoch, back.host_memory) == (before.id, before.epoch + 1, GIB)

    play(story)


def test_a_text_that_no_database_can_hold_cuts_nobody_off(bench: Bench, play: Play) -> None:
    """What one holder writes into the audit is written as it can be shown, and the others hear nothing of it."""

    async def story(bench: Bench) -> None:
        other = await bench.running(msgspec.structs.replace(SESSION, key="other", share="0.25"))
        raw = await bench.raw()
        welcome = await raw.greet(msgspec.structs.replace(SESSION, share="0.25"))
        await raw.say(wire.LossMessage("kernel_ended_by_owner", "a\0b"))
        (line,) = await _losses(bench, 1)
        assert (line.lease, line.details["processes"]) == (welcome.lease.id, "a\N{REPLACEMENT CHARACTER}b")
        assert other.connected

    play(story)
