"""The same parking over the simulated machine, whose memory has contents: real programs, and neighbours that overwrite."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.devices.simulated import faults
from jupyter_gpushare.devices.simulated.machine import DeviceSpec, Machine
from jupyter_gpushare.devices.simulated.source import SimulatedSource
from jupyter_gpushare.parking.journal import Journal
from jupyter_gpushare.parking.parker import Parker
from jupyter_gpushare.parking.remote_checkpoint import Deadlines, RemoteCheckpoint, checkpoint_command
from jupyter_gpushare.parking.room import DeviceRoom
from jupyter_gpushare.parking.sequence import NoRoom, Parked, ParkFailed, Target
from jupyter_gpushare.quantity import Memory
from tests.devices.simulated.conftest import Program, who
from tests.parking.stage import checkpoint_processes, free_tokens, host_memory, wait_until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from jupyter_gpushare.parking.host_memory import HostMemory

MIB = 1 << 20
DEADLINES = Deadlines(ask_s=3, small_s=3, copy_s=3, copy_bytes_per_s=1e15)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    """One device of 640 MiB, and copies that take no time. No checkpoint process outlives the test."""
    specs = [DeviceSpec(total=Memory(704 * MIB), reserve=Memory(64 * MIB), uuid="GPU0")]
    machine = Machine.create(tmp_path / "machine", specs, context_bytes=16 * MIB, copy_bytes_per_s=0)
    yield machine
    machine.close()
    assert checkpoint_processes() == []


@pytest.fixture
def program(machine: Machine) -> Iterator[Callable[[], Program]]:
    """Starts programs, and ends them after the test."""
    programs: list[Program] = []

    def start() -> Program:
        programs.append(Program(machine))
        return programs[-1]

    yield start
    for one in programs:
        one.close()


@asynccontextmanager
async def server(root: Path, machine: Machine) -> AsyncIterator[tuple[Parker, HostMemory, Journal]]:
    """One server's parking over *machine*."""
    (root / "locks").mkdir(exist_ok=True)
    command = checkpoint_command(simulated=machine.path, locks=root / "locks")
    checkpoint = RemoteCheckpoint(command, deadlines=DEADLINES)
    memory, journal = host_memory(root / "locks", 1 << 40), Journal(root / "journal")
    source = SimulatedSource(machine.path, {})
    yield Parker(checkpoint, journal, memory, DeviceRoom(source), margin=MIB), memory, journal
    await checkpoint.aclose()
    memory.close()
    source.close()


def fill(program: Program, mib: int, seed: int) -> str:
    """Let *program* hold so much; the checksum of its contents."""
    program.run(f"held = cuda.allocate({mib * MIB}); held.fill(seed={seed})")
    return program.run("answer = held.checksum()")


def target(machine: Machine, program: Program, name: str) -> Target:
    """The program as a kernel, with what the device says that it holds."""
    source = SimulatedSource(machine.path, {})
    (use,) = source.read()
    source.close()
    assert use.processes is not None
    held = {process.pid: process.memory.value or 0 for process in use.processes}
    return Target(name, (who(program),), {"GPU0": held[program.pid]})


def is_computing(machine: Machine) -> bool:
    """Whether the device says that somebody computes."""
    source = SimulatedSource(machine.path, {})
    (use,) = source.read()
    source.close()
    return (use.utilisation.value or 0) > 0


def ignore(_step: object) -> None:
    """Nobody listens."""


