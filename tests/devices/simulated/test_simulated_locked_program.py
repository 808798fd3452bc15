"""What a program lives through while it is locked or parked, and the part of the driver that lives in it."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from jupyter_gpushare.devices.identity import myself
from jupyter_gpushare.devices.simulated import cuda, faults
from jupyter_gpushare.devices.simulated.driver_wire import address, peer_of
from jupyter_gpushare.parking.checkpoint import CheckpointError, ProcessState

from .conftest import Program, park, refused, resume, wait_until, who

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.devices.identity import Identity
    from jupyter_gpushare.devices.simulated.machine import Machine
    from jupyter_gpushare.parking.simulated import SimulatedCheckpoint

MIB = 1 << 20
GIB = 1 << 30
CONTEXT = 256 * MIB
RUNNING, LOCKED, CHECKPOINTED, FAILED = ProcessState
TIMEOUT_MS = 10_000


def test_a_lock_waits_for_a_computation(driver: SimulatedCheckpoint, program: Callable[..., Program]) -> None:
    """Work that was submitted is finished before anything moves."""
    one = program()
    one.run("a = cuda.allocate('4MiB'); a.fill()")
    one.send("cuda.compute(80, 1)")
    compute_began(driver, who(one))
    began = time.monotonic()
    driver.lock(who(one), TIMEOUT_MS)
    assert time.monotonic() - began >= 0.2
    driver.unlock(who(one))
    assert one.reply() == "None"


def compute_began(driver: SimulatedCheckpoint, process: Identity) -> None:
    """Wait until the driver sees the program's computation."""

    def is_busy() -> bool:
        held = driver._open().occupancy.state().held
        return any(one.process == process and one.utilisation > 0 for one in held)

    wait_until(is_busy, "the computation to begin")


def test_a_lock_that_takes_too_long_leaves_the_program_running(
    driver: SimulatedCheckpoint, program: Callable[..., Program]
) -> None:
    """The timed lock is the last veto of a busy program, in a computation of any thread, and it does no harm."""
    one = program()
    one.run("a = cuda.allocate('4MiB'); a.fill(); import threading")
    one.run("t = threading.Thread(target=cuda.compute, args=(80, 600), daemon=True); t.start()")
    compute_began(driver, who(one))
    began = time.monotonic()
    assert "200 ms" in refused("not_ready", lambda: driver.lock(who(one), 200))
    assert time.monotonic() - began >= 0.2
    assert driver.state(who(one)) is RUNNING
    assert one.run("a.fill(seed=2); answer = 7") == "7"


def test_a_lock_waits_for_the_call_that_is_carried_out_now(
    machine: Machine, driver: SimulatedCheckpoint, program: Callable[..., Program]
) -> None:
    """No byte of a write is on its way to where the memory was before."""
    one = program()
    one.run("a = cuda.allocate('4MiB'); a.fill(seed=1)")
    machine.inject(faults.HangsAt("write"))
    one.send("a.write(b'late')")

    def is_in_the_call() -> bool:
        try:
            driver.lock(who(one), 50)
        except CheckpointError as trouble:
            return trouble.code == "not_ready"
        driver.unlock(who(one))
        return False

    wait_until(is_in_the_call, "the write to begin")
    machine.clear()
    park(driver, who(one))
    resume(driver, who(one))
    assert one.reply() == "None"
    assert one.run("answer = a.read(0, 4)") == "b'late'"


def test_an_interrupted_computation_leaves_nothing_to_wait_for(
    driver: SimulatedCheckpoint, program: Callable[..., Program]
) -> None:
    """After the stop button the notebook can be parked at once."""
    for _ in range(3):
        one = program()
        one.run("a = cuda.allocate('4MiB')")
        one.send("cuda.compute(80, 600)")
        compute_began(driver, who(one))
        os.kill(one.pid, signal.SIGINT)
        assert one.reply().startswith("raised KeyboardInterrupt")
        driver.lock(who(one), 2000)
        driver.unlock(who(one))


CALLS = [
    "cuda.allocate('4MiB')",
    "cuda.allocate('4MiB', device=1)",
    "cuda.compute(50, 0.01)",
    "a.read()",
    "a.write(b'x')",
    "a.fill(seed=1)",
    "a.free()",
    "cuda.mem_get_info()",
    "cuda.device_reset()",
]


