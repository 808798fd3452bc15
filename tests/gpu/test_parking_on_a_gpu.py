"""Park and resume on a device: contents, order, neighbours, frozen programs, what it takes and who may do it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.parking.checkpoint import ProcessState
from jupyter_gpushare.parking.gather import gather_process
from jupyter_gpushare.parking.seen import look_at_host
from jupyter_gpushare.parking.sequence import NoRoom
from tests.gpu.driven import until
from tests.gpu.rig import MIB

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.gpu.rig import Rig

pytestmark = pytest.mark.timeout(300)

GB = 10**9
CYCLES = 10
ALL_BITS = (1 << 64) - 1
SIZES = {"real": [GB, 8 * GB, 32 * GB, 100 * GB], "simulated": [GB, 4 * GB, 100 * GB]}


def test_contents_are_what_they_were(rig: Rig, record: Callable[[str, Any], None]) -> None:
    """The device is free while a program is parked, and every word is back in its place afterwards."""

    async def story() -> None:
        async with rig.parking() as parking:
            with rig.filled() as (program, digest):
                parked = await parking.park(parking.target(program, rig.unit))
                await parking.device_is_free()
                resumed = await parking.resume(parked)
                assert program.do("digest") == digest
                parking.assert_nothing_is_left()
                record("park_and_resume", {"bytes": rig.unit, "park_s": parked.took_s, "resume_s": resumed.took_s})

    asyncio.run(story())


@pytest.mark.parametrize("rig", [pytest.param("real", marks=pytest.mark.gpu)], indirect=True)
def test_the_digest_is_of_every_word_and_its_place(rig: Rig) -> None:
    """What the device adds up is what the pattern's definition gives, so that no other contents pass for these."""
    words, seed = 5000, 3
    with rig.filled(words * 8, seed) as (_, digest):
        pattern = (mixed((seed + place) & ALL_BITS) for place in range(words))
        assert int(digest) == sum(mixed(word ^ mixed(place)) for place, word in enumerate(pattern)) & ALL_BITS


def mixed(word: int) -> int:
    """`mix` of programs/kernels.cu."""
    word = (word + 0x9E3779B97F4A7C15) & ALL_BITS
    word = ((word ^ word >> 30) * 0xBF58476D1CE4E5B9) & ALL_BITS
    word = ((word ^ word >> 27) * 0x94D049BB133111EB) & ALL_BITS
    return word ^ word >> 31


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["first in first out", "last in first out"])
def test_two_programs_come_back_in_any_order(rig: Rig, order: tuple[int, int]) -> None:
    """Two parked programs do not depend on each other, whichever comes back first and works meanwhile."""

    async def story() -> None:
        async with rig.parking() as parking:
            with rig.filled(seed=1) as first, rig.filled(seed=2) as second:
                both = (first, second)
                parked = [await parking.park(parking.target(program, rig.unit)) for program, _ in both]
                await parking.device_is_free()
                for number in order:
                    program, digest = both[number]
                    await parking.resume_at_last(parked[number])
                    assert program.do("digest") == digest
                    program.do("work 0.2")
                assert [program.do("digest") for program, _ in both] == [digest for _, digest in both]

    asyncio.run(story())


def test_the_processes_of_one_kernel_go_together(rig: Rig) -> None:
    """A kernel of two processes is parked and resumed whole."""

    async def story() -> None:
        async with rig.parking() as parking:
            with rig.filled(seed=1) as (one, first), rig.filled(seed=2) as (other, second):
                parked = await parking.park(parking.targets({one: rig.unit, other: rig.unit}))
                await parking.device_is_free()
                await parking.resume(parked)
                assert (one.do("digest"), other.do("digest")) == (first, second)

    asyncio.run(story())


