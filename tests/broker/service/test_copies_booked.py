"""What a parked copy is booked with by a real broker that looks at the devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from tests.broker.service.bench import GIB, JOB, SESSION, Bench, until

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    Play = Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]

WHOLE = msgspec.structs.replace(SESSION, share="1")
PARKABLE = msgspec.structs.replace(JOB, is_parkable=True)


def test_a_job_is_booked_with_what_the_devices_show(play: Play) -> None:
    """A small job that has a whole device on loan takes little of the host's memory when it is called back."""

    async def story(bench: Bench) -> None:
        session = await bench.parked(WHOLE)
        program = bench.program()
        job = await bench.running(PARKABLE, program.pid)
        assert job.lease is not None
        key = job.lease.id
        program.run("buffer = cuda.allocate(512 << 20)")
        await until(lambda: bench.lease(key).uses)
        session.want("running")
        lease = await job.until(lambda lease: lease.status == "parking")
        assert GIB // 2 <= lease.host_memory <= 2 * GIB

    play(story)
