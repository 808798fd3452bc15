"""Real processes on one machine: killed, forked, stopped, racing."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.devices.identity import Identity, identify, is_alive, myself
from jupyter_gpushare.devices.simulated import cuda
from jupyter_gpushare.devices.simulated import store as store_module
from jupyter_gpushare.devices.simulated.machine import MachineError

from .conftest import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.devices.device import DeviceUse
    from jupyter_gpushare.devices.simulated.machine import Machine
    from jupyter_gpushare.devices.simulated.source import SimulatedSource

    from .conftest import Program

MIB = 1 << 20
CONTEXT = 256 * MIB


def pids(use: DeviceUse) -> list[int]:
    """The processes listed on a device."""
    assert use.processes is not None
    return [process.pid for process in use.processes]


def test_each_process_shows_with_its_own_memory(source: SimulatedSource, program: Callable[..., Program]) -> None:
    """What a driver tells about processes is there: id, memory, an open device."""
    one, two = program(), program()
    one.run("b = cuda.allocate('512MiB')")
    two.run("b = cuda.allocate('1GiB')")
    use = source.read()[0]
    assert {process.pid: process.memory.value for process in use.processes or ()} == {
        one.pid: CONTEXT + 512 * MIB,
        two.pid: CONTEXT + 1024 * MIB,
    }
    assert use.memory.value == 2 * CONTEXT + 1536 * MIB
    assert source.has_open([one.pid, two.pid, os.getpid(), 1]) == {one.pid, two.pid}


def test_a_neighbour_overwrites_freed_memory_and_never_living_memory(program: Callable[..., Program]) -> None:
    """Bytes move between processes as pages of a real device do."""
    one, two = program(), program()
    two.run("cuda.mem_get_info()")
    one.run("kept = cuda.allocate('512MiB'); kept.fill(seed=1)")
    one.run("gone = cuda.allocate('1GiB'); gone.fill(seed=2); gone.free(); cuda.empty_cache()")
    two.run("b = cuda.allocate('1GiB')")
    assert "seed=2" in two.run("answer = b.read(0, 64)")
    before = one.run("answer = kept.checksum()")
    two.run("b.fill(seed=3)")
    assert one.run("answer = kept.checksum()") == before


def test_a_killed_process_holds_nothing(source: SimulatedSource, program: Callable[..., Program]) -> None:
    """A kill -9 in the middle of a computation frees its memory and ends its load."""
    one = program()
    one.run("b = cuda.allocate('2GiB')")
    one.send("cuda.compute(90, 600)")
    wait_until(lambda: (source.read()[0].utilisation.value or 0) > 0, "the load to show")
    one.kill()
    use = source.read()[0]
    assert (use.memory.value, use.utilisation.value, pids(use)) == (0, 0, [])
    assert cuda.allocate("2GiB").size == 2 << 30


def test_a_zombie_holds_nothing(source: SimulatedSource, program: Callable[..., Program]) -> None:
    """A driver frees memory when a process exits, not when its parent asks about it."""
    one = program()
    one.run("b = cuda.allocate('1GiB')")
    one.process.kill()
    os.waitid(os.P_PID, one.pid, os.WEXITED | os.WNOWAIT)
    assert source.read()[0].memory.value == 0


def test_memory_of_a_killed_process_is_there_for_the_next_without_any_reader(program: Callable[..., Program]) -> None:
    """An allocation looks for itself whether somebody ended, before it says that there is no room."""
    one, two = program(), program()
    one.run("b = cuda.allocate('2GiB')")
    one.kill()
    assert two.run("answer = cuda.allocate('2GiB').size") == str(2 << 30)


def test_a_process_id_used_again_is_another_process(machine: Machine) -> None:
    """Memory of an ended process is never booked on the stranger who got its id."""
    me = myself()
    earlier = Identity(me.pid, me.start - 1)
    machine.occupancy.open_context("GPU-one", earlier, CONTEXT)
    assert not is_alive(earlier)
    assert machine.occupancy.state().held == ()
    assert machine.occupancy.room("GPU-one") == 3 << 30


def test_ids_that_no_process_has_are_nobody() -> None:
    """Any number can be asked for."""
    assert identify(0) is None
    assert identify(1 << 30) is None


def test_a_stopped_process_keeps_what_it_holds(source: SimulatedSource, program: Callable[..., Program]) -> None:
    """Stopped is not ended."""
    one = program()
    one.run("b = cuda.allocate('1GiB')")
    os.kill(one.pid, signal.SIGSTOP)
    os.waitpid(one.pid, os.WUNTRACED)  # a signal takes its time
    assert source.read()[0].memory.value == CONTEXT + 1024 * MIB
    os.kill(one.pid, signal.SIGCONT)


def test_a_reader_never_waits_for_a_writer(
    machine: Machine, source: SimulatedSource, program: Callable[..., Program]
) -> None:
    """A server goes on reading while some process was stopped in the middle of an allocation."""
    ended = program()
    ended.run("b = cuda.allocate('1GiB')")
    writer = sqlite3.connect(machine.path / "machine.sqlite", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    ended.kill()
    assert source.read()[0].memory.value == 0
    writer.execute("ROLLBACK")
    writer.close()


def test_a_program_that_replaces_itself_starts_without_the_old_ones_memory(
    source: SimulatedSource, program: Callable[..., Program]
) -> None:
    """After exec(2) the process is the same and its GPU state is not."""
    one = program()
    one.run("b = cuda.allocate('2GiB')")
    one.run("import os, sys; code = ' '.join(open('/proc/self/cmdline').read().split(chr(0))[2:])")
    one.send("os.execv(sys.executable, [sys.executable, '-c', 'print(7, flush=True)' + code])")
    assert one.reply() == "7"
    assert one.run("b = cuda.allocate('1GiB')") == "None"
    assert source.read()[0].memory.value == CONTEXT + 1024 * MIB


def test_a_forked_child_cannot_use_what_its_parent_opened(program: Callable[..., Program]) -> None:
    """As with CUDA: the child is told what to do instead, and the parent goes on unharmed."""
    one = program()
    one.run("b = cuda.allocate('64MiB'); b.fill(seed=1); before = b.checksum(); import os")
    one.run("r, w = os.pipe()")
    one.run(
        "exec('def attempt(f):\\n try: return str(f())\\n except Exception as e: return type(e).__name__ + str(e)')"
    )
    one.run(
        "exec('if os.fork() == 0:\\n"
        " os.write(w, (attempt(lambda: cuda.allocate(1)) + attempt(b.read) + attempt(cuda.memory_reserved)).encode())\\n"
        " del b\\n os._exit(0)\\nos.wait()')"
    )
    told = one.run("answer = os.read(r, 4096).decode()")
    assert told.count("ForkedError") == 3
    assert "'spawn'" in told
    assert one.run("answer = b.checksum() == before") == "True"


def test_a_child_forked_before_the_first_use_opens_its_own_context(
    source: SimulatedSource, program: Callable[..., Program]
) -> None:
    """A parent that only counted devices leaves its children free."""
    one = program()
    one.run("import os; cuda.device_count(); r, w = os.pipe()")
    one.run(
        "exec('if os.fork() == 0:\\n"
        " b = cuda.allocate(64 << 20); b.fill(); os.write(w, str((cuda.memory_allocated(), b.checksum())).encode())\\n"
        " os._exit(0)\\nos.wait()')"
    )
    assert one.run("answer = os.read(r, 4096).decode()").startswith(f'"({64 * MIB}, ')
    one.run("b = cuda.allocate('1GiB')")
    assert source.read()[0].memory.value == CONTEXT + 1024 * MIB


def test_two_processes_race_for_the_last_gibibyte_and_one_gets_it(program: Callable[..., Program]) -> None:
    """However close they come, memory is never given twice."""
    racers = [program() for _ in range(4)]
    for racer in racers:
        racer.run("cuda.mem_get_info()")
    for racer in racers:
        racer.send("b = cuda.allocate('1100MiB')")
    replies = [racer.reply() for racer in racers]
    assert replies.count("None") == 1
    assert sum("OutOfMemoryError" in reply for reply in replies) == 3


def test_hundreds_of_concurrent_operations_leave_true_books(
    source: SimulatedSource, program: Callable[..., Program]
) -> None:
    """Eight processes allocate and free at full speed; nobody fails, nothing is lost, contents stay apart."""
    workers = [program() for _ in range(8)]
    loop = (
        "exec('for i in range(60):\\n b = cuda.allocate(2 << 20)\\n b.fill(seed={seed})\\n"
        ' assert b"seed={seed} " in b.read(0, 64)\\n b.free()\\n cuda.empty_cache()\')'
    )
    for seed, worker in enumerate(workers):
        worker.send(loop.format(seed=seed))
    assert [worker.reply() for worker in workers] == ["None"] * 8
    assert source.read()[0].memory.value == 8 * CONTEXT


def test_a_storm_of_kills_leaves_no_memory_behind(
    machine: Machine, source: SimulatedSource, program: Callable[..., Program]
) -> None:
    """Processes are killed at random points of their work, in transactions too, and the machine stays sound."""
    for _ in range(3):
        workers = [program() for _ in range(4)]
        for worker in workers:
            worker.run("cuda.mem_get_info()")
            worker.send("exec('while True:\\n b = cuda.allocate(8 << 20)\\n b.fill()\\n b.free(); cuda.empty_cache()')")
        survivor = workers.pop()
        for worker in workers:
            worker.kill()
        wait_until(lambda: pids(source.read()[0]) == [survivor.pid], "the survivor to be alone")  # noqa: B023
        survivor.kill()
    assert source.read()[0].memory.value == 0
    with machine._store.reading() as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("SELECT count(*) FROM extent").fetchone() == (0,)


def test_an_interrupt_ends_a_computation_at_once(source: SimulatedSource, program: Callable[..., Program]) -> None:
    """The stop button of a notebook works, and the load is gone with the cell."""
    one = program()
    one.run("cuda.mem_get_info()")
    one.send("cuda.compute(90, 600)")
    wait_until(lambda: (source.read()[0].utilisation.value or 0) > 0, "the load to show")
    os.kill(one.pid, signal.SIGINT)
    assert one.reply().startswith("raised KeyboardInterrupt")
    wait_until(lambda: source.read()[0].utilisation.value == 0, "the load to fade")
    assert one.run("answer = cuda.memory_allocated()") == "0"


def test_a_forked_child_never_touches_its_parents_connection(machine: Machine) -> None:
    """SQLite forbids it: the child opens its own, and keeps the parent's from being closed."""
    store = machine._store
    machine.faults()
    parents = store._connection
    child = os.fork()
    if child == 0:
        machine.faults()
        os._exit(0 if store._connection is not parents and parents in store_module._inherited else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert store._connection is parents


def test_a_refused_context_leaves_no_trace(source: SimulatedSource, program: Callable[..., Program]) -> None:
    """What fails in the middle is undone whole: no process is listed that holds nothing."""
    one, two = program(), program()
    one.run("b = cuda.allocate('2700MiB')")
    assert "a context takes 256 MiB" in two.run("cuda.allocate(1)")
    assert pids(source.read()[0]) == [one.pid]
    assert source.has_open([two.pid]) == frozenset()


def test_a_machine_that_was_removed_is_explained(machine: Machine) -> None:
    """A program that outlives its demonstration gets a sentence."""
    buffer = cuda.allocate(1)
    shutil.rmtree(machine.path)
    with pytest.raises(MachineError, match="create a new one and start its programs again"):
        cuda.allocate("4MiB")
    del buffer
