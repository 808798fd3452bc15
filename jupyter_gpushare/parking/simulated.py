"""Parking on the simulated machine: asks the simulated driver in the process that is meant."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from typing import TYPE_CHECKING, Final

import msgspec

from jupyter_gpushare.devices.device import DriverState
from jupyter_gpushare.devices.identity import is_alive, myself
from jupyter_gpushare.devices.simulated.driver_wire import Answer, Request, address, peer_of, receive, send
from jupyter_gpushare.devices.simulated.machine import Machine, MachineError
from jupyter_gpushare.devices.simulated.space import NoRoom
from jupyter_gpushare.parking.checkpoint import CheckpointDriver, CheckpointError, ProcessState

if TYPE_CHECKING:
    from jupyter_gpushare.devices.identity import Identity
    from jupyter_gpushare.devices.simulated.driver_wire import DriverCall
    from jupyter_gpushare.devices.simulated.faults import ParkingCall, When

__all__ = ["SimulatedCheckpoint"]

_LOOK_EVERY_MS: Final = 500
_LOOK_EVERY_S: Final = 0.01
_ENDING_S: Final = 2.0
_HANG_STEP_S: Final = 0.05


class SimulatedCheckpoint:
    """The `Checkpoint` of the machine in *path*. A call on a stopped process does not return until it is continued."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._machine: Machine | None = None

    def driver(self) -> CheckpointDriver:
        """Which driver this is; ``missing`` where the machine or its driver is not there."""
        try:
            faults = self._open().faults()
        except CheckpointError as trouble:
            return CheckpointDriver("simulated", missing=trouble.text)
        state, reason = faults.driver()
        return CheckpointDriver("simulated", faults.version(), missing="" if state is DriverState.READY else reason)

    def state(self, process: Identity) -> ProcessState:
        """What *process* may do with its GPU; waits for an operation in flight."""
        return ProcessState(self._ask(process, Request("get_state")).state)

    def lock(self, process: Identity, timeout_ms: int) -> None:
        """RUNNING to LOCKED, or ``not_ready`` after *timeout_ms*; 0 waits for ever."""
        self._ask(process, Request("lock", timeout_ms))

    def checkpoint(self, process: Identity) -> None:
        """LOCKED to CHECKPOINTED."""
        self._ask(process, Request("checkpoint"))

    def restore(self, process: Identity) -> None:
        """CHECKPOINTED to LOCKED; without room the GPU state is lost for good."""
        self._ask(process, Request("restore"))

    def unlock(self, process: Identity) -> None:
        """LOCKED to RUNNING."""
        self._ask(process, Request("unlock"))

    def claim(self, device: str, size: int) -> None:
        """Take *size* bytes of *device* for this process and free them."""
        machine = self._enter("claim")
        if device not in {one.uuid for one in machine.devices}:
            raise CheckpointError("invalid_value", f"device: {device!r} is none of this machine")
        try:
            machine.occupancy.claim(device, myself(), size)
        except NoRoom as shortage:
            raise CheckpointError("out_of_memory", f"claim: {shortage}") from None
        except MachineError as trouble:
            raise CheckpointError("operating_system", str(trouble)) from None
        self._die_if_told(machine, "claim", "after")

    def close(self) -> None:
        """Let go of the machine; the next call opens it again."""
        machine, self._machine = self._machine, None
        if machine is not None:
            machine.close()

    def _ask(self, process: Identity, request: Request) -> Answer:
        machine = self._enter(request.call)
        answer = _exchange(machine, process, request)
        self._die_if_told(machine, request.call, "after")
        if answer.code:
            raise CheckpointError(answer.code, answer.text)
        return answer

    def _enter(self, call: ParkingCall | DriverCall) -> Machine:
        """Go through *call* as the driver lets it: late, never, or not at all."""
        machine = self._open()
        while (faults := machine.faults()).hangs(call):
            time.sleep(_HANG_STEP_S)
        self._die_if_told(machine, call, "before")
        time.sleep(faults.delay_s(call))
        if reason := faults.failure(call):
            raise CheckpointError(faults.code(call) or "unknown", reason)
        return machine

    def _die_if_told(self, machine: Machine, call: ParkingCall, when: When) -> None:
        if machine.faults().kills_caller(call, when):
            signal.raise_signal(signal.SIGKILL)

    def _open(self) -> Machine:
        if self._machine is None:
            try:
                self._machine = Machine.open(self._path)
            except MachineError as trouble:
                raise CheckpointError("operating_system", str(trouble)) from None
        return self._machine


def _exchange(machine: Machine, process: Identity, request: Request) -> Answer:
    _require_alive(process)
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(address(machine.id, process))
        except ConnectionRefusedError:
            if machine.moves(process).places():
                _require_alive_after_all(process)
            raise CheckpointError("not_initialized", f"process {process.pid} uses no simulated GPU") from None
        if peer_of(connection) != (process.pid, os.getuid()):
            raise CheckpointError("not_permitted", f"process {process.pid} is not this user's: ask as its owner")
        try:
            send(connection, request)
            _wait_for_answer(connection, process)
            return msgspec.json.decode(receive(connection), type=Answer)
        except (OSError, ValueError, msgspec.DecodeError) as trouble:
            _require_alive_after_all(process)
            raise CheckpointError("unknown", f"process {process.pid} gave no answer: {trouble}") from None


def _wait_for_answer(connection: socket.socket, process: Identity) -> None:
    waiting = select.poll()
    waiting.register(connection, select.POLLIN)
    while not waiting.poll(_LOOK_EVERY_MS):
        _require_alive(process)


def _require_alive_after_all(process: Identity) -> None:
    """A process that is killed closes its files a moment before it counts as ended."""
    deadline = time.monotonic() + _ENDING_S
    while time.monotonic() < deadline:
        _require_alive(process)
        time.sleep(_LOOK_EVERY_S)


def _require_alive(process: Identity) -> None:
    if not is_alive(process):
        raise CheckpointError("gone", f"process {process.pid} has ended")