def test_others_may_use_the_freed_memory_meanwhile(rig: Rig) -> None:
    """What a neighbour writes where a parked program's memory was does no harm to either of them."""

    async def story() -> None:
        async with rig.parking() as parking:
            with rig.filled(seed=1) as (program, digest):
                parked = await parking.park(parking.target(program, rig.unit))
                await parking.device_is_free()
                with rig.filled(rig.device.usable.bytes // 2, seed=2) as (neighbour, theirs):
                    await parking.resume_at_last(parked)
                    assert program.do("digest") == digest
                    assert neighbour.do("digest") == theirs

    asyncio.run(story())


def test_a_restore_without_room_is_never_attempted(rig: Rig, record: Callable[[str, Any], None]) -> None:
    """With a neighbour on the memory a resume waits, as often as it is tried; once it left, nothing was lost."""

    async def story() -> None:
        async with rig.parking() as parking:
            with rig.filled() as (program, digest):
                parked = await parking.park(parking.target(program, rig.unit))
                await parking.device_is_free()
                with rig.program() as neighbour:
                    neighbour.do("hold 4096")
                    neighbour.do(f"hold {rig.device.usable.bytes - rig.used() - rig.unit // 2}")
                    waits = []
                    for _ in range(3):
                        with pytest.raises(NoRoom) as short:
                            await parking.resume(parked)
                        waits.append(short.value.message.code)
                    assert await parking.checkpoint.state(program.identity) is ProcessState.CHECKPOINTED
                record("without_room", waits)
                await parking.resume_at_last(parked)
                assert program.do("digest") == digest

    asyncio.run(story())


def test_a_parked_program_may_be_frozen(rig: Rig) -> None:
    """Stopped after its checkpoint and continued before its restore, a program is as it was."""

    async def story() -> None:
        async with rig.parking(freeze=True) as parking:
            with rig.filled() as (program, digest):
                parked = await parking.park(parking.target(program, rig.unit))
                await asyncio.to_thread(until, lambda: gather_process(program.identity).state == "T", "the stop")
                await parking.device_is_free()
                await parking.resume(parked)
                assert program.do("digest") == digest

    asyncio.run(story())


def test_many_cycles_lose_and_leak_nothing(rig: Rig, record: Callable[[str, Any], None]) -> None:
    """After ten parks and resumes the contents are the same, and the device holds no more than after the first."""

    async def story() -> None:
        async with rig.parking() as parking:
            with rig.filled() as (program, digest):
                target, used = parking.target(program, rig.unit), []
                for _ in range(CYCLES):
                    await parking.resume_at_last(await parking.park(target))
                    assert program.do("digest") == digest
                    used.append(rig.used())
                record("used_after_cycles", used)
                assert used[-1] - used[0] < 64 * MIB

    asyncio.run(story())


@pytest.mark.timeout(900)
def test_how_fast_memory_moves(rig: Rig, record: Callable[[str, Any], None]) -> None:
    """The speed of the driver's own calls is measured at every size that fits, with the contents intact."""
    for size in SIZES[rig.kind]:
        if short := _why_not(rig, size):
            record(f"speed_{size // GB}_gb", short)
            continue
        with rig.filled(size) as (program, digest):
            lock, checkpoint = rig.bare.park(program.pid)
            restore, unlock = rig.bare.resume(program.pid)
            assert program.do("digest") == digest
        moves = {"lock_s": lock, "checkpoint_s": checkpoint, "restore_s": restore, "unlock_s": unlock}
        figures: dict[str, float] = {name: called.seconds for name, called in moves.items()}
        figures |= {"out_gb_per_s": size / GB / checkpoint.seconds, "in_gb_per_s": size / GB / restore.seconds}
        record(f"speed_{size // GB}_gb", figures)


def _why_not(rig: Rig, size: int) -> str:
    free = rig.device.usable.bytes - rig.used() - rig.context
    if size > free:
        return f"{free / GB:.1f} GB of the device are free"
    host = look_at_host(simulated=bool(rig.simulated)).available
    if rig.kind == "real" and host is not None and size > host - 8 * GB:
        return f"the host has {host / GB:.1f} GB of memory available"
    return ""


def test_a_warm_checkpoint_process_is_quicker(rig: Rig, record: Callable[[str, Any], None]) -> None:
    """What the first call costs, with a checkpoint process to be started, and every later one, is put on record."""

    async def story() -> list[float]:
        async with rig.parking() as parking:
            with rig.filled() as (program, _):
                times = []
                for _ in range(5):
                    began = time.monotonic()
                    assert await parking.checkpoint.state(program.identity) is ProcessState.RUNNING
                    times.append(time.monotonic() - began)
                return times

    times = asyncio.run(story())
    record("cold_and_warm_state_s", times)
    assert min(times[1:]) < times[0]


def test_who_may_park_is_on_record(rig: Rig, record: Callable[[str, Any], None]) -> None:
    """User, namespace, ptrace_scope and persistence mode, under which all the above worked, are put on record."""
    host = look_at_host(simulated=bool(rig.simulated))
    seen = asdict(host) | {"locks": "", "driver": rig.driver.version, "cuda": rig.driver.cuda}
    record("privileges", {name: value for name, value in seen.items() if name not in {"locks", "locks_problem"}})
    assert rig.driver.missing == ""
