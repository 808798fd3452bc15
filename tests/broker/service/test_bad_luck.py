"""What must survive: lost connections, lies, floods and killed brokers."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from jupyter_gpushare.broker import wire
from jupyter_gpushare.broker.audit_wire import AuditAnswer
from jupyter_gpushare.broker.client import BrokerError, Endpoint
from jupyter_gpushare.broker.clock import SteadyClock, VirtualClock
from tests.broker.service.bench import JOB, SESSION, Bench, never, until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    Play = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]

WHOLE = msgspec.structs.replace(SESSION, share="1")


@pytest.fixture(name="sleeper")
def _sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that does nothing."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.wait()
    assert process.stdin
    process.stdin.close()


@pytest.mark.parametrize(
    "nonsense",
    [
        "",
        "{",
        "null",
        "[]",
        '{"type":"hello"}',
        '{"type":"kill","lease":"x"}',
        '{"type":"did","what":"running","epoch":NaN}',
        '{"type":"did","what":"running","epoch":-1}',
        '{"type":"usage","memory":1e400}',
        '{"type":"hello","claim":{"key":"k"},"processes":[{"pid":-1,"started":0}]}',
        "[" * 100_000,
        b"\xff\xfe\x00",
    ],
)
def test_nonsense_is_refused_and_changes_nothing(play: Play, nonsense: str | bytes) -> None:
    """What cannot be read, or comes before hello, is refused for good; the broker goes on for everybody else."""

    async def story(bench: Bench) -> None:
        raw = await bench.raw()
        await raw.say(nonsense)
        said = await raw.hear()
        assert isinstance(said, wire.RefusedMessage)
        assert said.error.code == "BAD_REQUEST"
        assert await raw.hear() is None
        assert not bench.broker.books.leases
        await bench.running()

    play(story)


def test_a_message_without_end_is_cut_off(play: Play) -> None:
    """More than a quarter of a megabyte is read from nobody."""

    async def story(bench: Bench) -> None:
        raw = await bench.raw()
        await raw.say("x" * (300 << 10))
        assert await raw.hear() is None
        await bench.running()

    play(story)


def test_who_floods_is_cut_off_and_keeps_its_lease(play: Play) -> None:
    """A holder that talks without end loses its connection, not its share."""

    async def story(bench: Bench) -> None:
        raw = await bench.raw()
        welcome = await raw.greet()
        for _ in range(1000):
            await raw.say(wire.UsageMessage(memory=1))
        said = await raw.until(lambda each: isinstance(each, wire.RefusedMessage))
        assert said.error.code == "FLOOD"
        assert bench.lease(welcome.lease.id).status == "granted"

    play(story)


def test_who_says_no_hello_is_let_go(bench: Bench, play: Play) -> None:
    """A connection without a hello is not kept."""
    bench.settings = replace(bench.settings, hello_s=0.1)

    async def story(bench: Bench) -> None:
        raw = await bench.raw()
        said = await raw.hear()
        assert said.error.code == "NO_HELLO"
        assert await raw.hear() is None

    play(story)


def test_the_same_key_is_the_same_lease_and_the_newest_connection_counts(play: Play) -> None:
    """A holder that connects again finds its lease; the older connection is told, and closed."""

    async def story(bench: Bench) -> None:
        old, new = await bench.raw(), await bench.raw()
        first = await old.greet()
        second = await new.greet(SESSION, lease=first.lease, epoch=first.lease.epoch, token=first.token)
        assert second.lease.id == first.lease.id
        said = await old.until(lambda each: isinstance(each, wire.RefusedMessage))
        assert said.error.code == "REPLACED"
        assert said.is_final
        assert await old.hear() is None
        await new.say(wire.DidMessage("running", second.lease.epoch))
        await new.until_status("running")
        assert len(bench.broker.books.leases) == 1

    play(story)


def test_a_key_in_use_for_another_project_or_kind_is_refused(play: Play) -> None:
    """One key cannot mean two things."""

    async def story(bench: Bench) -> None:
        await bench.running()
        holding = bench.hold(msgspec.structs.replace(JOB, key=SESSION.key))
        with pytest.raises(BrokerError) as caught:
            await holding.granted()
        assert caught.value.code == "KEY_IN_USE"

    play(story)


def test_a_stale_epoch_starts_nothing(play: Play) -> None:
    """A report with an epoch that is over, repeated or late, moves no lease."""

    async def story(bench: Bench) -> None:
        session = await bench.parked(WHOLE)
        assert session.lease is not None
        key, epoch = session.lease.id, session.lease.epoch
        session.want("running")
        await session.until(lambda lease: lease.status == "resuming")
        for late in (epoch, 0, epoch, 10**6):
            session.did("running", late)
        session.did("released", epoch)
        await never(lambda: bench.lease(key).status != "resuming")
        session.did("running", epoch + 1)
        session.did("running", epoch + 1)
        await session.until(lambda lease: lease.status == "running")

    play(story)


def test_a_holder_whose_processes_died_is_not_waited_for(play: Play, sleeper: subprocess.Popen[bytes]) -> None:
    """Its capacity is free as soon as the system says that all of its processes have ended."""

    async def story(bench: Bench) -> None:
        session = await bench.running(WHOLE, sleeper.pid)
        assert session.lease is not None
        key = session.lease.id
        sleeper.kill()
        sleeper.wait()
        await session.close()
        await until(lambda: key not in bench.broker.books.leases, 20)
        lines = await bench.client.request("GET", f"audit?lease={key}", type=AuditAnswer)
        assert lines.entries[-1].reason == "HOLDER_GONE"

    play(story)


def test_a_vanished_holder_that_computes_keeps_its_capacity(bench: Bench, play: Play) -> None:
    """Missing: quarantined until the device shows it free; and back in time it goes on as if nothing had been."""
    clock = VirtualClock()
    bench.options["clock"] = clock

    async def story(bench: Bench) -> None:
        program = bench.program()
        program.run("buffer = cuda.allocate(1 << 30)")
        session = await bench.running(WHOLE, program.pid)
        assert session.lease is not None
        key = session.lease.id
        await session.close()
        await until(lambda: bench.broker.holders.away)
        clock.advance(31)
        await until(lambda: bench.lease(key).status == "missing")
        waiting = bench.hold(JOB)
        await waiting.until(lambda lease: lease.status == "queued")
        await never(lambda: bench.lease(key) is None)
        again = bench.hold(WHOLE, program.pid, is_resident=lambda: True)
        await again.until(lambda lease: lease.id == key)
        await until(lambda: bench.lease(key).status == "running")
        await again.close()
        await until(lambda: bench.broker.holders.away)
        clock.advance(31)
        await until(lambda: bench.lease(key).status == "missing")
        program.run("buffer.free(); cuda.device_reset()")
        await until(lambda: key not in bench.broker.books.leases)
        await waiting.granted()

    play(story)


def test_a_parked_session_whose_connection_is_lost_keeps_its_promise(bench: Bench, play: Play) -> None:
    """Nothing of it is on the device, as it should be: that is no reason to end it while its processes live."""
    clock = VirtualClock()
    bench.options["clock"] = clock

    async def story(bench: Bench) -> None:
        session = await bench.parked(WHOLE)
        assert session.lease is not None
        key = session.lease.id
        await session.close()
        await until(lambda: bench.broker.holders.away)
        clock.advance(3600)
        await until(lambda: bench.lease(key).status == "missing")
        await never(lambda: bench.lease(key) is None)
        await bench.hold(WHOLE, is_resident=lambda: False).until(lambda lease: lease.status == "parked")

    play(story)


def test_a_broker_that_is_killed_finds_everything_again(play: Play) -> None:
    """Started again on the same ledger: same leases, same epochs, and holders that come back by themselves."""

    async def story(bench: Bench) -> None:
        session = await bench.parked(WHOLE)
        job = await bench.running(JOB)
        assert session.lease is not None
        assert job.lease is not None
        before = {each.id: each.epoch for each in (session.lease, job.lease)}
        await bench.stop()
        await until(lambda: not session.connected and not job.connected)
        await bench.start()
        await until(lambda: session.connected and job.connected)
        assert {key: lease.epoch for key, lease in bench.broker.books.leases.items()} == before
        session.want("running")
        called = await job.until(lambda lease: lease.status == "yielding")
        job.did("released", called.epoch)
        await session.until(lambda lease: lease.status == "resuming")

    play(story)


def test_after_a_restart_a_lease_memory_is_not_foreign(play: Play) -> None:
    """Which processes are whose outlives the broker: a holder's memory is not subtracted a second time."""

    async def story(bench: Bench) -> None:
        program = bench.program()
        program.run("buffer = cuda.allocate(1 << 30)")
        session = await bench.running(WHOLE, program.pid)
        await until(lambda: bench.broker.evidence.last and bench.broker.evidence.last.held)
        await bench.stop()
        await session.close()
        await bench.start()
        await bench.broker.evidence.look()
        await bench.client.request("GET", "devices", type=wire.DevicesAnswer)
        assert not bench.broker.books.devices[bench.device].foreign

    play(story)


