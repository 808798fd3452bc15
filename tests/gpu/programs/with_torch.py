"""Through PyTorch, as a notebook does."""

from __future__ import annotations

import ctypes
import os
import time
from typing import TYPE_CHECKING, Any

# cuBLAS gives the same bits again only with this (NVIDIA cuBLAS, "Results reproducibility").
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch

from tests.gpu.programs.state import NoGpu, Scenes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Program"]

_SIDE = 512


class Program(Scenes):
    """Tensors on the first visible device."""

    def __init__(self) -> None:
        super().__init__(
            {
                "training": Training,
                "graph": Graph,
                "streams": Streams,
                "compile": Compiled,
                "pinned": Pinned,
                "loader": Loader,
            }
        )
        self._held: Any = None

    def init(self) -> None:
        """Open the driver."""
        if not torch.cuda.is_available():
            raise NoGpu("PyTorch finds no GPU")

    def scene(self, name: str) -> None:
        """Prepare a scene that gives the same bits each time."""
        self.init()
        torch.use_deterministic_algorithms(mode=True)
        torch.manual_seed(7)
        super().scene(name)

    def hold(self, size: int) -> None:
        """Allocate *size* bytes."""
        self._held = torch.ones(size // 4, dtype=torch.float32, device="cuda")
        torch.cuda.synchronize()

    def work(self, seconds: float) -> int:
        """Multiply matrices; how many."""
        square = torch.rand(4096, 4096, device="cuda")
        done, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            for _ in range(20):
                square = (square @ square).clamp_(0, 1)
            torch.cuda.synchronize()
            done += 20
        return done

    def synchronise(self) -> None:
        """Wait for the device."""
        torch.cuda.synchronize()


class Training:
    """A network, its gradients, Adam's state, the scaler of mixed precision and the device's random numbers."""

    def __init__(self) -> None:
        self._network = torch.nn.Sequential(
            torch.nn.Linear(_SIDE, 2 * _SIDE),
            torch.nn.GELU(),
            torch.nn.LayerNorm(2 * _SIDE),
            torch.nn.Dropout(0.1),
            torch.nn.Linear(2 * _SIDE, 10),
        ).cuda()
        self._optimiser = torch.optim.AdamW(self._network.parameters(), lr=1e-3)
        self._scaler = torch.amp.GradScaler("cuda")

    def step(self) -> None:
        batch = torch.randn(64, _SIDE, device="cuda")
        with torch.autocast("cuda", dtype=torch.float16):
            loss = self._network(batch).square().mean()
        self._optimiser.zero_grad()
        self._scaler.scale(loss).backward()
        self._scaler.step(self._optimiser)
        self._scaler.update()

    def state(self) -> Iterator[bytes]:
        moments = [value for each in self._optimiser.state.values() for value in each.values()]
        gradients = [parameter.grad for parameter in self._network.parameters()]
        tensors = [*self._network.parameters(), *gradients, *moments, torch.cuda.get_rng_state()]
        return contents(tensor for tensor in tensors if tensor is not None)


class Graph:
    """A captured CUDA graph over static tensors."""

    def __init__(self) -> None:
        self._x = torch.randn(_SIDE, _SIDE, device="cuda")
        self._w = torch.randn(_SIDE, _SIDE, device="cuda")
        self._number = 0
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # what is captured must have run before
            self._advance()
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._advance()

    def _advance(self) -> None:
        self._w.copy_(torch.tanh(self._w @ self._x) + self._w * 0.5)

    def step(self) -> None:
        self._number += 1
        self._x.fill_(1 / self._number)
        self._graph.replay()

    def state(self) -> Iterator[bytes]:
        return contents([self._x, self._w])


class Streams:
    """Two streams that wait for each other's events."""

    def __init__(self) -> None:
        self._a, self._b = (torch.randn(_SIDE, _SIDE, device="cuda") for _ in range(2))
        self._streams = torch.cuda.Stream(), torch.cuda.Stream(priority=-1)
        self._events = torch.cuda.Event(), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize()

    def step(self) -> None:
        first, second = self._streams
        done, back = self._events
        with torch.cuda.stream(first):
            first.wait_event(back)
            self._a.copy_(torch.tanh(self._a @ self._b))
            done.record()
        with torch.cuda.stream(second):
            second.wait_event(done)
            self._b.copy_(torch.sin(self._b + self._a))
            back.record()

    def state(self) -> Iterator[bytes]:
        torch.cuda.synchronize()
        return contents([self._a, self._b])


class Compiled:
    """A function that torch.compile has made into kernels of its own."""

    def __init__(self) -> None:
        self._x = torch.randn(_SIDE, _SIDE, device="cuda")
        self._function = torch.compile(lambda x: (x.sin() * x.cos()).relu() + x.sigmoid() * 0.5)

    def step(self) -> None:
        self._x = self._function(self._x)

    def state(self) -> Iterator[bytes]:
        return contents([self._x])


class Pinned:
    """Page-locked host memory that the device reads and writes at the addresses it had before."""

    def __init__(self) -> None:
        self._host = torch.arange(_SIDE * _SIDE, dtype=torch.float32).pin_memory()
        self._there = self._host.data_ptr()
        self._device = torch.empty_like(self._host, device="cuda")

    def step(self) -> None:
        self._device.copy_(self._host, non_blocking=True)
        self._device.sin_()
        self._host.copy_(self._device, non_blocking=True)
        torch.cuda.synchronize()

    def state(self) -> Iterator[bytes]:
        assert self._host.data_ptr() == self._there
        return contents([self._device, self._host])


class Rows:
    """A data set: row *n* is made of *n*."""

    def __len__(self) -> int:
        return 256

    def __getitem__(self, number: int) -> Any:
        return torch.full((_SIDE,), 1.0 + number)


class Loader:
    """A data loader with workers that stay, and a thread that page-locks its batches."""

    def __init__(self) -> None:
        self._loader = torch.utils.data.DataLoader(
            Rows(), batch_size=16, num_workers=2, pin_memory=True, persistent_workers=True
        )
        self._batches = iter(self._loader)
        self._sum = torch.zeros(_SIDE, device="cuda")

    def step(self) -> None:
        try:
            batch = next(self._batches)
        except StopIteration:
            self._batches = iter(self._loader)
            batch = next(self._batches)
        assert batch.is_pinned()
        self._sum = self._sum * 0.9 + batch.to("cuda", non_blocking=True).sum(0).sqrt()

    def state(self) -> Iterator[bytes]:
        return contents([self._sum])


def contents(tensors: Iterable[Any]) -> Iterator[bytes]:
    """The bytes of *tensors*."""
    for tensor in tensors:
        here = tensor.detach().cpu().contiguous()
        yield ctypes.string_at(here.data_ptr(), here.nbytes)
