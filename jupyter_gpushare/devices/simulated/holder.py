"""Another holder that moves on the same GPU, as a program of its own.

``python -m jupyter_gpushare.devices.simulated.holder --device 0 --memory 8GiB --wave``

It allocates, and with ``--wave`` grows, shrinks and computes in waves, until SIGTERM or SIGINT; then it frees all.
It prints one line when it holds its memory, and one each time it finds no room.
"""

from __future__ import annotations

import argparse
import math
import signal
import sys
import time
from typing import TYPE_CHECKING, NoReturn

from jupyter_gpushare.devices.simulated import cuda
from jupyter_gpushare.devices.simulated.machine import MachineError
from jupyter_gpushare.quantity import Memory

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

__all__ = ["main"]

_PIECES = 8
_STEP_S = 0.5


class _Stopped(BaseException):
    """SIGTERM came. Not an Exception, so that nothing takes it for a fault of the device."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Hold memory until told to stop; the exit code."""
    options = _parser().parse_args(arguments)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    try:
        _hold(options.device, options.memory.bytes // _PIECES, options.period if options.wave else None)
    except _Stopped:
        cuda.device_reset()
        return 0
    except (cuda.CudaError, MachineError) as trouble:
        print(trouble, file=sys.stderr)  # noqa: T201 - a program's message
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="holder", description="Hold memory of a simulated GPU until SIGTERM.")
    parser.add_argument("--device", type=int, default=0, help="number of the GPU (default: 0)")
    parser.add_argument("--memory", type=Memory.parse, default=Memory(8 << 30), help="at most, such as 8GiB")
    parser.add_argument("--wave", action="store_true", help="grow, shrink and compute in waves")
    parser.add_argument("--period", type=float, default=20.0, help="seconds from wave to wave (default: 20)")
    return parser


def _stop(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _Stopped


def _hold(device: int, piece: int, period_s: float | None) -> NoReturn:
    buffers: list[cuda.Buffer] = []
    _resize(buffers, _PIECES, piece, device)
    _say(f"holding {Memory(piece * len(buffers))} of {cuda.device_name(device)} (GPU {device})")
    began = time.monotonic()
    while True:
        if period_s is None:
            time.sleep(_STEP_S)
            continue
        height = _wave((time.monotonic() - began) / period_s)
        _resize(buffers, round(_PIECES * (0.25 + 0.75 * height)), piece, device)
        cuda.compute(5 + 85 * height, _STEP_S, device)


def _wave(periods: float) -> float:
    """1 at the begin, 0 in the middle of a period, 1 at its end."""
    return (1 + math.cos(2 * math.pi * periods)) / 2


def _resize(buffers: list[cuda.Buffer], pieces: int, piece: int, device: int) -> None:
    while len(buffers) > pieces:
        buffers.pop().free()
    cuda.empty_cache()
    try:
        while len(buffers) < pieces:
            buffers.append(cuda.allocate(piece, device))
            buffers[-1].fill(seed=len(buffers))
    except cuda.OutOfMemoryError as trouble:
        _say(str(trouble))


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - a program's message


if __name__ == "__main__":
    sys.exit(main())
