"""The machine as a server reads it, with every fault."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING, Any, get_args

import pytest

from jupyter_gpushare.devices.device import Attribution, DriverState, Reading, Source
from jupyter_gpushare.devices.simulated import cuda, faults
from jupyter_gpushare.devices.simulated.machine import Machine
from jupyter_gpushare.devices.simulated.source import MIG_REASON, SimulatedSource

from .conftest import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .conftest import Program

MIB = 1 << 20
CONTEXT = 256 * MIB


def test_it_is_a_source(source: SimulatedSource) -> None:
    """Everything that reads devices can read the simulated ones; they say what they are."""
    kept: Source = source
    driver = kept.driver()
    assert (driver.vendor, driver.state, driver.reason) == ("simulated", DriverState.READY, "")
    assert [use.uuid for use in kept.read()] == [device.uuid for device in kept.devices()]


def test_an_idle_device_is_exactly_empty(source: SimulatedSource) -> None:
    """Zero is a number that was read."""
    use = source.read()[0]
    assert (use.memory, use.utilisation, use.processes) == (Reading.exact(0), Reading.exact(0), ())


def test_a_mig_instance_gives_memory_and_no_utilisation(source: SimulatedSource) -> None:
    """As with real ones, the missing number has a reason, for the device and for its processes."""
    cuda.allocate("64MiB", device=2)
    use = source.read()[2]
    assert source.devices()[2].is_mig
    assert use.memory == Reading.exact(CONTEXT + 64 * MIB)
    assert use.utilisation == Reading.unavailable(MIG_REASON)
    assert use.processes
    assert use.processes[0].utilisation == Reading.unavailable(MIG_REASON)
    assert use.processes[0].memory == Reading.exact(CONTEXT + 64 * MIB)


def test_only_visible_devices_are_read(machine: Machine) -> None:
    """A server that may see one GPU shows one."""
    source = SimulatedSource(machine.path, {"CUDA_VISIBLE_DEVICES": "1"})
    assert [use.uuid for use in source.read()] == ["GPU-two"]
    assert [device.uuid for device in source.devices()] == ["GPU-two"]
    source.close()


def test_asking_is_counted_and_being_made_asks_nothing(machine: Machine) -> None:
    """That nobody who does not look costs driver calls can be tested on the simulated machine too."""
    source = SimulatedSource(machine.path)
    source.has_open([os.getpid()])
    assert source.calls == 0
    source.read()
    source.driver()
    assert source.calls == 2
    source.close()


def test_reading_does_not_count_as_having_a_device_open(machine: Machine, source: SimulatedSource) -> None:
    """A server that watches is no holder."""
    source.read()
    Machine.open(machine.path).close()
    assert source.has_open([os.getpid()]) == frozenset()


def test_a_machine_that_is_not_there_is_an_absent_driver(tmp_path: Path) -> None:
    """A wrong path gives the reason and the remedy; the machine is found as soon as it is made."""
    source = SimulatedSource(tmp_path / "machine")
    driver = source.driver()
    assert driver.state is DriverState.ABSENT
    assert "make one with" in driver.reason
    assert (source.devices(), source.read(), source.has_open([1])) == ((), (), frozenset())
    Machine.create(tmp_path / "machine").close()
    assert source.driver().state is DriverState.READY
    assert len(source.read()) == 2
    source.close()


def test_a_machine_that_goes_away_is_a_lost_driver_until_it_is_back(machine: Machine, source: SimulatedSource) -> None:
    """Nothing raises when the directory is removed under a server, and a new machine in its place is found."""
    source.read()
    shutil.rmtree(machine.path)
    assert source.driver().state is DriverState.LOST
    uses = source.read()
    assert len(uses) == 3
    assert all(use.memory.attribution is Attribution.UNAVAILABLE and use.memory.reason for use in uses)
    Machine.create(machine.path).close()
    assert source.driver().state is DriverState.READY
    assert len(source.read()) == 2


def test_a_closed_source_opens_again(source: SimulatedSource) -> None:
    """Letting go is not for ever."""
    source.read()
    source.close()
    source.close()
    assert len(source.read()) == 3


def test_a_source_goes_on_in_a_forked_child(source: SimulatedSource) -> None:
    """A server that forks reads on both sides."""
    source.read()
    child = os.fork()
    if child == 0:
        os._exit(0 if len(source.read()) == 3 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert len(source.read()) == 3


def test_a_driver_that_was_never_there(machine: Machine, source: SimulatedSource) -> None:
    """Absent: no devices, the reason said, and programs see none."""
    machine.inject(faults.DriverAbsent(reason="no driver here"))
    assert (source.driver().state, source.driver().reason) == (DriverState.ABSENT, "no driver here")
    assert (source.devices(), source.read()) == ((), ())
    assert cuda.device_count() == 0
    with pytest.raises(cuda.DriverError, match="no driver here"):
        cuda.allocate(1)


def test_a_driver_that_is_lost_and_comes_back(machine: Machine, source: SimulatedSource) -> None:
    """Lost: devices stay known, nothing is readable; programs that had contexts are lost, new ones work again."""
    buffer = cuda.allocate("4MiB")
    source.read()
    machine.inject(faults.DriverLost())
    assert source.driver().state is DriverState.LOST
    assert len(source.devices()) == 3
    assert all((use.memory.value, use.utilisation.value, use.processes) == (None, None, None) for use in source.read())
    assert all("XID 79" in use.memory.reason == use.processes_reason for use in source.read())
    with pytest.raises(cuda.DriverError, match="XID 79"):
        buffer.read()

    machine.clear(faults.DriverLost)
    assert source.driver().state is DriverState.READY
    with pytest.raises(cuda.DriverError, match="restart the kernel"):
        buffer.read()
    cuda.device_reset()
    assert cuda.allocate("4MiB").size == 4 * MIB


def test_a_driver_lost_in_a_computation_ends_it(
    machine: Machine, source: SimulatedSource, program: Callable[..., Program]
) -> None:
    """A cell that computes gets the error at once, not at its end."""
    one = program()
    one.send("cuda.compute(90, 600)")
    wait_until(lambda: (source.read()[0].utilisation.value or 0) > 0, "the load to show")
    machine.inject(faults.DriverLost())
    assert "DriverError" in one.reply()


@pytest.mark.parametrize("call", ["memory", "utilisation", "processes", "process_memory", "process_utilisation"])
def test_a_reading_that_fails_spoils_no_other(machine: Machine, source: SimulatedSource, call: faults.Call) -> None:
    """Each number is missing on its own, with its reason."""
    cuda.allocate("4MiB")
    machine.inject(faults.FailsAt(call, reason="driver error 999"))
    use = source.read()[0]
    process = use.processes[0] if use.processes else None
    readings = {
        "memory": use.memory,
        "utilisation": use.utilisation,
        "process_memory": process.memory if process else None,
        "process_utilisation": process.utilisation if process else None,
    }
    if call == "processes":
        assert (use.processes, use.processes_reason) == (None, "processes: driver error 999")
    for name, reading in readings.items():
        if reading is not None:
            assert (reading.value is None) == (name == call)
            assert reading.reason == (f"{call}: driver error 999" if name == call else "")


@pytest.mark.parametrize(
    ("call", "statement"),
    [
        ("open_context", lambda buffer: cuda.allocate(1, device=1)),  # noqa: ARG005
        ("allocate", lambda buffer: cuda.allocate(1)),  # noqa: ARG005
        ("free", lambda buffer: buffer.free()),
        ("write", lambda buffer: buffer.write(b"x")),
        ("read", lambda buffer: buffer.read()),
        ("compute", lambda buffer: cuda.compute(50, 0)),  # noqa: ARG005
        ("synchronize", lambda buffer: cuda.synchronize()),  # noqa: ARG005
    ],
)
def test_a_call_of_a_program_that_fails(
    machine: Machine, call: faults.Call, statement: Callable[[cuda.Buffer], object]
) -> None:
    """Every step of a program can be made to fail by name, and works again afterwards."""
    buffer = cuda.allocate(1000)
    machine.inject(faults.FailsAt(call))
    with pytest.raises(cuda.DriverError, match=f"{call}: unknown error"):
        statement(buffer)
    machine.clear()
    statement(buffer)


def test_every_call_that_can_fail_is_tried_here() -> None:
    """A new name in `Call` needs a test: of reads and programs above, of parking in tests/parking."""
    reads = {"memory", "utilisation", "processes", "process_memory", "process_utilisation"}
    programs = {"open_context", "allocate", "free", "write", "read", "compute", "synchronize"}
    parking = {"get_state", "lock", "checkpoint", "restore", "unlock", "claim"}
    assert set(get_args(faults.Call)) == reads | programs | parking


def test_memory_per_process_may_be_unknown(machine: Machine, source: SimulatedSource) -> None:
    """The process is listed without its memory, and the device's total is still true."""
    cuda.allocate("4MiB")
    machine.inject(faults.NoProcessMemory())
    use = source.read()[0]
    assert use.memory == Reading.exact(CONTEXT + 4 * MIB)
    assert use.processes
    assert use.processes[0].memory == Reading.unavailable("this driver does not report memory per process")


