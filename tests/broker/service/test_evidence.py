"""What the devices show, against what anybody says."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec

from jupyter_gpushare.broker import wire
from jupyter_gpushare.broker.sighting import Look
from jupyter_gpushare.devices.device import DriverState
from jupyter_gpushare.devices.simulated.faults import DriverLost, FailsAt, HostPids, Lag
from jupyter_gpushare.devices.simulated.source import SimulatedSource
from jupyter_gpushare.parking.simulated import SimulatedCheckpoint
from tests.broker.service.bench import GIB, JOB, SESSION, Bench, never, until
from tests.devices.simulated.conftest import park, who

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from jupyter_gpushare.devices.device import Device

    Play = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]

WHOLE = msgspec.structs.replace(SESSION, share="1")


class ShrinkingSource(SimulatedSource):
    """A machine that lost its devices at a reboot, once *is_gone*."""

    is_gone = False

    def devices(self) -> Sequence[Device]:
        """None any more."""
        return () if self.is_gone else super().devices()


def test_programs_of_no_lease_are_subtracted_and_come_back(play: Play) -> None:
    """Foreign memory makes a device smaller for everybody, until it is free again."""

    async def story(bench: Bench) -> None:
        stranger = bench.program()
        stranger.run("buffer = cuda.allocate(1 << 30)")
        await bench.broker.evidence.look()
        foreign = await until(lambda: bench.broker.books.devices[bench.device].foreign)
        assert 0.25 < foreign.gpus < 0.6
        waiting = bench.hold(WHOLE)
        lease = await waiting.until(lambda lease: lease.reason is not None)
        assert lease.status == "queued"
        stranger.run("buffer.free(); cuda.device_reset()")
        await bench.broker.evidence.look()
        await waiting.granted()

    play(story)


def test_a_holders_own_memory_is_not_foreign(play: Play) -> None:
    """What descends from a registered process belongs to its lease, whoever started it there."""

    async def story(bench: Bench) -> None:
        program = bench.program()
        session = await bench.running(WHOLE, program.pid)
        program.run("import subprocess, sys")
        program.run(
            "child = subprocess.Popen([sys.executable, '-c', 'from jupyter_gpushare.devices.simulated import cuda; "
            "b = cuda.allocate(1 << 30); print(1, flush=True); input()'], stdin=-1, stdout=-1); child.stdout.readline()"
        )
        seen = await bench.broker.evidence.look()
        assert session.lease is not None
        assert (seen.held[session.lease.id][bench.device] or 0) > GIB
        assert not seen.foreign[bench.device]
        program.run("child.kill(); child.wait()")

    play(story)


def test_a_checkpointed_process_has_released(play: Play) -> None:
    """Parked means that the device shows nothing of it, while the process lives on."""

    async def story(bench: Bench) -> None:
        program = bench.program()
        program.run("buffer = cuda.allocate(1 << 30)")
        session = await bench.running(WHOLE, program.pid)
        session.want("parked", GIB)
        lease = await session.until(lambda lease: lease.status == "parking")
        driver = SimulatedCheckpoint(bench.machine.path)
        park(driver, who(program))
        session.did("released", lease.epoch)
        await session.until(lambda lease: lease.status == "parked")

    play(story)


def test_a_trespasser_on_a_lent_device_is_reported_and_nothing_new_comes(play: Play) -> None:
    """A process of no lease that opens a context on a lent device: told within seconds, and the borrower is untouched."""

    async def story(bench: Bench) -> None:
        await bench.parked(WHOLE)
        job = await bench.running(JOB)
        await bench.broker.evidence.look()
        stranger = bench.program()
        stranger.run("buffer = cuda.allocate(1 << 20)")
        await until(lambda: bench.broker.books.devices[bench.device].trespassed, 20)
        answer = await bench.client.request("GET", "devices", type=wire.DevicesAnswer)
        assert answer.devices[0].trespassed
        assert job.lease is not None
        assert job.lease.status == "running"
        stranger.kill()
        await until(lambda: not bench.broker.books.devices[bench.device].trespassed, 20)

    play(story)


def test_what_came_back_alone_is_not_lent_before_its_holder_says_so(bench: Bench, play: Play) -> None:
    """A session that resumed while there was no broker has its device, whatever the books of before say."""
    waiting = msgspec.structs.replace(JOB, share="1")

    async def story(bench: Bench) -> None:
        program = bench.program()
        holding = await bench.parked(WHOLE, program.pid)
        key = holding.lease.id if holding.lease else ""
        await holding.close()
        await bench.stop()
        program.run("buffer = cuda.allocate(1 << 30)")
        await bench.start()
        job = bench.hold(waiting)
        await until(lambda: job.lease, 20)
        assert bench.lease(key).status == "parked"
        await never(lambda: job.lease is not None and job.lease.status != "queued")
        program.run("buffer.free(); cuda.device_reset()")
        await job.granted()

    play(story)


def test_a_list_that_lags_attests_nothing_too_early(play: Play) -> None:
    """A program that has just come is not on a lagging list yet: its absence there proves nothing."""

    async def story(bench: Bench) -> None:
        bench.machine.inject(Lag(0.5))
        program = bench.program()
        session = await bench.running(WHOLE, program.pid)
        await bench.broker.evidence.look()
        program.run("buffer = cuda.allocate(1 << 30)")
        session.want("parked", GIB)
        lease = await session.until(lambda lease: lease.status == "parking")
        session.did("released", lease.epoch)
        await never(lambda: bench.lease(lease.id).status == "parked", 3)

    play(story)


def test_process_ids_of_another_namespace_are_not_believed(bench: Bench) -> None:
    """In a container without host pids the list shows numbers that mean nothing here: then no list proves anything."""
    program = bench.program()
    program.run("buffer = cuda.allocate(1 << 30)")
    roots = {who(program): "lease"}
    source = SimulatedSource(bench.machine.path, bench.environ)
    look = Look(source, time.monotonic, host_pids=False)
    bench.machine.inject(HostPids())
    assert not look.take(roots).readable
    bench.machine.clear()
    seen = look.take(roots)
    assert seen.readable == {bench.device}
    assert "lease" in seen.held
    look.close()
    program.close()
    bench.machine.close()


def test_a_driver_that_is_lost_frees_nothing_and_loses_nothing(play: Play) -> None:
    """While the driver is away what was known holds, and a release is believed when it is back."""

    async def story(bench: Bench) -> None:
        session = await bench.running(WHOLE)
        bench.machine.inject(DriverLost("it restarts"))
        seen = await bench.broker.evidence.look()
        assert seen.driver.state is DriverState.LOST
        session.want("parked", GIB)
        lease = await session.until(lambda lease: lease.status == "parking")
        session.did("released", lease.epoch)
        await never(lambda: bench.lease(lease.id).status == "parked")
        assert bench.broker.books.devices[bench.device].condition == "ready"
        bench.machine.clear()
        session.did("released", lease.epoch)
        await session.until(lambda lease: lease.status == "parked")

    play(story)


def test_a_list_that_cannot_be_read_proves_nothing(play: Play) -> None:
    """Without a list of processes only the end of all of a holder's processes frees its capacity."""

    async def story(bench: Bench) -> None:
        program = bench.program()
        session = await bench.running(WHOLE, program.pid)
        bench.machine.inject(FailsAt("processes"))
        session.want("parked", GIB)
        lease = await session.until(lambda lease: lease.status == "parking")
        session.did("released", lease.epoch)
        await never(lambda: bench.lease(lease.id).status == "parked", 2)
        program.kill()
        await until(lambda: bench.lease(lease.id) is None or bench.lease(lease.id).status == "parked", 20)

    play(story)


def test_devices_that_are_gone_after_a_reboot_are_gone_in_the_books(bench: Bench, play: Play) -> None:
    """What is not there any more counts as no capacity, and who had it is told so."""
    source = ShrinkingSource(bench.machine.path, bench.environ)
    bench.options["source"] = source

    async def story(bench: Bench) -> None:
        await bench.running(WHOLE)
        source.is_gone = True
        await bench.broker.evidence.look()
        await until(lambda: bench.broker.books.devices[bench.device].condition == "gone")
        waiting = bench.hold(JOB)
        assert (await waiting.until(lambda lease: lease.reason is not None)).status == "queued"

    play(story)


def test_no_look_at_the_devices_while_nothing_is_held(play: Play) -> None:
    """An idle broker asks the driver nothing."""

    async def story(bench: Bench) -> None:
        settled = await bench.broker.evidence.look()
        evidence = bench.broker.evidence
        await never(lambda: evidence.last is not None and evidence.last.began > settled.began + 1, 3)

    play(story)
