"""The driver's own calls and nothing of ours around them: what a park costs at least, and what a driver does if abused.

``python -m tests.gpu.bare [--simulated DIR]`` has initialised the driver once. To ``CALL PID`` (``state``, ``lock``,
``checkpoint``, ``restore``, ``unlock``) it answers ``ready CODE SECONDS STATE``: *CODE* is ``ok`` or CUDA's word for
the error in lower case, *STATE* the process's where it was asked for.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.devices.identity import identify
from tests.gpu.driven import Driven

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Bare", "Called", "main"]

_LOCK_MS: Final = 10_000
_CALL_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Called:
    """How one call went: *code* is ``ok`` or the error."""

    code: str
    seconds: float
    state: str = ""


class Bare:
    """The program, and its answers."""

    def __init__(self, simulated: str = "") -> None:
        self._program = Driven("tests.gpu.bare", *(["--simulated", simulated] if simulated else []))

    def __call__(self, call: str, pid: int, deadline_s: float = _CALL_S) -> Called:
        """Make one call."""
        code, seconds, *state = self._program.do(f"{call} {pid}", deadline_s).split()
        return Called(code, float(seconds), *state)

    def park(self, pid: int) -> list[Called]:
        """Lock and checkpoint, which must both succeed."""
        return self._all(("lock", "checkpoint"), pid)

    def resume(self, pid: int) -> list[Called]:
        """Restore and unlock. Nothing is asked about room: the caller must know that there is enough."""
        return self._all(("restore", "unlock"), pid)

    def end(self) -> None:
        """End it."""
        self._program.end()

    def _all(self, calls: tuple[str, ...], pid: int) -> list[Called]:
        made = []
        for call in calls:
            made.append(self(call, pid))
            assert made[-1].code == "ok", f"{call} of process {pid}: {made[-1].code}"
        return made


def main() -> None:
    """Make the calls that come on standard input."""
    parser = argparse.ArgumentParser(prog="bare", description="Make single calls of a driver.")
    parser.add_argument("--simulated", metavar="DIR")
    options = parser.parse_args()
    make = _simulated(options.simulated) if options.simulated else _cuda()
    for line in sys.stdin:
        call, pid = line.split()
        began = time.perf_counter()
        code, state = make(call, int(pid))
        print("ready", code, time.perf_counter() - began, state, flush=True)  # noqa: T201  # the protocol


def _cuda() -> Callable[[str, int], tuple[str, str]]:
    from cuda.bindings import driver

    (result,) = driver.cuInit(0)
    assert result.name == "CUDA_SUCCESS", result.name
    arguments = driver.CUcheckpointLockArgs()
    arguments.timeoutMs = _LOCK_MS
    more: dict[str, tuple[Any, ...]] = {"state": (), "lock": (arguments,)}
    names = {"state": "GetState"}

    def make(call: str, pid: int) -> tuple[str, str]:
        function = getattr(driver, f"cuCheckpointProcess{names.get(call, call.capitalize())}")
        result, *values = function(pid, *more.get(call, (None,)))
        code = "ok" if result.name == "CUDA_SUCCESS" else result.name.removeprefix("CUDA_ERROR_").lower()
        return code, values[0].name.removeprefix("CU_PROCESS_STATE_").lower() if values and code == "ok" else ""

    return make


def _simulated(directory: str) -> Callable[[str, int], tuple[str, str]]:
    from jupyter_gpushare.parking.checkpoint import CheckpointError
    from jupyter_gpushare.parking.simulated import SimulatedCheckpoint

    checkpoint = SimulatedCheckpoint(directory)

    def make(call: str, pid: int) -> tuple[str, str]:
        process = identify(pid)
        if process is None:
            return "operating_system", ""  # as CUDA says it
        try:
            state = getattr(checkpoint, call)(process, *([_LOCK_MS] if call == "lock" else []))
        except CheckpointError as error:
            return error.code, ""
        return "ok", state.value if state is not None else ""

    return make


if __name__ == "__main__":
    main()
