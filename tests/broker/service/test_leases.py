"""The life of leases through a real broker: what holders get, lend, call back and lose."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import msgspec
import pytest

from jupyter_gpushare.broker import wire
from jupyter_gpushare.broker.client import BrokerError
from tests.broker.service.bench import GIB, JOB, SESSION, Bench, Raw, never, until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    Play = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]

WHOLE = msgspec.structs.replace(SESSION, share="1")


def test_an_idle_session_feeds_a_job_and_calls_its_share_back(play: Play) -> None:
    """The whole loop: parked, lent, called back, resumed with a newer epoch; the session shows who borrows."""

    async def story(bench: Bench) -> None:
        session = await bench.parked(WHOLE)
        before = session.lease.epoch if session.lease else 0
        job = await bench.running(JOB)
        assert job.lease is not None
        assert job.lease.lent == "1"
        lent = await session.until(lambda lease: bool(lease.lent_to))
        assert [(each.name, each.amount) for each in lent.lent_to] == [("train", "1")]
        session.want("running")
        yielding = await job.until(lambda lease: lease.status == "yielding")
        assert yielding.reason is not None
        assert yielding.reason.code == "CALLED_BACK"
        waiting = await session.until(lambda lease: lease.reason is not None)
        assert waiting.reason is not None
        assert waiting.reason.code == "WAITING_FOR_CALL_BACK"
        assert waiting.estimate_s is not None
        job.did("released", yielding.epoch)
        back = await session.until(lambda lease: lease.status == "resuming")
        assert back.epoch == before + 1

    play(story)


def test_a_lender_is_told_what_its_borrower_holds(play: Play) -> None:
    """The devices show whose memory it is, and the sidebar can tell training's from that of others."""

    async def story(bench: Bench) -> None:
        session = await bench.parked(WHOLE)
        program = bench.program()
        await bench.running(JOB, program.pid)
        await session.until(lambda lease: bool(lease.lent_to))
        program.run("buffer = cuda.allocate(1 << 30)")
        held = await session.until(lambda lease: bool(lease.lent_to) and (lease.lent_to[0].memory or 0) >= GIB)
        assert held.lent_to[0].memory is not None
        assert held.lent_to[0].memory < 2 * GIB
        program.run("buffer.free(); cuda.empty_cache()")
        await session.until(lambda lease: bool(lease.lent_to) and (lease.lent_to[0].memory or 0) < GIB)

    play(story)


def test_an_estimate_goes_on_while_nothing_happens(play: Play) -> None:
    """Who waits for one long save is told again how long, though nothing changes in the books meanwhile."""

    async def story(bench: Bench) -> None:
        session = await bench.parked(WHOLE)
        await bench.running(msgspec.structs.replace(JOB, grace_s=60.0))
        session.want("running")
        waiting = await session.until(lambda lease: lease.reason is not None and lease.estimate_s is not None)
        books, first = bench.broker.books, waiting.estimate_s or 0.0
        await session.until(lambda lease: lease.estimate_s is not None and lease.estimate_s < first - 1)
        assert bench.broker.books is books

    play(story)


def test_a_release_that_the_device_contradicts_frees_nothing(play: Play) -> None:
    """A holder that says released while a process of its is on the device keeps its capacity until that has left."""

    async def story(bench: Bench) -> None:
        program = bench.program()
        program.run("buffer = cuda.allocate(1 << 30)")
        session = await bench.running(WHOLE, program.pid)
        session.want("parked", GIB)
        lease = await session.until(lambda lease: lease.status == "parking")
        session.did("released", lease.epoch)
        await never(lambda: bench.lease(lease.id).status != "parking", 1.5)
        program.run("buffer.free(); cuda.device_reset()")
        session.did("released", lease.epoch)
        await session.until(lambda lease: lease.status == "parked")

    play(story)


def test_a_claim_that_can_never_be_served_is_refused_with_the_reason(play: Play) -> None:
    """A refusal is final, has its constant, and leaves nothing behind."""

    async def story(bench: Bench) -> None:
        holding = bench.hold(msgspec.structs.replace(SESSION, project="nobody"))
        with pytest.raises(BrokerError) as caught:
            await holding.granted()
        assert caught.value.code == "NO_SUCH_PROJECT"
        assert "nobody" in caught.value.text
        await until(lambda: not bench.broker.books.leases)

    play(story)


@pytest.mark.parametrize("share", ["-1", "NaN", "1e9", "0", "9" * 60, "0.5..0.2", "½", "2xbig", "\u0000"])
def test_a_share_that_is_none_is_refused_by_name(play: Play, share: str) -> None:
    """Negative, huge and nonsensical shares are refused for good before anything is decided."""

    async def story(bench: Bench) -> None:
        raw = await bench.raw()
        await raw.say(wire.HelloMessage(msgspec.structs.replace(SESSION, share=share), []))
        said = await raw.hear()
        assert isinstance(said, wire.RefusedMessage)
        assert said.is_final
        assert said.error.code == "BAD_REQUEST"
        assert await raw.hear() is None
        assert not bench.broker.books.leases

    play(story)


