"""Holders that cannot be heard for a while, and what the broker may conclude from that."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec

from jupyter_gpushare.broker import wire
from jupyter_gpushare.broker.admin_wire import ReclaimRequest
from jupyter_gpushare.broker.clock import VirtualClock
from jupyter_gpushare.broker.roster import Roster
from jupyter_gpushare.devices.simulated.source import SimulatedSource
from tests.broker.service.bench import JOB, SESSION, Bench, never, until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from jupyter_gpushare.devices.device import DeviceUse

    Play = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]

WHOLE = msgspec.structs.replace(SESSION, share="1")
_GRACE_S = 30
_NOBODY = 0


class SlowToStart(SimulatedSource):
    """Devices of which the first look takes a minute."""

    clock: VirtualClock
    is_first = True

    def read(self) -> Sequence[DeviceUse]:
        """What is used now."""
        if self.is_first:
            self.is_first = False
            self.clock.advance(60)
        return super().read()


class Slow(SimulatedSource):
    """Devices of which every look takes longer than all else."""

    def read(self) -> Sequence[DeviceUse]:
        """What is used now."""
        time.sleep(0.3)
        return super().read()


def test_whose_a_process_is_is_kept_before_anything_is_promised(bench: Bench, play: Play) -> None:
    """A broker killed right after it gave a device away must not take what is there then for a stranger's.

    Else the next one finds the device smaller than what it is promised to.
    """
    bench.options["source"] = Slow(bench.machine.path, bench.environ)

    async def story(bench: Bench) -> None:
        lease = await bench.hold(WHOLE, bench.program().pid).granted()
        assert Roster(bench.settings.runtime / "roster.json").has(lease.id)

    play(story)


def test_who_was_told_to_start_may_still_be_about_to(bench: Bench, play: Play) -> None:
    """Behind a partition an empty device is not its last word before it has to ask again; its end is at any time."""
    clock = bench.options["clock"] = VirtualClock()

    async def story(bench: Bench) -> None:
        program = bench.program()
        session = bench.hold(WHOLE, program.pid)
        key = (await session.granted()).id
        await session.close()
        await until(lambda: bench.broker.holders.away)
        clock.advance(_GRACE_S + 1)
        await until(lambda: bench.lease(key).status == "missing")
        await never(lambda: bench.lease(key) is None, 2.5)
        program.kill()
        await until(lambda: key not in bench.broker.books.leases)

    play(story)


def test_nobody_is_missing_before_anybody_can_be_heard(bench: Bench, play: Play) -> None:
    """A broker that takes long to begin gives every holder its whole grace from when it listens."""
    clock = bench.options["clock"] = VirtualClock()

    async def story(bench: Bench) -> None:
        program = bench.program()
        program.run("buffer = cuda.allocate(1 << 30)")
        session = await bench.running(WHOLE, program.pid)
        assert session.lease is not None
        key = session.lease.id
        await session.close()
        await bench.stop()
        source = bench.options["source"] = SlowToStart(bench.machine.path, bench.environ)
        source.clock = clock
        await bench.start()
        assert not source.is_first
        await never(lambda: bench.lease(key).status == "missing", 1.5)
        clock.advance(_GRACE_S + 1)
        await until(lambda: bench.lease(key).status == "missing")

    play(story)


async def _vanishes_while_it_parks(bench: Bench, clock: VirtualClock, pid: int) -> str:
    """A job with the process *pid* is asked to park, leaves its device and is not heard of again; its lease."""
    job = await bench.running(msgspec.structs.replace(JOB, is_parkable=True), pid)
    assert job.lease is not None
    key: str = job.lease.id
    await bench.client.request("POST", "admin/reclaim", ReclaimRequest(key), type=wire.LeaseModel)
    await until(lambda: bench.lease(key).status == "parking")
    assert bench.lease(key).host_memory
    await job.close()
    await until(lambda: bench.broker.holders.away)
    clock.advance(_GRACE_S + 1)
    return key


def test_a_parked_job_that_nobody_can_see_keeps_its_place(bench: Bench, play: Play) -> None:
    """In a container its processes are hidden: it may live, so that it keeps what a session would keep."""
    clock = bench.options["clock"] = VirtualClock()

    async def story(bench: Bench) -> None:
        key = await _vanishes_while_it_parks(bench, clock, _NOBODY)
        await until(lambda: bench.lease(key).was == "parked")
        clock.advance(_GRACE_S + 1)
        await never(lambda: bench.lease(key) is None, 1.5)
        assert bench.lease(key).host_memory
        await bench.client.request("DELETE", f"leases/{key}", type=wire.LeaseModel)
        await until(lambda: key not in bench.broker.books.leases)
        assert not any(each.booked for each in bench.broker.books.host_books.values())

    play(story)


def test_a_parked_job_of_before_the_machine_started_ends(bench: Bench, play: Play) -> None:
    """What it had was in this machine's memory; there is no process of which the end could be seen."""
    clock = bench.options["clock"] = VirtualClock()

    async def story(bench: Bench) -> None:
        key = await _vanishes_while_it_parks(bench, clock, _NOBODY)
        await until(lambda: bench.lease(key).was == "parked")
        await bench.stop()
        clock.advance(time.clock_gettime(time.CLOCK_BOOTTIME))
        await bench.start()
        await until(lambda: key not in bench.broker.books.leases)

    play(story)


def test_a_parked_job_keeps_its_place_for_as_long_as_a_process_of_it_lives(bench: Bench, play: Play) -> None:
    """What it has is in that process, however long its wire is cut."""
    clock = bench.options["clock"] = VirtualClock()

    async def story(bench: Bench) -> None:
        program = bench.program()
        key = await _vanishes_while_it_parks(bench, clock, program.pid)
        await until(lambda: bench.lease(key).was == "parked")
        clock.advance(_GRACE_S + 1)
        await never(lambda: bench.lease(key) is None, 1.5)
        assert bench.lease(key).host_memory
        program.kill()
        await until(lambda: key not in bench.broker.books.leases)

    play(story)
