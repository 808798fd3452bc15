"""GPU frameworks as `sys.modules` has them, with the parts of their interfaces that a release needs."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

GB = 10**9


class FakeTorch:
    """PyTorch's caching allocator over *devices*: bytes in use and bytes cached of each."""

    def __init__(self, in_use: int, cached: int, *, started: bool = True, devices: int = 1) -> None:
        self.used, self.cached, self.started, self.devices = in_use, cached, started, devices
        self.emptied = 0
        self.cuda = self

    def is_initialized(self) -> bool:
        return self.started

    def device_count(self) -> int:
        return self.devices

    def memory_reserved(self, _device: int) -> int:
        assert self.started, "asking would start the GPU"
        return self.used + self.cached

    def memory_allocated(self, _device: int) -> int:
        return self.used

    def empty_cache(self) -> None:
        self.emptied += 1
        self.cached = 0


class BrokenTorch(FakeTorch):
    """Its context is poisoned: every call raises, as after an illegal memory access."""

    def empty_cache(self) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")


class ForgottenTensor:
    """A tensor in a reference cycle: only a garbage collection lets go of its *size* bytes."""

    def __init__(self, torch: FakeTorch, size: int) -> None:
        self.itself, self.torch, self.size = self, torch, size
        torch.used += size

    def __del__(self) -> None:
        self.torch.used -= self.size
        self.torch.cached += self.size


class FakeCuPy:
    """CuPy's pool: one per device, of which only the current device's answers."""

    def __init__(self, used: list[int], cached: list[int]) -> None:
        self.used, self.cached, self.current = used, cached, 0
        self.touched: set[int] = set()
        self.cuda = SimpleNamespace(
            Device=lambda device: _Chosen(self, device), runtime=SimpleNamespace(getDeviceCount=lambda: len(used))
        )

    def get_default_memory_pool(self) -> Any:
        return self

    def total_bytes(self) -> int:
        return self.used[self.current] + self.cached[self.current]

    def used_bytes(self) -> int:
        return self.used[self.current]

    def free_all_blocks(self) -> None:
        self.cached[self.current] = 0


class _Chosen:
    def __init__(self, cupy: FakeCuPy, device: int) -> None:
        self._cupy, self._device = cupy, device

    def __enter__(self) -> None:
        self._before, self._cupy.current = self._cupy.current, self._device
        self._cupy.touched.add(self._device)

    def __exit__(self, *_: object) -> None:
        self._cupy.current = self._before


class FakeJax:
    """JAX with one GPU; asking it for devices before it has started would start it."""

    def __init__(self, in_use: int, pool: int, *, started: bool = True) -> None:
        self.in_use, self.pool, self.started, self.cleared = in_use, pool, started, 0

    def backends_are_initialized(self) -> bool:
        return self.started

    def local_devices(self) -> list[Any]:
        assert self.started, "asking would start the GPU"
        stats = {"bytes_in_use": self.in_use, "pool_bytes": self.pool}
        cpu = SimpleNamespace(platform="cpu", memory_stats=lambda: None)
        return [cpu, SimpleNamespace(platform="gpu", memory_stats=lambda: stats)]

    def clear_caches(self) -> None:
        self.cleared += 1


def collections() -> int:
    """How many full garbage collections there were so far."""
    return int(gc.get_stats()[2]["collections"])
