"""The simulated machine as a `Checkpoint`: a program is parked and resumed from outside, as CUDA's driver would do it."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.devices.identity import Identity, myself
from jupyter_gpushare.devices.simulated import cuda, faults
from jupyter_gpushare.devices.simulated.machine import DeviceSpec, Machine
from jupyter_gpushare.devices.simulated.source import SimulatedSource
from jupyter_gpushare.parking.checkpoint import CheckpointError, ProcessState
from jupyter_gpushare.parking.simulated import SimulatedCheckpoint
from jupyter_gpushare.quantity import Memory
from tests.devices.simulated.conftest import Program, park, refused, resume, step, who

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MIB = 1 << 20
GIB = 1 << 30
CONTEXT = 256 * MIB
RUNNING, LOCKED, CHECKPOINTED, FAILED = ProcessState
TIMEOUT_MS = 10_000


def make_machine(path: Path, copy_bytes_per_s: int) -> Machine:
    """Two devices of 3 GiB."""
    specs = [DeviceSpec(total=Memory(4 * GIB), reserve=Memory(GIB), uuid=uuid) for uuid in ("GPU-one", "GPU-two")]
    return Machine.create(path, specs, context_bytes=CONTEXT, copy_bytes_per_s=copy_bytes_per_s)


@pytest.fixture
def copy_bytes_per_s() -> int:
    """Copying takes no time, unless a test says otherwise."""
    return 0


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copy_bytes_per_s: int) -> Iterator[Machine]:
    """A machine on which this process's `cuda` works too."""
    machine = make_machine(tmp_path / "machine", copy_bytes_per_s)
    monkeypatch.setenv("GPUSHARE_SIMULATED_MACHINE", str(machine.path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    yield machine
    cuda.device_reset()
    machine.close()


@pytest.fixture
def driver(machine: Machine) -> Iterator[SimulatedCheckpoint]:
    """The driver as the checkpoint process has it."""
    driver = SimulatedCheckpoint(machine.path)
    yield driver
    driver.close()


@pytest.fixture
def program(machine: Machine) -> Iterator[Callable[..., Program]]:
    """Starts programs on the machine, and ends them after the test."""
    programs: list[Program] = []

    def start(**environ: str) -> Program:
        programs.append(Program(machine, **environ))
        return programs[-1]

    yield start
    for one in programs:
        one.close()


def test_everything_is_as_it_was_though_a_neighbour_overwrote_the_device(
    driver: SimulatedCheckpoint, program: Callable[..., Program]
) -> None:
    """The heart of parking: bytes on two devices, cache, holes and all, come back bit by bit."""
    one, neighbour = program(), program()
    one.run(
        "a = cuda.allocate('192MiB'); a.fill(seed=1); b = cuda.allocate('3MiB', device=1); b.write(bytes(range(256)))"
    )
    one.run("c = cuda.allocate(1000); c.write(b'c' * 1000); d = cuda.allocate('4MiB'); d.fill(seed=2); d.free()")
    one.run("import hashlib; whole = lambda x: hashlib.sha256(x.read()).hexdigest()")
    seen = "answer = (a.checksum(), whole(b), whole(c), whole(a), cuda.memory_allocated(), cuda.memory_reserved())"
    before = one.run(seen)
    park(driver, who(one))
    neighbour.run("x = cuda.allocate('2600MiB'); x.fill(seed=3); y = cuda.allocate('1GiB', device=1); y.fill(seed=4)")
    neighbour.run("for at in range(0, 2600 << 20, 64 << 20): x.write(b'x' * (1 << 20), at)")
    neighbour.run("y.write(b'y' * (16 << 20)); x.free(); cuda.empty_cache()")
    resume(driver, who(one))
    assert one.run(seen) == before
    assert one.run("e = cuda.allocate('64MiB'); e.fill(); a.free(); b.free(); cuda.empty_cache(); answer = 7") == "7"


def test_a_parked_process_holds_nothing_anywhere(
    machine: Machine, driver: SimulatedCheckpoint, program: Callable[..., Program]
) -> None:
    """It leaves the driver's list and has no device open; where it went is known."""
    one = program()
    one.run("a = cuda.allocate('1GiB'); b = cuda.allocate('64MiB', device=1)")
    source = SimulatedSource(machine.path)
    park(driver, who(one))
    assert [use.processes for use in source.read()] == [(), ()]
    assert [use.memory.value for use in source.read()] == [0, 0]
    assert source.has_open([one.pid]) == frozenset()
    assert machine.occupancy.parked() == {who(one): 2 * CONTEXT + 1088 * MIB}
    resume(driver, who(one))
    assert machine.occupancy.parked() == {}
    assert [use.memory.value for use in source.read()] == [CONTEXT + 1024 * MIB, CONTEXT + 64 * MIB]
    assert source.has_open([one.pid]) == {one.pid}
    source.close()


@pytest.mark.parametrize("copy_bytes_per_s", [2 * GIB])
def test_memory_falls_and_rises_while_it_is_copied(
    machine: Machine, driver: SimulatedCheckpoint, program: Callable[..., Program]
) -> None:
    """Progress can be seen, the time is that of the bytes, and others may work on the machine meanwhile."""
    one = program()
    one.run("a = cuda.allocate('1GiB'); a.fill(seed=1); before = a.checksum()")
    seconds = (CONTEXT + GIB) / (2 * GIB)
    driver.lock(who(one), TIMEOUT_MS)
    for move, ends in ((driver.checkpoint, 0), (driver.restore, CONTEXT + GIB)):
        began = time.monotonic()
        mover = threading.Thread(target=move, args=(who(one),))
        mover.start()
        seen = []
        while mover.is_alive():
            seen.append(3 * GIB - machine.occupancy.room("GPU-one"))
            machine.inject(faults.Lag(seconds=0))
        assert time.monotonic() - began >= seconds
        assert sorted(set(seen), reverse=move == driver.checkpoint) == list(dict.fromkeys(seen))
        assert len(set(seen)) >= 5
        assert 3 * GIB - machine.occupancy.room("GPU-one") == ends
    driver.unlock(who(one))
    assert one.run("answer = a.checksum() == before") == "True"


@pytest.mark.parametrize(
    ("reached", "refused_calls"),
    [
        ([], ["checkpoint", "restore", "unlock"]),
        (["lock"], ["lock", "restore"]),
        (["lock", "checkpoint"], ["lock", "checkpoint", "unlock"]),
        (["lock", "checkpoint", "restore"], ["lock", "restore"]),
    ],
)
def test_a_call_in_the_wrong_state_has_no_effect(
    machine: Machine, program: Callable[..., Program], reached: list[str], refused_calls: list[str]
) -> None:
    """Two controllers at once, or one that lost count, do no harm."""
    one = program()
    one.run("a = cuda.allocate('4MiB'); a.fill(); before = a.checksum()")
    first, second = SimulatedCheckpoint(machine.path), SimulatedCheckpoint(machine.path)
    for call in reached:
        step(first, call, who(one))
    state = first.state(who(one))
    for call in refused_calls:
        assert state in refused("illegal_state", lambda call=call: step(second, call, who(one)))  # type: ignore[misc]
        assert second.state(who(one)) is state
    for call in ("lock", "checkpoint", "restore", "unlock")[len(reached) :]:
        step(second, call, who(one))
    assert one.run("answer = a.checksum() == before") == "True"
    first.close()
    second.close()


def test_two_controllers_that_race_move_it_once(machine: Machine, program: Callable[..., Program]) -> None:
    """Of many who checkpoint at one moment one does it, the others are told the state."""
    one = program()
    one.run("a = cuda.allocate('4MiB'); a.fill(); before = a.checksum()")
    process, told = who(one), []

    def contend() -> None:
        driver = SimulatedCheckpoint(machine.path)
        for call in ("lock", "checkpoint", "restore", "unlock"):
            try:
                step(driver, call, process)
            except CheckpointError as trouble:
                told.append(trouble.code)
        driver.close()

    threads = [threading.Thread(target=contend) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(told) <= {"illegal_state"}
    driver = SimulatedCheckpoint(machine.path)
    if driver.state(process) is CHECKPOINTED:
        driver.restore(process)
    if driver.state(process) is LOCKED:
        driver.unlock(process)
    driver.close()
    assert one.run("answer = a.checksum() == before") == "True"


def test_restored_without_room_it_is_lost_for_good(
    machine: Machine, driver: SimulatedCheckpoint, program: Callable[..., Program]
) -> None:
    """Why nobody restores without proof of room: the state is gone, memory stays taken, only an end helps."""
    one, neighbour = program(), program()
    one.run("a = cuda.allocate('512MiB'); b = cuda.allocate('1GiB'); b.fill()")
    park(driver, who(one))
    neighbour.run("x = cuda.allocate('1500MiB')")
    assert "GPU state is lost" in refused("out_of_memory", lambda: driver.restore(who(one)))
    assert driver.state(who(one)) is FAILED
    assert machine.occupancy.room("GPU-one") < 3 * GIB - CONTEXT - 1500 * MIB
    neighbour.kill()
    for call in ("restore", "checkpoint", "lock", "unlock", "restore"):
        refused("operating_system", lambda call=call: step(driver, call, who(one)))  # type: ignore[misc]
    one.send("answer = b.checksum()")
    one.kill()
    assert machine.occupancy.state().held == ()
    assert machine.occupancy.room("GPU-one") == 3 * GIB


def test_a_claim_proves_room_and_leaves_nothing(
    machine: Machine, driver: SimulatedCheckpoint, program: Callable[..., Program]
) -> None:
    """It takes real memory, beside whatever the caller itself holds, and gives it back."""
    one = program()
    one.run("a = cuda.allocate('1GiB')")
    room = machine.occupancy.room("GPU-one")
    for _ in range(2):
        driver.claim("GPU-one", room)
        refused("out_of_memory", lambda: driver.claim("GPU-one", room + 1))
        assert machine.occupancy.room("GPU-one") == room
        assert [held.process for held in machine.occupancy.state().held if held.process == myself()] == []
    mine = cuda.allocate("4MiB")
    mine.fill()
    driver.claim("GPU-one", room // 2)
    assert mine.checksum()
    assert machine.occupancy.room("GPU-one") == room - CONTEXT - 4 * MIB
    refused("invalid_value", lambda: driver.claim("GPU-none", 1))


def test_a_claim_ends_with_its_process(machine: Machine, program: Callable[..., Program]) -> None:
    """A checkpoint process that dies between taking and freeing leaves nothing."""
    one = program()
    one.run("import os; from jupyter_gpushare.devices.identity import myself; from pathlib import Path")
    one.run("from jupyter_gpushare.devices.simulated.machine import Machine")
    one.run("m = Machine.open(os.environ['GPUSHARE_SIMULATED_MACHINE']); o = m.occupancy; real = o._store.writing")
    one.run("exec('def dying(**k):\\n o._store.writing = lambda **k: os._exit(9)\\n return real(**k)')")
    one.run("o._store.writing = dying")
    one.send(f"o.claim('GPU-one', myself(), {GIB})")
    assert one.process.wait() == 9
    assert machine.occupancy.state().held == ()
    assert machine.occupancy.room("GPU-one") == 3 * GIB


def test_a_process_that_was_never_on_a_gpu_is_told_apart_from_one_that_ended(
    machine: Machine, driver: SimulatedCheckpoint, program: Callable[..., Program]
) -> None:
    """Gone, another with its id, no GPU, no GPU any more: each has its code."""
    one, two = program(), program()
    assert "uses no simulated GPU" in refused("not_initialized", lambda: driver.state(who(one)))
    two.run("a = cuda.allocate(1)")
    identity = who(two)
    refused("gone", lambda: driver.lock(Identity(identity.pid, identity.start - 1), 1))
    refused("gone", lambda: driver.restore(Identity(1 << 30, 1)))
    two.run("cuda.device_reset()")
    refused("not_initialized", lambda: driver.state(identity))
    two.run("a = cuda.allocate(1)")
    assert driver.state(identity) is RUNNING
    two.process.kill()
    os.waitid(os.P_PID, two.pid, os.WEXITED | os.WNOWAIT)
    refused("gone", lambda: driver.state(identity))


def test_a_stopped_process_is_waited_for(driver: SimulatedCheckpoint, program: Callable[..., Program]) -> None:
    """As with CUDA the time-out is of no use there: whoever asks needs a deadline of its own."""
    one = program()
    one.run("a = cuda.allocate('4MiB')")
    identity = who(one)
    os.kill(one.pid, signal.SIGSTOP)
    os.waitpid(one.pid, os.WUNTRACED)  # until it stands still: a signal takes its time
    asking = threading.Thread(target=driver.lock, args=(identity, 1))
    asking.start()
    asking.join(1)
    assert asking.is_alive()
    os.kill(one.pid, signal.SIGCONT)
    asking.join()
    driver.unlock(identity)


def test_a_process_can_park_itself(machine: Machine, driver: SimulatedCheckpoint) -> None:
    """A thread of the process that is in no call may be the controller."""
    buffer = cuda.allocate("4MiB")
    buffer.fill(seed=3)
    before = buffer.checksum()
    park(driver, myself())
    assert machine.occupancy.parked() == {myself(): CONTEXT + 4 * MIB}
    resume(driver, myself())
    assert buffer.checksum() == before


def test_managed_memory_is_refused_and_the_context_is_dead(
    machine: Machine, driver: SimulatedCheckpoint, program: Callable[..., Program]
) -> None:
    """Why preflight asks first: the attempt alone costs the state."""
    one = program()
    one.run("a = cuda.allocate('4MiB'); cuda.use('managed_memory')")
    driver.lock(who(one), TIMEOUT_MS)
    assert "managed memory" in refused("not_supported", lambda: driver.checkpoint(who(one)))
    assert driver.state(who(one)) is FAILED
    refused("operating_system", lambda: driver.unlock(who(one)))
    assert "restart the kernel" in one.run("a.read()")
    assert machine.occupancy.state().held != ()


@pytest.mark.parametrize("environ", [{}, {"CUDA_MPS_PIPE_DIRECTORY": "/nowhere"}])
def test_a_client_of_mps_is_refused_and_goes_on(
    machine: Machine, driver: SimulatedCheckpoint, program: Callable[..., Program], environ: dict[str, str]
) -> None:
    """Unlocked it works as before."""
    one = program(**environ)
    one.run("a = cuda.allocate('4MiB'); a.fill(); before = a.checksum()")
    if not environ:
        one.run("cuda.use('mps')")
    assert machine.occupancy.features(who(one)) == {"mps"}
    driver.lock(who(one), TIMEOUT_MS)
    assert "MPS" in refused("not_supported", lambda: driver.checkpoint(who(one)))
    assert driver.state(who(one)) is LOCKED
    driver.unlock(who(one))
    assert one.run("answer = a.checksum() == before") == "True"


def test_features_are_known_by_process(machine: Machine, program: Callable[..., Program]) -> None:
    """What preflight asks about; a typo is named, and an ended process has none."""
    one, two = program(), program()
    one.run("cuda.use('nccl'); cuda.use('ipc'); cuda.use('ipc')")
    two.run("cuda.mem_get_info()")
    identity = who(one)
    assert machine.occupancy.features(identity) == {"nccl", "ipc"}
    assert machine.occupancy.features(who(two)) == frozenset()
    assert "feature: 'uvm' is not one of managed_memory" in one.run("cuda.use('uvm')")
    one.kill()
    assert machine.occupancy.features(identity) == frozenset()