@pytest.mark.parametrize("is_parked", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_every_call_waits_until_it_is_unlocked(
    driver: SimulatedCheckpoint,
    program: Callable[..., Program],
    call: str,
    is_parked: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """A call of the program neither fails nor works meanwhile; it goes on as if nothing had been."""
    one = program()
    one.run("a = cuda.allocate('4MiB'); a.fill(seed=1); import threading")
    driver.lock(who(one), TIMEOUT_MS)
    if is_parked:
        driver.checkpoint(who(one))
    one.run(f"t = threading.Thread(target=lambda: {call}); t.start()")
    assert one.run("t.join(0.1); answer = t.is_alive(), cuda.memory_allocated(), cuda.memory_reserved()") == (
        f"(True, {4 * MIB}, {4 * MIB})"
    )
    if is_parked:
        driver.restore(who(one))
        assert one.run("t.join(0.05); answer = t.is_alive()") == "True"
    driver.unlock(who(one))
    assert one.run("t.join(); answer = t.is_alive()") == "False"
    assert "raised" not in one.run("b = cuda.allocate('4MiB'); b.fill(); b.checksum()")


def test_the_garbage_collector_goes_on_while_parked(
    driver: SimulatedCheckpoint, program: Callable[..., Program]
) -> None:
    """Dropping a buffer is no call: it neither waits nor is it forgotten."""
    one = program()
    one.run("a = cuda.allocate('4MiB'); b = cuda.allocate('8MiB'); b.fill(seed=2); before = b.checksum()")
    park(driver, who(one))
    assert one.run("del a; import gc; gc.collect(); answer = cuda.memory_allocated()") == str(8 * MIB)
    resume(driver, who(one))
    assert (
        one.run("cuda.empty_cache(); answer = cuda.memory_reserved(), b.checksum() == before") == f"({8 * MIB}, True)"
    )


def test_synchronize_returns_at_once_while_locked_and_crashes_while_parked(
    driver: SimulatedCheckpoint, program: Callable[..., Program]
) -> None:
    """CUDA's driver does both: whoever lets user code run too early loses the kernel."""
    one = program()
    one.run("a = cuda.allocate('4MiB')")
    driver.lock(who(one), TIMEOUT_MS)
    assert one.run("cuda.synchronize(); answer = 7") == "7"
    driver.checkpoint(who(one))
    driver.restore(who(one))
    assert one.run("cuda.synchronize(); answer = 8") == "8"
    driver.checkpoint(who(one))
    one.send("cuda.synchronize()")
    assert one.process.wait() == -signal.SIGSEGV


def test_freeing_what_is_cached_waits_while_locked_and_crashes_while_parked(
    driver: SimulatedCheckpoint, program: Callable[..., Program]
) -> None:
    """It synchronises, as CUDA's freeing does: a request to free caches must never come while a kernel is parked."""
    one = program()
    one.run("a = cuda.allocate('4MiB'); a.free(); import threading")
    driver.lock(who(one), TIMEOUT_MS)
    one.run("t = threading.Thread(target=cuda.empty_cache); t.start()")
    assert one.run("t.join(0.1); answer = t.is_alive()") == "True"
    driver.unlock(who(one))
    assert one.run("t.join(); answer = cuda.memory_reserved()") == "0"
    park(driver, who(one))
    one.send("cuda.empty_cache()")
    assert one.process.wait() == -signal.SIGSEGV


def test_an_interrupt_is_delivered_only_after_the_resume(
    driver: SimulatedCheckpoint, program: Callable[..., Program]
) -> None:
    """As inside a call of CUDA; the call is given up then, and everything still works."""
    one = program()
    one.run("a = cuda.allocate('4MiB'); a.fill(); before = a.checksum(); import threading, time")
    park(driver, who(one))
    one.run("r = []; t = threading.Thread(target=lambda: (time.sleep(1.5), r.append(1), print('seen', flush=True)))")
    one.send("t.start(); a.read(); r.append(2)")
    wait_until(lambda: sleeps_in_a_call(one.pid), "the call to wait")
    os.kill(one.pid, signal.SIGINT)
    assert one.reply() == "seen"
    resume(driver, who(one))
    assert one.reply().startswith("raised KeyboardInterrupt")
    assert one.run("answer = r, a.checksum() == before") == "([1], True)"
    park(driver, who(one))
    resume(driver, who(one))


def sleeps_in_a_call(pid: int) -> bool:
    """Whether the main thread waits for its turn on the GPU: in ppoll(2) with every signal blocked."""
    with open(f"/proc/{pid}/status") as file:  # noqa: PTH123 - a file of the kernel's
        blocked = next(int(line.split()[1], 16) for line in file if line.startswith("SigBlk"))
    return bool(blocked & 1 << signal.SIGINT - 1)


def test_a_parked_process_may_be_stopped(driver: SimulatedCheckpoint, program: Callable[..., Program]) -> None:
    """Freezing after the checkpoint and continuing before the restore loses nothing."""
    one = program()
    one.run("a = cuda.allocate('4MiB'); a.fill(); before = a.checksum()")
    park(driver, who(one))
    os.kill(one.pid, signal.SIGSTOP)
    os.waitpid(one.pid, os.WUNTRACED)  # a signal takes its time
    os.kill(one.pid, signal.SIGCONT)
    resume(driver, who(one))
    assert one.run("answer = a.checksum() == before") == "True"


def test_a_stranger_at_the_address_is_not_taken_for_the_driver(
    machine: Machine, driver: SimulatedCheckpoint, program: Callable[..., Program]
) -> None:
    """Any process can take an abstract name first: who answers is checked with the operating system."""
    one = program()
    stranger = socket.socket(socket.AF_UNIX)
    stranger.bind(address(machine.id, who(one)))
    stranger.listen()
    assert "ask as its owner" in refused("not_permitted", lambda: driver.state(who(one)))
    stranger.close()
    one.run("a = cuda.allocate(1)")
    assert driver.state(who(one)) is RUNNING


def test_another_user_may_not_ask(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver in a program obeys the program's own user alone."""
    cuda.allocate(1)
    me = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: me + 1)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address(machine.id, myself()))
        assert b"not_permitted" in connection.recv(1 << 16)


def test_nonsense_at_the_address_is_answered_and_harms_nobody(
    machine: Machine, driver: SimulatedCheckpoint, program: Callable[..., Program]
) -> None:
    """Noise, silence and a closed connection; then the next controller is served."""
    one = program()
    one.run("a = cuda.allocate(1)")
    for noise in (b"\xff\n", b'{"call": "erase"}\n', b"[" * 100_000 + b"\n", b""):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(address(machine.id, who(one)))
            assert peer_of(connection) == (one.pid, os.getuid())
            connection.settimeout(30)
            connection.sendall(noise)
            connection.shutdown(socket.SHUT_WR)
            assert b"no request" in connection.recv(1 << 16)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(address(machine.id, who(one)))
    assert driver.state(who(one)) is RUNNING


def test_a_forked_child_holds_nobody_up(driver: SimulatedCheckpoint, program: Callable[..., Program]) -> None:
    """A worker forked by the program does not answer for it, outlives it without a trace, and may fork while parked."""
    one = program()
    one.run("a = cuda.allocate('4MiB'); a.fill(); before = a.checksum(); import os, time")
    identity = who(one)
    one.run("exec('child = os.fork()\\nif child == 0:\\n time.sleep(600)')")
    park(driver, identity)
    one.run(
        "exec('r, w = os.pipe()\\nsecond = os.fork()\\nif second == 0:\\n"
        ' try: a.read()\\n except cuda.ForkedError: os.write(w, b"forked")\\n os._exit(0)\')'
    )
    assert one.run("answer = os.read(r, 99)") == "b'forked'"
    resume(driver, identity)
    assert one.run("answer = a.checksum() == before") == "True"
    child = int(one.run("answer = child"))
    one.run("cuda.device_reset(); a = cuda.allocate('4MiB')")
    assert driver.state(identity) is RUNNING
    one.kill()
    refused("gone", lambda: driver.state(identity))
    os.kill(child, signal.SIGKILL)


def test_a_reset_while_parked_waits_and_a_reset_afterwards_starts_anew(
    machine: Machine, driver: SimulatedCheckpoint, program: Callable[..., Program]
) -> None:
    """The driver listens again for the next context, at the same place."""
    one = program()
    for _ in range(3):
        one.run("a = cuda.allocate('4MiB'); a.fill(); before = a.checksum()")
        park(driver, who(one))
        resume(driver, who(one))
        assert one.run("answer = a.checksum() == before") == "True"
        one.run("cuda.device_reset()")
    assert machine.occupancy.state().held == ()


def test_the_drivers_thread_can_be_recognised(machine: Machine) -> None:
    """Background work is looked for by thread: this one is ours, by its name and by where its code lies."""
    cuda.allocate(1)
    (thread,) = [one for one in threading.enumerate() if one.name == "gpushare-simulated-driver"]
    assert thread.daemon
    assert thread._target.__func__.__module__.startswith("jupyter_gpushare.")  # type: ignore[attr-defined]
    cuda.device_reset()
    assert not thread.is_alive()
