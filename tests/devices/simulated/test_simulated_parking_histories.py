"""Parking under random histories of real programs that share a device: whatever happens, contents stay intact."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.devices.simulated.machine import DeviceSpec, Machine
from jupyter_gpushare.parking.checkpoint import CheckpointError
from jupyter_gpushare.parking.simulated import SimulatedCheckpoint
from jupyter_gpushare.quantity import Memory

from .conftest import Program, park, resume, who

if TYPE_CHECKING:
    from pathlib import Path

PAGE = 2 << 20
USABLE = 24 * PAGE
PROGRAMS = 3
STEPS = 60

SETUP = (
    "live = {}; intact = lambda: all(b.checksum() == s for b, s in live.values()); "
    "exec('def write(n, seed):\\n b = live[n][0]\\n b.fill(seed)\\n live[n] = (b, b.checksum())')"
)
# Runs in a thread of the program while it is parked and resumed, and leaves a buffer in a known state.
BUSY = (
    "exec('def busy(b, seed):\\n for i in range(20):\\n  b.fill(seed + i)\\n  x = cuda.allocate(5000)\\n"
    '  x.write(b"x" * 5000)\\n  assert x.read() == b"x" * 5000\\n return b, b.checksum()\')'
)


class History:
    """Programs allocate, write, free, are parked, resumed and killed in any order; what one frees is overwritten."""

    def __init__(self, path: Path, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - a history, no secret
        spec = DeviceSpec(total=Memory(USABLE + PAGE), reserve=Memory(PAGE), uuid="GPU-one")
        self.machine = Machine.create(path, [spec], context_bytes=PAGE, copy_bytes_per_s=0)
        self.driver = SimulatedCheckpoint(path)
        self.programs = [self.start() for _ in range(PROGRAMS)]
        self.parked: dict[int, int] = {}
        self.buffers: dict[int, set[int]] = {one: set() for one in range(PROGRAMS)}
        self.last = 0

    def start(self) -> Program:
        one = Program(self.machine)
        one.run(SETUP)
        one.run(BUSY)
        return one

    def close(self) -> None:
        for one in self.programs:
            one.close()
        self.driver.close()
        self.machine.close()

    def overwrite(self) -> None:
        """What a neighbour does that takes all that is free, writes over it and frees it."""
        with self.machine._store.reading() as connection:
            free = self.machine._space.free(connection, "GPU-one")
        with self.machine.open_arena("GPU-one") as arena:
            arena.write(free, 0, memoryview(b"x" * sum(gap.length for gap in free)))

    def run_in(self, one: int, statement: str) -> str:
        reply = self.programs[one].run(statement)
        assert "raised" not in reply or "OutOfMemoryError" in reply, reply
        return reply

    def step(self) -> None:
        one = self.random.randrange(PROGRAMS)
        if one in self.parked:
            self.random.choices([self.resume, self.kill], [9, 1])[0](one)
        elif not self.buffers[one]:
            self.allocate(one)
        else:
            acts = [self.allocate, self.write, self.free, self.park, self.park_while_it_works, self.kill]
            self.random.choices(acts, [6, 3, 3, 6, 3, 1])[0](one)

    def a_buffer(self, one: int) -> int:
        return self.random.choice(sorted(self.buffers[one]))

    def allocate(self, one: int) -> None:
        self.last += 1
        size = self.random.randint(1, 7 * PAGE)
        if self.run_in(one, f"live[{self.last}] = (cuda.allocate({size}), None)") == "None":
            self.buffers[one].add(self.last)
            self.run_in(one, f"write({self.last}, {self.last})")

    def write(self, one: int) -> None:
        self.run_in(one, f"write({self.a_buffer(one)}, {self.random.randrange(1 << 30)})")

    def free(self, one: int) -> None:
        buffer = self.a_buffer(one)
        self.buffers[one].remove(buffer)
        self.run_in(one, f"live.pop({buffer})[0].free(); {self.random.choice(['', 'cuda.empty_cache()'])}")

    def park(self, one: int) -> None:
        before = self.machine.occupancy.room("GPU-one")
        park(self.driver, who(self.programs[one]))
        self.parked[one] = self.machine.occupancy.room("GPU-one") - before
        self.overwrite()

    def resume(self, one: int) -> None:
        try:
            self.driver.claim("GPU-one", self.parked[one])
        except CheckpointError as trouble:
            assert trouble.code == "out_of_memory"  # noqa: PT017 - then nobody may restore
            assert self.machine.occupancy.room("GPU-one") < self.parked[one]
            return
        resume(self.driver, who(self.programs[one]))
        del self.parked[one]

    def park_while_it_works(self, one: int) -> None:
        buffer, seed = self.a_buffer(one), self.random.randrange(1 << 30)
        self.programs[one].send(f"live[{buffer}] = busy(live[{buffer}][0], {seed})")
        for _ in range(3):
            park(self.driver, who(self.programs[one]))
            self.overwrite()
            resume(self.driver, who(self.programs[one]))
        reply = self.programs[one].reply()
        assert reply == "None" or "OutOfMemoryError" in reply, reply
        if reply != "None":  # It stopped in the middle of its writing.
            self.run_in(one, f"write({buffer}, {seed})")

    def kill(self, one: int) -> None:
        self.programs[one].close()
        self.programs[one] = self.start()
        self.parked.pop(one, None)
        self.buffers[one].clear()
        self.machine.occupancy.state()

    def check(self) -> None:
        held = {one.process: one.memory for one in self.machine.occupancy.state().held}
        for one in sorted(set(range(PROGRAMS)) - set(self.parked)):
            intact, reserved = eval(self.run_in(one, "answer = intact(), cuda.memory_reserved()"))  # noqa: S307 - our own
            assert intact
            assert held.get(who(self.programs[one]), 0) in ({reserved + PAGE} if reserved else {0, PAGE})
        assert set(held) <= {who(self.programs[one]) for one in range(PROGRAMS) if one not in self.parked}
        assert self.machine.occupancy.room("GPU-one") == USABLE - sum(held.values())
        assert self.machine.occupancy.parked() == {who(self.programs[one]): size for one, size in self.parked.items()}


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 5))])
def test_contents_stay_intact_and_books_true_through_a_random_history(tmp_path: Path, seed: int) -> None:
    """Three programs and a neighbour that overwrites whatever is free: parked and resumed, nobody loses a byte."""
    history = History(tmp_path / "machine", seed)
    try:
        for _ in range(STEPS):
            history.step()
            history.check()
    finally:
        history.close()
