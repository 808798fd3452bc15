"""Everything that can go wrong at a call about a process's GPU state, at will."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, get_args

import pytest

from jupyter_gpushare.devices.identity import Identity, myself
from jupyter_gpushare.devices.simulated import faults
from jupyter_gpushare.devices.simulated.source import SimulatedSource
from jupyter_gpushare.parking.checkpoint import CheckpointError, ProcessState
from jupyter_gpushare.parking.simulated import SimulatedCheckpoint

from .conftest import Program, park, refused, step, wait_until, who

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_gpushare.devices.simulated.machine import Machine

MIB = 1 << 20
GIB = 1 << 30
CONTEXT = 256 * MIB
RUNNING, LOCKED, CHECKPOINTED, FAILED = ProcessState
TIMEOUT_MS = 10_000


@pytest.mark.parametrize("call", ["restore", "claim"])
def test_a_device_may_refuse_memory_at_will(
    machine: Machine, driver: SimulatedCheckpoint, program: Callable[..., Program], call: str
) -> None:
    """The fault of a full device reaches those who restore and those who prove room."""
    one = program()
    one.run("a = cuda.allocate('4MiB')")
    park(driver, who(one))
    machine.inject(faults.OutOfMemory(uuid="GPU-one"))
    refused("out_of_memory", lambda: step(driver, call, who(one)))


@pytest.mark.parametrize("copy_bytes_per_s", [GIB])
@pytest.mark.parametrize("moment", ["locked", "leaving", "parked", "coming back"])
def test_a_kill_at_any_moment_frees_everything(
    machine: Machine, driver: SimulatedCheckpoint, program: Callable[..., Program], moment: str
) -> None:
    """SIGKILL works though nothing else does; the device, and the copy in the program's own memory, are free."""
    one = program()
    one.run("a = cuda.allocate('512MiB'); a.fill()")
    process = who(one)
    driver.lock(process, TIMEOUT_MS)
    told: list[str] = []

    def move(call: Callable[[Identity], None]) -> None:
        try:
            call(process)
        except CheckpointError as trouble:
            told.append(trouble.code)

    mover = None
    if moment != "locked":
        mover = threading.Thread(target=move, args=(driver.checkpoint,))
        mover.start()
        if moment != "leaving":
            mover.join()
    if moment == "coming back":
        mover = threading.Thread(target=move, args=(driver.restore,))
        mover.start()
    if moment in {"leaving", "coming back"}:
        wait_until(lambda: 0 < 3 * GIB - machine.occupancy.room("GPU-one") < CONTEXT + 512 * MIB, "half of it to move")
    one.kill()
    if mover:
        mover.join()
    assert told == (["gone"] if moment in {"leaving", "coming back"} else [])
    refused("gone", lambda: driver.state(process))
    assert machine.occupancy.state().held == ()
    assert machine.occupancy.parked() == {}
    assert machine.occupancy.room("GPU-one") == 3 * GIB


def test_a_driver_that_goes_away_takes_parked_state_along(
    machine: Machine, driver: SimulatedCheckpoint, program: Callable[..., Program]
) -> None:
    """A reset of the device is the end of every state, on the device or off it."""
    one = program()
    one.run("a = cuda.allocate('4MiB')")
    park(driver, who(one))
    machine.inject(faults.DriverLost())
    assert "fallen off the bus" in driver.driver().missing
    assert "fallen off the bus" in refused("unknown", lambda: driver.restore(who(one)))
    machine.clear()
    assert driver.driver().missing == ""
    assert driver.state(who(one)) is FAILED
    refused("operating_system", lambda: driver.restore(who(one)))
    for call in ("a.read()", "cuda.synchronize()", "cuda.allocate('1MiB')", "cuda.empty_cache()"):
        assert one.run(call).startswith("raised DriverError: "), call


def test_a_restore_without_room_lets_the_programs_calls_fail(
    machine: Machine, driver: SimulatedCheckpoint, program: Callable[..., Program]
) -> None:
    """What is lost for good is no reason to wait: every call fails from then on, also one that was waiting."""
    one = program()
    one.run("a = cuda.allocate('4MiB')")
    park(driver, who(one))
    one.send("a.read()")
    machine.inject(faults.OutOfMemory())
    refused("out_of_memory", lambda: driver.restore(who(one)))
    machine.clear()
    assert one.reply().startswith("raised DriverError: ")
    assert one.run("cuda.synchronize()").startswith("raised DriverError: ")


def test_the_driver_says_what_it_is(machine: Machine, driver: SimulatedCheckpoint, tmp_path: Path) -> None:
    """Version and what is missing, as doctor shows them."""
    assert (driver.driver().vendor, driver.driver().version, driver.driver().missing) == ("simulated", "", "")
    machine.inject(faults.DriverVersion("560.35.03"))
    assert driver.driver().version == "560.35.03"
    source = SimulatedSource(machine.path)
    assert source.driver().version == "560.35.03"
    source.close()
    machine.inject(faults.DriverAbsent())
    assert "not installed" in driver.driver().missing
    nowhere = SimulatedCheckpoint(tmp_path / "nowhere")
    assert "there is no simulated machine" in nowhere.driver().missing
    refused("operating_system", lambda: nowhere.state(myself()))


