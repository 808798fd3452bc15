"""A holder that was stopped for a while believes nothing of what waited for it meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.broker.client_touch import Touch
from tests.broker.client.conftest import until
from tests.broker.client.scripted_broker import granted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from tests.broker.client.conftest import Bench

    Play = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]

_APART_S = 0.5
_HOLDER = f"""
import asyncio, sys
from jupyter_gpushare.broker.client import BrokerClient, Endpoint, Pauses
from jupyter_gpushare.broker.wire import ClaimModel
claim = ClaimModel(key="k", kind="training", project="team-a", share="0.5", name="train")

async def hold():
    client = BrokerClient(Endpoint.at_socket(sys.argv[1]), 5.0, Pauses(0.01, 0.05, 5.0, apart_s={_APART_S}))
    holding = client.hold(claim, [], on_lease=lambda lease: print(lease.status, lease.epoch, flush=True))
    await holding.over()

asyncio.run(hold())
"""


@asynccontextmanager
async def holder(bench: Bench) -> AsyncIterator[tuple[asyncio.subprocess.Process, list[str]]]:
    """A holder in a process of its own, and the leases that it acted on."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _HOLDER, str(bench.broker.path), stdout=asyncio.subprocess.PIPE
    )
    told: list[str] = []

    async def read() -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            told.append(line.decode().strip())

    reading = asyncio.create_task(read())
    try:
        yield process, told
    finally:
        process.kill()
        await process.wait()
        await reading


def test_a_grant_that_waited_while_the_holder_was_stopped_is_asked_for_again(play: Play) -> None:
    """After Ctrl-Z and fg it starts nothing on what was given to it meanwhile, and to somebody else since."""

    async def story(bench: Bench) -> None:
        async with holder(bench) as (process, told):
            await until(lambda: told == ["queued 0"])
            process.send_signal(signal.SIGSTOP)
            # A signal takes its time, in which it would hear of the grant.
            await asyncio.to_thread(os.waitpid, process.pid, os.WUNTRACED)
            bench.broker.tell(**granted())
            began = time.monotonic()
            await until(lambda: time.monotonic() - began > 2 * _APART_S)
            bench.broker.lease = bench.broker.tell(status="queued", epoch=2, grants=[])
            process.send_signal(signal.SIGCONT)
            await until(lambda: len(bench.broker.hellos) == 2)
            await until(lambda: "queued 2" in told)
            assert "granted 1" not in told

    play(story)


def test_who_is_not_stopped_is_told_at_once(play: Play) -> None:
    """A quiet connection is no lost one: nobody asks again who heard nothing for a while because nothing happened."""

    async def story(bench: Bench) -> None:
        async with holder(bench) as (_, told):
            await until(lambda: told == ["queued 0"])
            began = time.monotonic()
            await until(lambda: time.monotonic() - began > 2 * _APART_S)
            bench.broker.tell(**granted())
            await until(lambda: "granted 1" in told)
            assert len(bench.broker.hellos) == 1

    play(story)


@pytest.mark.parametrize(("stopped_s", "is_lost"), [(9.0, False), (11.0, True)])
def test_a_break_that_is_too_long_is_noticed_before_anything_runs(stopped_s: float, *, is_lost: bool) -> None:
    """Whatever the loop does first after it, and until it has asked again."""
    now = 100.0
    touch = Touch(10.0, lambda: now)
    now += stopped_s
    assert touch.is_lost is is_lost
    touch.renew()
    assert not touch.is_lost