def test_process_ids_may_be_the_hosts(machine: Machine, source: SimulatedSource) -> None:
    """In a container the driver's ids mean nothing; what is open is still known by our own."""
    cuda.allocate("4MiB")
    machine.inject(faults.HostPids(offset=500_000))
    (process,) = source.read()[0].processes or ()
    assert process.pid == os.getpid() + 500_000
    assert source.has_open([os.getpid()]) == {os.getpid()}


def test_process_ids_may_be_anothers(machine: Machine, source: SimulatedSource) -> None:
    """The driver names a process that holds nothing; the file tables do not agree with it."""
    cuda.allocate("4MiB")
    machine.inject(faults.MisreportedPids(reported=os.getppid()))
    (process,) = source.read()[0].processes or ()
    assert process.pid == os.getppid()
    assert source.has_open([os.getppid()]) == frozenset()


def test_a_lagging_driver_shows_the_past(machine: Machine, source: SimulatedSource) -> None:
    """Memory that was freed still shows for a while: a release is not attested by one look."""
    machine.inject(faults.Lag(seconds=0.5))
    buffer = cuda.allocate("1GiB")
    assert source.read()[0].memory == Reading.exact(CONTEXT + 1024 * MIB)
    buffer.free()
    cuda.empty_cache()
    freed = time.monotonic()
    assert source.read()[0].memory == Reading.exact(CONTEXT + 1024 * MIB)
    wait_until(lambda: source.read()[0].memory == Reading.exact(CONTEXT), "the driver to notice")
    assert time.monotonic() - freed >= 0.5


