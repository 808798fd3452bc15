"""A process that holds GPU memory, driven by lines on standard input. Run by the tests as a program of its own.

``python holder.py bindings|torch`` answers ``ready`` after each order:

    init          open the driver, no context
    hold BYTES    make a context and allocate
    work SECONDS  keep the device busy
    end           leave
"""

from __future__ import annotations

import importlib
import sys
import time
from typing import Any


class Bindings:
    """Through cuda-bindings: the driver API and nothing else."""

    def __init__(self) -> None:
        self.cuda: Any = importlib.import_module("cuda.bindings.driver")
        self.address: Any = None
        self.size = 0

    def init(self) -> None:
        self._call(self.cuda.cuInit(0))

    def hold(self, size: int) -> None:
        self.init()
        device = self._call(self.cuda.cuDeviceGet(0))
        self._call(self.cuda.cuCtxSetCurrent(self._call(self.cuda.cuDevicePrimaryCtxRetain(device))))
        self.address, self.size = self._call(self.cuda.cuMemAlloc(size)), size

    def work(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for value in range(50):
                self._call(self.cuda.cuMemsetD32Async(self.address, value, self.size // 4, 0))
            self._call(self.cuda.cuCtxSynchronize())

    def _call(self, answer: tuple[Any, ...]) -> Any:
        if answer[0] != self.cuda.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"CUDA answered {answer[0]!r}")
        return answer[1] if len(answer) > 1 else None


class Torch:
    """Through PyTorch, as a notebook does."""

    def __init__(self) -> None:
        self.torch: Any = importlib.import_module("torch")
        self.held: Any = None

    def init(self) -> None:
        if not self.torch.cuda.is_available():
            raise RuntimeError("PyTorch finds no GPU")

    def hold(self, size: int) -> None:
        self.held = self.torch.ones(size // 4, dtype=self.torch.float32, device="cuda")
        self.torch.cuda.synchronize()

    def work(self, seconds: float) -> None:
        square = self.torch.rand(4096, 4096, device="cuda")
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for _ in range(20):
                square = (square @ square).clamp_(0, 1)
            self.torch.cuda.synchronize()


def main() -> None:
    """Obey orders until ``end`` or the end of input."""
    holder: Any = {"bindings": Bindings, "torch": Torch}[sys.argv[1]]()
    for line in sys.stdin:
        order, *amount = line.split()
        if order == "end":
            return
        if order == "init":
            holder.init()
        elif order == "hold":
            holder.hold(int(amount[0]))
        else:
            holder.work(float(amount[0]))
        print("ready", flush=True)  # noqa: T201  # the protocol


if __name__ == "__main__":
    main()