def reach(driver: SimulatedCheckpoint, call: str, process: Identity) -> None:
    """Bring *process* to where *call* is legal."""
    before = {"checkpoint": 1, "restore": 2, "unlock": 1}.get(call, 0)
    for one in ("lock", "checkpoint")[:before]:
        step(driver, one, process)


PARKING_CALLS = get_args(faults.ParkingCall)


@pytest.mark.parametrize("call", PARKING_CALLS)
def test_any_call_may_fail_before_it_does_anything(
    machine: Machine, driver: SimulatedCheckpoint, program: Callable[..., Program], call: faults.ParkingCall
) -> None:
    """With a code of choice; without the fault the same call works."""
    one = program()
    one.run("a = cuda.allocate('4MiB'); a.fill(); before = a.checksum()")
    reach(driver, call, who(one))
    state = driver.state(who(one))
    machine.inject(faults.FailsAt(call, reason="a bad day"))
    assert refused("unknown", lambda: step(driver, call, who(one))) == f"{call}: a bad day"
    machine.inject(faults.FailsAt(call, code="not_permitted"))
    refused("not_permitted", lambda: step(driver, call, who(one)))
    machine.clear()
    assert driver.state(who(one)) is state
    step(driver, call, who(one))


@pytest.mark.parametrize("call", PARKING_CALLS)
def test_any_call_may_hang_until_the_fault_is_cleared(
    machine: Machine, driver: SimulatedCheckpoint, program: Callable[..., Program], call: faults.ParkingCall
) -> None:
    """Before it has any effect; others go on."""
    one = program()
    one.run("a = cuda.allocate('4MiB')")
    reach(driver, call, who(one))
    machine.inject(faults.HangsAt(call))
    asking = threading.Thread(target=step, args=(driver, call, who(one)))
    asking.start()
    asking.join(0.3)
    assert asking.is_alive()
    machine.clear(faults.HangsAt)
    asking.join()
    machine.inject(faults.Slow(seconds=0.3, call=call))
    began = time.monotonic()
    try:
        step(driver, call, who(one))
    except CheckpointError as trouble:
        assert trouble.code == "illegal_state"  # noqa: PT017 - most calls cannot be made twice
    assert time.monotonic() - began >= 0.3


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("call", PARKING_CALLS)
def test_the_caller_may_die_at_any_call(
    machine: Machine,
    driver: SimulatedCheckpoint,
    program: Callable[..., Program],
    call: faults.ParkingCall,
    when: faults.When,
) -> None:
    """A checkpoint process that is killed leaves the program where it was or where it went, and another goes on."""
    one = program()
    one.run("a = cuda.allocate('4MiB'); a.fill(); before = a.checksum()")
    process = who(one)
    reach(driver, call, process)
    state = driver.state(process)
    machine.inject(faults.DiesAt(call, when))
    code = (
        "import sys; from tests.devices.simulated.conftest import SimulatedCheckpoint, step;"
        "from jupyter_gpushare.devices.identity import Identity;"
        "step(SimulatedCheckpoint(sys.argv[1]), sys.argv[2], Identity(int(sys.argv[3]), int(sys.argv[4])))"
    )
    arguments = [str(machine.path), call, str(process.pid), str(process.start)]
    assert subprocess.run([sys.executable, "-c", code, *arguments], check=False).returncode == -signal.SIGKILL
    machine.clear()
    after = {"lock": LOCKED, "checkpoint": CHECKPOINTED, "restore": LOCKED, "unlock": RUNNING}.get(call, state)
    assert driver.state(process) is (after if when == "after" else state)
    if driver.state(process) is CHECKPOINTED:
        driver.restore(process)
    if driver.state(process) is LOCKED:
        driver.unlock(process)
    assert one.run("answer = a.checksum() == before") == "True"


@pytest.mark.parametrize("call", ["get_state", "lock", "checkpoint", "restore", "unlock", "allocate"])
def test_the_program_may_die_in_the_middle_of_any_call(
    machine: Machine, driver: SimulatedCheckpoint, program: Callable[..., Program], call: faults.Call
) -> None:
    """The controller is told that it is gone, and nothing stays taken."""
    one = program()
    one.run("a = cuda.allocate('4MiB')")
    process = who(one)
    reach(driver, call, process)
    machine.inject(faults.OwnerDiesAt(call))
    if call == "allocate":
        one.send("cuda.allocate('4MiB')")
    else:
        refused("gone", lambda: step(driver, call, process))
    assert one.process.wait() == -signal.SIGKILL
    refused("gone", lambda: driver.state(process))
    assert machine.occupancy.state().held == ()
    assert machine.occupancy.room("GPU-one") == 3 * GIB
