"""A small training program: NumPy computes, and the weights live in the memory of a simulated GPU.

    jupyter gpushare run --project demo --gpu 0.5 -- python -m jupyter_gpushare.demo.train_numpy --steps 1000

Every step reads the weights from the device and writes them back, so a byte that a park did not bring back shows in the
very next loss. The same seed gives the same losses, bit for bit, however often the program had to give its GPU back.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jupyter_gpushare.devices.simulated import cuda
from jupyter_gpushare.training import on_reclaim, safe_point, share

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Training", "main"]

_INPUTS: Final = 64
_HIDDEN: Final = 32
_BATCH: Final = 16
_RATE: Final = 0.01
_MOMENTUM: Final = 0.9
_SHAPES: Final = ((_INPUTS, _HIDDEN), (_HIDDEN, 1))
_STOPPED: Final = 128 + signal.SIGTERM


class Training:
    """Two layers that learn to add up what they see. Weights and momentum are on the device between two steps.

    Args:
        seed: of the weights and of every batch.
        memory: how much of the device it takes besides, such as ``1GiB``; nothing when empty.
    """

    def __init__(self, seed: int, memory: str = "") -> None:
        self.step = 0
        self._seed = seed
        random = np.random.default_rng(seed)
        self._state = [_on_device(random.standard_normal(shape) / shape[0] ** 0.5) for shape in _SHAPES]
        self._state += [_on_device(np.zeros(shape)) for shape in _SHAPES]
        self._ballast = cuda.allocate(memory) if memory else None

    def advance(self) -> float:
        """One step; its loss."""
        first, second, *momenta = (_read(buffer, shape) for buffer, shape in zip(self._state, _SHAPES * 2, strict=True))
        inputs = np.random.default_rng((self._seed, self.step)).standard_normal((_BATCH, _INPUTS))
        hidden = np.tanh(inputs @ first)
        error = hidden @ second - inputs.sum(axis=1, keepdims=True) / _INPUTS**0.5
        slopes = inputs.T @ ((error @ second.T) * (1 - hidden**2)), hidden.T @ error
        for number, (weights, momentum, slope) in enumerate(zip((first, second), momenta, slopes, strict=True)):
            moved = _MOMENTUM * momentum - _RATE * slope / _BATCH
            self._state[number].write((weights + moved).tobytes())
            self._state[number + len(_SHAPES)].write(moved.tobytes())
        self.step += 1
        return float(np.mean(error**2))

    def save(self, file: Path) -> None:
        """Write everything to *file*, whole or not at all."""
        unfinished = file.with_suffix(".unfinished")
        with unfinished.open("wb") as output:
            np.savez(output, np.array(self.step), *map(_raw, self._state))
        unfinished.replace(file)

    def load(self, file: Path) -> None:
        """Go on from what `save` wrote."""
        with np.load(file) as saved:
            self.step = int(saved["arr_0"])
            for at, buffer in enumerate(self._state, 1):
                buffer.write(saved[f"arr_{at}"].tobytes())


def main(argv: Sequence[str] | None = None) -> int:
    """Train; 143 when a SIGTERM ended it before its last step, after it had saved."""
    options = _options(argv)
    training = Training(options.seed, options.memory)
    if options.save and options.save.exists():
        training.load(options.save)
    _announce(training.step)
    terminated: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: terminated.append(number))
    if options.save and not options.no_safe_points:
        on_reclaim(lambda: training.save(options.save))
    with options.losses.open("a", buffering=1) as losses:
        while training.step < options.steps and not terminated:
            step = training.step
            losses.write(json.dumps([step, training.advance().hex()]) + "\n")
            cuda.compute(load=options.load, seconds=options.step_s)
            if not options.no_safe_points:
                safe_point()
    if terminated and options.save:
        training.save(options.save)
    return _STOPPED if terminated else 0


def _options(argv: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(description="Train a small network on a simulated GPU.")
    parser.add_argument("--steps", type=int, default=1000, help="how many steps there are")
    parser.add_argument("--step-s", type=float, default=0.02, help="seconds of GPU time that a step takes")
    parser.add_argument("--load", type=float, default=80, help="per cent of the device that it computes with")
    parser.add_argument("--memory", default="", help="GPU memory that it takes besides, such as 1GiB")
    parser.add_argument("--seed", type=int, default=1, help="of weights and batches")
    parser.add_argument("--losses", type=Path, default=Path(os.devnull), help="the file for [step, loss] lines")
    parser.add_argument("--save", type=Path, default=None, help="the file to save to, and to go on from")
    parser.add_argument("--no-safe-points", action="store_true", help="do without safe points: save on SIGTERM")
    return parser.parse_args(argv)


def _announce(step: int) -> None:
    given = share()
    where = f"{given.share} of project {given.project}, start {given.restarts + 1}" if given else "no share"
    print(f"{time.strftime('%H:%M:%S')} training from step {step} on {where}", flush=True)  # noqa: T201  # a program


def _on_device(values: np.ndarray[Any, Any]) -> cuda.Buffer:
    buffer = cuda.allocate(values.nbytes)
    buffer.write(values.tobytes())
    return buffer


def _read(buffer: cuda.Buffer, shape: tuple[int, int]) -> np.ndarray[Any, Any]:
    return np.frombuffer(buffer.read()).reshape(shape).copy()


def _raw(buffer: cuda.Buffer) -> np.ndarray[Any, Any]:
    return np.frombuffer(buffer.read(), dtype=np.uint8)


if __name__ == "__main__":
    sys.exit(main())