def test_a_slow_driver_takes_its_time(machine: Machine, source: SimulatedSource) -> None:
    """Each call takes longer, in a source and in a program; without the fault it does not."""
    machine.inject(faults.Slow(seconds=0.02, call="memory"))
    began = time.monotonic()
    source.read()
    assert time.monotonic() - began >= 3 * 0.02
    machine.inject(faults.Slow(seconds=0.2))
    began = time.monotonic()
    cuda.allocate(1)
    assert time.monotonic() - began >= 2 * 0.2


def test_memory_may_run_out_at_will(machine: Machine) -> None:
    """One device, or all, refuse memory whatever is free; what is held stays."""
    kept = cuda.allocate("4MiB")
    kept.fill()
    machine.inject(faults.OutOfMemory(uuid="GPU-one"))
    with pytest.raises(cuda.OutOfMemoryError):
        cuda.allocate("4MiB")
    other = cuda.allocate("4MiB", device=1)
    machine.inject(faults.OutOfMemory())
    with pytest.raises(cuda.OutOfMemoryError):
        cuda.allocate("4MiB", device=1)
    with pytest.raises(cuda.OutOfMemoryError, match="a context takes 256 MiB"):
        cuda.allocate("4MiB", device=2)
    assert kept.checksum()
    other.fill()


def test_faults_are_shared_and_taken_away_by_kind(machine: Machine, program: Callable[..., Program]) -> None:
    """What a test sets, every process suffers, until that fault or all are cleared."""
    one = program()
    machine.inject(faults.FailsAt("allocate", reason="first"))
    machine.inject(faults.FailsAt("allocate", reason="second"))
    machine.inject(faults.FailsAt("compute"))
    machine.inject(faults.Lag(seconds=1))
    assert "second" in one.run("cuda.allocate(1)")
    machine.clear(faults.FailsAt)
    assert machine.faults().all == (faults.Lag(seconds=1),)
    assert one.run("answer = cuda.allocate(1).size") == "1"
    machine.clear()
    assert machine.faults().all == ()


def test_a_fault_of_bad_fields_is_refused(machine: Machine) -> None:
    """A misspelt call is named with those that exist, before it is set."""
    with pytest.raises(ValueError, match=r"call: 'alocate' is not one of memory, .*allocate"):
        faults.FailsAt("alocate")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"float.*seconds"):
        machine.inject(faults.Lag(seconds="long"))  # type: ignore[arg-type]
    assert machine.faults().all == ()


@pytest.mark.parametrize("fault", get_args(faults.AnyFault))
def test_every_fault_survives_being_kept(fault: type[faults.AnyFault]) -> None:
    """What is read back from the machine is what was set."""
    arguments: dict[str, dict[str, Any]] = {
        "FailsAt": {"call": "read"},
        "Slow": {"seconds": 1.5},
        "Lag": {"seconds": 2.0},
        "MisreportedPids": {"reported": 7},
        "HangsAt": {"call": "lock"},
        "DiesAt": {"call": "restore", "when": "after"},
        "OwnerDiesAt": {"call": "checkpoint"},
        "DriverVersion": {"number": "560.35.03"},
    }
    made = fault(**arguments.get(fault.__name__, {}))
    assert faults.decode(faults.encode(made)) == made
