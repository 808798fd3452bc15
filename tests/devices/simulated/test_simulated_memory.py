"""Memory under random histories: nobody's bytes are touched by a neighbour, and sums never exceed the device."""

from __future__ import annotations

import random
import shutil
import subprocess
import tempfile
from itertools import pairwise
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from jupyter_gpushare.devices.identity import identify, myself
from jupyter_gpushare.devices.simulated.allocator import Block, CachingAllocator
from jupyter_gpushare.devices.simulated.arena import Arena
from jupyter_gpushare.devices.simulated.extents import Extent
from jupyter_gpushare.devices.simulated.machine import DeviceSpec, Machine
from jupyter_gpushare.devices.simulated.occupancy import Allocation, NoRoom
from jupyter_gpushare.quantity import Memory

PAGE = 2 << 20
USABLE = 12 * PAGE
HOLDERS = 3


class NeighboursOnOneDevice(RuleBasedStateMachine):
    """Living processes allocate, write, read, free and end, in any order."""

    allocations = Bundle("allocations")

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp())
        spec = DeviceSpec(total=Memory(USABLE + PAGE), reserve=Memory(PAGE), uuid="GPU-one")
        self.machine = Machine.create(self.path, [spec], context_bytes=PAGE)
        self.arena = self.machine.open_arena("GPU-one")
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.contexts: dict[int, int] = {}
        self.live: dict[int, tuple[int, Allocation, bytes]] = {}

    def teardown(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()
        self.arena.close()
        self.machine.close()
        shutil.rmtree(self.path)

    @property
    def used(self) -> int:
        return PAGE * len(self.contexts) + sum(allocation.size for _, allocation, _ in self.live.values())

    def context(self, holder: int) -> int | None:
        if holder not in self.contexts:
            self.processes[holder] = subprocess.Popen(["sleep", "600"])
            owner = identify(self.processes[holder].pid)
            assert owner
            try:
                self.contexts[holder] = self.machine.occupancy.open_context("GPU-one", owner, PAGE)
            except NoRoom:
                assert self.used == USABLE
                self.processes[holder].kill()
                self.processes.pop(holder).wait()
        return self.contexts.get(holder)

    @rule(
        target=allocations,
        holder=st.integers(1, HOLDERS),
        size=st.integers(1, 9).map(lambda pages: pages * PAGE - pages // 3),
    )
    def allocate(self, holder: int, size: int) -> object:
        context = self.context(holder)
        if context is None:
            return multiple()
        pages = -(-size // PAGE)
        try:
            allocation = self.machine.occupancy.allocate(context, size)
        except NoRoom as refusal:
            assert refusal.free == USABLE - self.used < pages * PAGE  # noqa: PT017 - a refusal is one right answer of two
            return multiple()
        assert allocation.size == pages * PAGE
        self.live[allocation.id] = (holder, allocation, b"")
        return allocation.id

    @rule(which=allocations, seed=st.integers(0, 1 << 30))
    def write(self, which: int, seed: int) -> None:
        if which in self.live:
            holder, allocation, _ = self.live[which]
            data = random.Random(seed).randbytes(64)  # noqa: S311 - contents, not secrets
            for offset in (0, allocation.size // 2, allocation.size - 64):
                self.arena.write(allocation.extents, offset, memoryview(data))
            self.live[which] = (holder, allocation, data)

    @rule(which=consumes(allocations))
    def free(self, which: int) -> None:
        if which in self.live:
            holder, _, _ = self.live.pop(which)
            self.machine.occupancy.keep(self.contexts[holder], self.held_by(holder), self.arena)

    @rule(holder=st.integers(1, HOLDERS))
    def end(self, holder: int) -> None:
        if holder in self.processes:
            self.processes[holder].kill()
            self.processes.pop(holder).wait()
            self.contexts.pop(holder)
            for which in self.held_by(holder):
                del self.live[which]
            self.machine.occupancy.state()

    def held_by(self, holder: int) -> list[int]:
        return [which for which, (owner, _, _) in self.live.items() if owner == holder]

    @invariant()
    def what_was_written_is_read(self) -> None:
        for _, allocation, data in self.live.values():
            for offset in (0, allocation.size // 2, allocation.size - 64) if data else ():
                assert self.arena.read(allocation.extents, offset, 64) == data

    @invariant()
    def the_sum_is_true_and_fits(self) -> None:
        held = self.machine.occupancy.state().held
        assert sum(one.memory for one in held) == self.used <= USABLE
        assert self.machine.occupancy.room("GPU-one") == USABLE - self.used

    @invariant()
    def no_two_allocations_overlap(self) -> None:
        extents = sorted(extent for _, allocation, _ in self.live.values() for extent in allocation.extents)
        assert all(left.end <= right.start for left, right in pairwise(extents))
        assert all(extent.start >= 0 and extent.end <= USABLE for extent in extents)


class BoundedSegments:
    """A device of a fixed size for an allocator."""

    def __init__(self) -> None:
        self.taken: dict[int, Allocation] = {}
        self.last = 0

    def take(self, size: int) -> Allocation:
        size = -(-size // PAGE) * PAGE
        free = USABLE - sum(allocation.size for allocation in self.taken.values())
        if size > free:
            raise NoRoom(size, free)
        self.last += 1
        self.taken[self.last] = Allocation(self.last, size, (Extent(0, size),))
        return self.taken[self.last]

    def keep(self, segments: object) -> None:
        kept = {allocation.id for allocation in segments}  # type: ignore[attr-defined]
        self.taken = {one: allocation for one, allocation in self.taken.items() if one in kept}


class CacheInOneProcess(RuleBasedStateMachine):
    """A program's buffers over its cache."""

    blocks = Bundle("blocks")

    def __init__(self) -> None:
        super().__init__()
        self.device = BoundedSegments()
        self.allocator = CachingAllocator(self.device)
        self.live: list[Block] = []

    @rule(target=blocks, size=st.integers(1, 3 * PAGE) | st.integers(1, 5000))
    def allocate(self, size: int) -> object:
        try:
            block = self.allocator.allocate(size)
        except NoRoom:
            assert all(not segment.is_cached for segment in self.allocator._segments)
            return multiple()
        assert block.size >= size
        self.live.append(block)
        return block

    @rule(block=consumes(blocks), finalizer=st.booleans())
    def free(self, block: Block, finalizer: bool) -> None:  # noqa: FBT001 - drawn by hypothesis
        self.live.remove(block)
        (self.allocator.drop if finalizer else self.allocator.free)(block)

    @rule()
    def empty_cache(self) -> None:
        before = self.allocator.reserved
        freed = self.allocator.release_cached()
        assert self.allocator.reserved == before - freed
        assert {id(block.segment) for block in self.live} == {id(one) for one in self.allocator._segments}

    @invariant()
    def the_books_are_true(self) -> None:
        assert self.allocator.allocated == sum(block.size for block in self.live)
        assert self.allocator.reserved == sum(allocation.size for allocation in self.device.taken.values()) <= USABLE

    @invariant()
    def blocks_tile_their_segments(self) -> None:
        for segment in self.allocator._segments:
            position = 0
            for block in segment.blocks:
                assert block.offset == position
                position += block.size
            assert position == segment.allocation.size


TestNeighboursOnOneDevice = NeighboursOnOneDevice.TestCase
TestNeighboursOnOneDevice.settings = settings(stateful_step_count=25)
TestCacheInOneProcess = CacheInOneProcess.TestCase
TestCacheInOneProcess.settings = settings(stateful_step_count=40)


def test_free_memory_in_pieces_is_still_free(tmp_path: Path) -> None:
    """As on a real GPU, a device with enough free pages never refuses because they do not lie together."""
    spec = DeviceSpec(total=Memory(USABLE + PAGE), reserve=Memory(PAGE), uuid="GPU-one")
    machine = Machine.create(tmp_path, [spec], context_bytes=PAGE)
    context = machine.occupancy.open_context("GPU-one", myself(), PAGE)
    pieces = [machine.occupancy.allocate(context, PAGE) for _ in range(11)]
    with machine.open_arena("GPU-one") as arena:
        machine.occupancy.keep(context, [piece.id for piece in pieces[::2]], arena)
        scattered = machine.occupancy.allocate(context, 5 * PAGE)
        assert len(scattered.extents) == 5
        data = bytes(range(256)) * (5 * PAGE // 256)
        arena.write(scattered.extents, 0, memoryview(data))
        assert arena.read(scattered.extents, 0, len(data)) == data
    machine.close()


def test_disk_space_of_freed_memory_is_given_back_once_it_is_much(tmp_path: Path) -> None:
    """A demonstration that runs for days does not fill the disk."""
    spec = DeviceSpec(total=Memory(1 << 30), reserve=Memory(PAGE), uuid="GPU-one")
    machine = Machine.create(tmp_path, [spec], context_bytes=PAGE)
    context = machine.occupancy.open_context("GPU-one", myself(), PAGE)
    kept = machine.occupancy.allocate(context, PAGE)
    with machine.open_arena("GPU-one") as arena:
        arena.write(kept.extents, 0, memoryview(b"precious"))
        written = machine.occupancy.allocate(context, 100 << 20)
        arena.write(written.extents, 0, memoryview(bytes([1]) * (100 << 20)))
        before = machine.arena_path("GPU-one").stat().st_blocks
        machine.occupancy.keep(context, [kept.id], arena)
        assert arena.read(kept.extents, 0, 8) == b"precious"
    assert before * 512 >= 100 << 20
    assert machine.arena_path("GPU-one").stat().st_blocks * 512 < 4 << 20
    machine.close()


def test_an_arena_closed_twice_does_not_close_somebody_elses_file(tmp_path: Path) -> None:
    """File descriptors are reused at once: closing one twice would hit a stranger."""
    path = tmp_path / "arena"
    Arena.create(path, PAGE)
    arena = Arena(path)
    arena.close()
    with path.open("rb") as stranger:
        arena.close()
        assert stranger.read(1) == b"\0"