@pytest.mark.parametrize("seed", range(3))
def test_contents_survive_any_order(
    tmp_path: Path, machine: Machine, program: Callable[[], Program], seed: int
) -> None:
    """Kernels that park and resume in any order on a device too small for all keep every byte, whoever overwrites."""

    async def story() -> None:
        choice = random.Random(seed)  # noqa: S311  # no secret
        async with server(tmp_path, machine) as (parker, memory, _):
            neighbour = program()
            kernels: dict[str, Program] = {}
            sums: dict[str, str] = {}
            parked: dict[str, Parked] = {}
            for number in range(3):
                name = f"kernel {number}"
                kernels[name] = program()
                sums[name] = fill(kernels[name], 200, number)
                parked[name] = await parker.park(target(machine, kernels[name], name), ignore)
            for turn in range(25):
                name = choice.choice(list(kernels))
                neighbour.run(
                    f"cuda.empty_cache(); junk = cuda.allocate(100 << 20); junk.fill(seed={turn}); junk.free()"
                )
                neighbour.run("cuda.empty_cache()")
                if name not in parked:
                    parked[name] = await parker.park(target(machine, kernels[name], name), ignore)
                    continue
                try:
                    await parker.resume(parked[name], ignore)
                except NoRoom:
                    assert len(parked) <= 1 or len(kernels) - len(parked) >= 2
                    continue
                del parked[name]
                assert kernels[name].run("answer = held.checksum()") == sums[name]
            assert memory.booked() == sum(one.target.total for one in parked.values())

    asyncio.run(story())


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("call", ["get_state", "lock", "checkpoint", "claim", "restore", "unlock"])
def test_a_checkpoint_process_that_dies_at_a_call_of_the_machine(
    tmp_path: Path, machine: Machine, program: Callable[[], Program], call: faults.ParkingCall, when: faults.When
) -> None:
    """The simulated driver takes the caller down at any call, and the contents come back all the same."""

    async def story() -> None:
        async with server(tmp_path, machine) as (parker, memory, journal):
            kernel = program()
            contents = fill(kernel, 50, 7)
            whole = target(machine, kernel, "kernel")
            machine.inject(faults.DiesAt(call, when))
            attempt = await asyncio.gather(parker.park(whole, ignore), return_exceptions=True)
            machine.clear()
            parked = attempt[0]
            if isinstance(parked, ParkFailed):
                parked = parked.leftover or await parker.park(whole, ignore)
            assert isinstance(parked, Parked)
            machine.inject(faults.DiesAt(call, when))
            attempts = await asyncio.gather(parker.resume(parked, ignore), return_exceptions=True)
            machine.clear()
            if isinstance(attempts[0], NoRoom):
                await parker.resume(parked, ignore)
            assert kernel.run("answer = held.checksum()") == contents
            assert memory.booked() == 0
            assert journal.entries() == []
            assert free_tokens(tmp_path / "locks", "GPU0")

    asyncio.run(story())


def test_what_the_driver_cannot_park_goes_on(tmp_path: Path, machine: Machine, program: Callable[[], Program]) -> None:
    """A client of MPS is refused by the driver in the middle of the steps, and computes on as before."""

    async def story() -> None:
        async with server(tmp_path, machine) as (parker, memory, _):
            kernel = program()
            kernel.run("cuda.use('mps')")
            contents = fill(kernel, 50, 7)
            with pytest.raises(ParkFailed) as refused:
                await parker.park(target(machine, kernel, "kernel"), ignore)
            assert refused.value.message.code == "DRIVER_REFUSED"
            assert refused.value.undone
            assert kernel.run("answer = held.checksum()") == contents
            assert memory.booked() == 0

    asyncio.run(story())


def test_a_computation_is_waited_for_and_not_cut_off(
    tmp_path: Path, machine: Machine, program: Callable[[], Program]
) -> None:
    """A lock that waits longer than its limit ends as "busy", and the computation is unharmed."""

    async def story() -> None:
        async with server(tmp_path, machine) as (parker, _, _journal):
            kernel = program()
            fill(kernel, 50, 7)
            whole = target(machine, kernel, "kernel")
            kernel.send("cuda.compute(80, 4); answer = 'computed'")
            await asyncio.to_thread(wait_until, lambda: is_computing(machine))
            with pytest.raises(ParkFailed) as busy:
                await parker.park(whole, ignore)
            assert busy.value.message.code == "GPU_BUSY"
            assert kernel.reply() == "'computed'"

    asyncio.run(story())
