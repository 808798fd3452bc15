"""Holders that lie: about leases that are over, about their memory, about their processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from jupyter_gpushare.broker import wire
from tests.broker.service.bench import JOB, SESSION, Bench, until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Play = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]

WHOLE = msgspec.structs.replace(SESSION, share="1")


def test_the_token_of_a_lease_that_is_over_brings_nothing_back(play: Play) -> None:
    """Whoever kept the token of an ended lease waits in line as everybody does, whatever is on the device by then."""

    async def story(bench: Bench) -> None:
        program = bench.program()
        raw = await bench.raw()
        welcome = await raw.greet(WHOLE, program.pid)
        await raw.say(wire.DidMessage("running", welcome.lease.epoch))
        lease = await raw.until_status("running")
        await raw.say(wire.WantMessage("ended"))
        await raw.say(wire.DidMessage("released", lease.epoch))
        await until(lambda: bench.lease(lease.id) is None)
        other = await bench.running(msgspec.structs.replace(WHOLE, key="other"))
        program.run("buffer = cuda.allocate(1 << 30)")
        for is_resident, status in ((True, "running"), (False, "parked")):
            old = msgspec.structs.replace(lease, status=status)
            again = await bench.raw()
            claim = msgspec.structs.replace(JOB, key=status)
            back = await again.greet(
                claim, program.pid, lease=old, epoch=9, is_resident=is_resident, token=welcome.token
            )
            assert back.lease.id != lease.id
            assert back.lease.status == "queued"
        assert other.lease is not None
        assert bench.lease(other.lease.id).status == "running"

    play(story)


@pytest.mark.parametrize("lie", [{"host_memory": -(1 << 50)}, {"host_memory": 1 << 70}, {"epoch": -1}])
def test_a_memory_that_cannot_be_is_refused_and_disturbs_nobody(play: Play, lie: dict[str, int]) -> None:
    """A holder that remembers nonsense is refused alone: the ledger never sees it, nobody else is cut off."""

    async def story(bench: Bench) -> None:
        other = await bench.running(msgspec.structs.replace(SESSION, key="other"))
        raw = await bench.raw()
        welcome = await raw.greet(SESSION)
        await raw.say(wire.DidMessage("running", welcome.lease.epoch))
        lease = await raw.until_status("running")
        liar = await bench.raw()
        told = msgspec.structs.replace(lease, status="parked", target="parked", **lie)
        await liar.say(wire.HelloMessage(SESSION, [], told, lease.epoch, token=welcome.token))
        said = await liar.hear()
        assert isinstance(said, wire.RefusedMessage)
        assert said.error.code == "BAD_REQUEST"
        assert other.connected
        assert bench.lease(lease.id).status == "running"
        assert not bench.lease(lease.id).host_memory.bytes

    play(story)


def test_who_names_processes_without_end_is_cut_off_too(play: Play) -> None:
    """Each named process is looked up: long lists, again and again, keep nobody else waiting."""

    async def story(bench: Bench) -> None:
        raw = await bench.raw()
        many = [wire.ProcessModel(1_000_000 + number, 1) for number in range(4096)]
        await raw.say(wire.HelloMessage(SESSION, many))
        assert isinstance(await raw.hear(), wire.WelcomeMessage)
        for _ in range(20):
            await raw.say(wire.ProcessesMessage(many))
        said = await raw.until(lambda each: isinstance(each, wire.RefusedMessage))
        assert said.error.code == "FLOOD"

    play(story)
