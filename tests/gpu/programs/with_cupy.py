"""Through CuPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import cupy

from tests.gpu.programs.state import NoGpu, Scenes

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Program"]

_SIDE = 512
_SOURCE = """
extern "C" __global__ void advance(float *x, int count) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < count) x[i] = x[i] * 0.5f + sinf(x[i]);
}
"""


class Program(Scenes):
    """Arrays on the first visible device."""

    def __init__(self) -> None:
        super().__init__({"arrays": Arrays, "streams": Streams, "graph": Graph})

    def scene(self, name: str) -> None:
        """Prepare a scene."""
        if not cupy.cuda.is_available():
            raise NoGpu("CuPy finds no GPU")
        super().scene(name)

    def synchronise(self) -> None:
        """Wait for the device."""
        cupy.cuda.Device().synchronize()


class Arrays:
    """Arrays of CuPy's memory pool, a kernel of one's own, cuBLAS and random numbers."""

    def __init__(self) -> None:
        self._random = cupy.random.RandomState(7)
        self._x = self._random.random_sample((_SIDE, _SIDE)).astype(cupy.float32)
        self._kernel = cupy.RawKernel(_SOURCE, "advance")

    def step(self) -> None:
        self._x = self._x @ self._x * cupy.float32(0.0005)
        self._kernel((-(-self._x.size // 256),), (256,), (self._x, cupy.int32(self._x.size)))
        self._x += self._random.random_sample(self._x.shape).astype(cupy.float32)

    def state(self) -> Iterator[bytes]:
        yield self._x.get().tobytes()


class Streams:
    """Streams that wait for each other's events, and page-locked host memory."""

    def __init__(self) -> None:
        self._x = cupy.arange(_SIDE * _SIDE, dtype=cupy.float32)
        self._streams = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
        self._event = cupy.cuda.Event()
        cupy.cuda.Device().synchronize()

    def step(self) -> None:
        first, second = self._streams
        with first:
            self._x += 1
            self._event.record(first)
        second.wait_event(self._event)
        with second:
            cupy.sin(self._x, out=self._x)
        second.synchronize()

    def state(self) -> Iterator[bytes]:
        cupy.cuda.Device().synchronize()
        yield self._x.get().tobytes()


class Graph:
    """A captured CUDA graph."""

    def __init__(self) -> None:
        self._x = cupy.arange(_SIDE * _SIDE, dtype=cupy.float32)
        self._kernel = cupy.RawKernel(_SOURCE, "advance")
        self._kernel.compile()
        self._stream = cupy.cuda.Stream(non_blocking=True)
        cupy.cuda.Device().synchronize()
        with self._stream:
            self._stream.begin_capture()
            self._kernel((-(-self._x.size // 256),), (256,), (self._x, cupy.int32(self._x.size)))
            self._graph = self._stream.end_capture()

    def step(self) -> None:
        self._graph.launch(self._stream)
        self._stream.synchronize()

    def state(self) -> Iterator[bytes]:
        yield self._x.get().tobytes()