def test_clock_jumps_change_nothing() -> None:
    """The clock of the rules follows the monotonic one: the wall clock set to next year ends nobody's grace."""
    wall, steady = [1000.0], [50.0]
    clock = SteadyClock(lambda: wall[0], lambda: steady[0])
    wall[0], steady[0] = 4e9, 51.0
    assert clock.now() == 1001.0


def test_a_signal_stops_a_broker_in_the_foreground(bench: Bench) -> None:
    """`jupyter gpushare broker` says where it listens, and ends cleanly on SIGTERM."""
    command = [sys.executable, "-m", "jupyter_gpushare.app", "broker", "--ledger", "memory"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=bench.environ)
    try:
        assert process.stdout
        assert f"GPUSHARE_BROKER=unix:{bench.settings.socket}" in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr]  # it is a pipe
    bench.machine.close()


def test_a_relative_socket_is_told_as_an_address_that_works(bench: Bench) -> None:
    """`--socket own/s` listens below the current directory, and what it prints can be put into GPUSHARE_BROKER."""
    (bench.directory / "own").mkdir(mode=0o700)
    command = [sys.executable, "-m", "jupyter_gpushare.app", "broker", "--ledger", "memory", "--socket", "own/s"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=bench.environ, cwd=bench.directory)
    try:
        assert process.stdout
        address = process.stdout.readline().strip().partition("GPUSHARE_BROKER=")[2]
        endpoint = Endpoint.parse(address)
        assert endpoint.socket == str(bench.directory / "own" / "s")
        assert endpoint.listens()
    finally:
        process.terminate()
        process.wait(60)
        process.stdout.close()  # type: ignore[union-attr]  # it is a pipe
    bench.machine.close()