def test_a_share_changes_live_or_says_why_not(play: Play) -> None:
    """A smaller share is granted at once; one that no device has room for is refused and nothing changes."""

    async def story(bench: Bench) -> None:
        session = await bench.running()
        other = await bench.running(msgspec.structs.replace(SESSION, key="other"))
        lease = await asyncio.wait_for(session.want_share("0.25..0.5"), 60)
        assert lease.share == "0.25..0.5"
        assert lease.grants[0].amount == "0.25"
        with pytest.raises(BrokerError):
            await asyncio.wait_for(other.want_share("1"), 60)
        assert other.lease is not None
        assert other.lease.share == "0.5"
        with pytest.raises(BrokerError) as caught:
            await asyncio.wait_for(other.want_share("lots"), 60)
        assert caught.value.code == "BAD_REQUEST"

    play(story)


def test_who_waits_is_told_its_place_in_line(play: Play) -> None:
    """Places count from 1 and move up when somebody before leaves the line."""

    async def story(bench: Bench) -> None:
        await bench.running(msgspec.structs.replace(JOB, key="first"))
        second = bench.hold(msgspec.structs.replace(JOB, key="second"))
        await second.until(lambda lease: lease.place == 1)
        third = bench.hold(msgspec.structs.replace(JOB, key="third"))
        await third.until(lambda lease: lease.place == 2)
        await second.end()
        await third.until(lambda lease: lease.place == 1)

    play(story)


def test_a_job_that_finds_safe_points_becomes_parkable(play: Play) -> None:
    """What a job learns about itself after its claim decides how it is called back: it is parked instead of stopped."""

    async def story(bench: Bench) -> None:
        session = await bench.parked(WHOLE)
        job = await bench.running(JOB)
        job.set_processes([], is_parkable=True)
        assert job.lease is not None
        key = job.lease.id
        await until(lambda: bench.lease(key).is_parkable)
        session.want("running")
        called = await job.until(lambda lease: lease.status in ("parking", "yielding"))
        assert called.status == "parking"

    play(story)


def test_an_idle_report_reaches_the_rules_once(play: Play) -> None:
    """Since when a session computes nothing is kept, without a commit for every report."""

    async def story(bench: Bench) -> None:
        raw = await bench.raw()
        welcome = await raw.greet()
        await raw.say(wire.UsageMessage(memory=5, computed_s=1.0, idle_s=100.0))
        lease = await until(lambda: (found := bench.lease(welcome.lease.id)) and found.idle_since and found)
        for _ in range(5):
            await raw.say(wire.UsageMessage(idle_s=100.0))
        await raw.say(wire.UsageMessage(memory=6))
        await until(lambda: bench.lease(lease.id).idle_since is None)
        assert bench.broker.desk.usage[lease.id].memory == 6

    play(story)


def test_ended_by_its_holder_a_lease_leaves_the_books(play: Play) -> None:
    """Ended is for good; a connection to it is closed, and its processes are forgotten."""

    async def story(bench: Bench) -> None:
        session = await bench.running()
        assert session.lease is not None
        key = session.lease.id
        session.want("ended")
        lease = await session.until(lambda lease: lease.target == "ended")
        session.did("released", lease.epoch)
        await session.until(lambda lease: lease.status == "ended")
        await until(lambda: key not in bench.broker.books.leases)
        assert not bench.broker.desk.roster.has(key)

    play(story)


def test_reports_of_use_become_gpu_hours(play: Play) -> None:
    """What is held is added up and shown with the project, without a commit for each report."""

    async def story(bench: Bench) -> None:
        session = await bench.running()
        session.report(GIB, 0.5)
        await until(lambda: bench.broker.desk.usage)
        await bench.broker._hours.keep()
        answer = await bench.client.request("GET", "projects", type=wire.ProjectsAnswer)
        assert answer.projects[0].usage.held > 0
        assert answer.projects[0].sessions == "0.5"

    play(story)


def test_a_thousand_claims_at_once_are_all_answered(play: Play) -> None:
    """Nobody is lost in a crowd: each is granted or waits in line, and the books fit the device."""

    async def story(bench: Bench) -> None:
        claims = [
            msgspec.structs.replace(JOB, key=f"job-{number}", share="0.01", name=f"job {number}")
            for number in range(1000)
        ]

        async def join(claim: wire.ClaimModel) -> tuple[Raw, str]:
            raw = await bench.raw()  # who does not say hello soon is cut off, so nobody waits for the others
            return raw, (await raw.greet(claim)).lease.id

        joined = await asyncio.gather(*map(join, claims))
        assert len({lease for _, lease in joined}) == 1000
        await until(lambda: len(bench.broker.books.waiting) == 900)
        assert str(bench.broker.books.device_books[bench.device].held) == "1"
        for raw, _ in joined:
            raw.socket.close()

    play(story)


def test_our_own_pid_is_enough(play: Play) -> None:
    """A session names its processes by id and start; what does not exist, or started at another time, counts not."""

    async def story(bench: Bench) -> None:
        raw = await bench.raw()
        await raw.say(wire.HelloMessage(SESSION, [wire.ProcessModel(os.getpid(), 1), wire.ProcessModel(2**31 - 1, 1)]))
        welcome = await raw.hear()
        assert not bench.broker.desk.roster.has(welcome.lease.id)

    play(story)
