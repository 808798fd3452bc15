"""The GPU frameworks that this process has imported, and what their allocators hold.

Nothing here imports a framework or makes it touch the GPU: a context that was not there before would
cost the memory that a release is to give back.
"""

from __future__ import annotations

import ctypes
import sys
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

__all__ = ["Framework", "imported_frameworks"]


class Framework(Protocol):
    """One framework's allocator. Every method may raise what the framework raises."""

    name: str

    def held(self) -> int:
        """Bytes that the allocator has taken from the devices: in use and cached."""

    def in_use(self) -> int:
        """Bytes of it that live objects occupy."""

    def empty_cache(self) -> None:
        """Give the rest back to the devices."""


def imported_frameworks() -> list[Framework]:
    """Those that this process has imported; all of them can be asked without starting a GPU."""
    modules = [(sys.modules.get(name), framework) for name, framework in _FRAMEWORKS]
    return [framework(module) for module, framework in modules if module is not None]


class _Torch:
    name = "torch"

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def held(self) -> int:
        return sum(self._torch.cuda.memory_reserved(device) for device in self._devices())

    def in_use(self) -> int:
        return sum(self._torch.cuda.memory_allocated(device) for device in self._devices())

    def empty_cache(self) -> None:
        self._torch.cuda.empty_cache()

    def _devices(self) -> Sequence[int]:
        return range(self._torch.cuda.device_count()) if self._torch.cuda.is_initialized() else ()


class _CuPy:
    name = "cupy"

    def __init__(self, cupy: Any) -> None:
        self._cupy = cupy

    def held(self) -> int:
        return sum(pool.total_bytes() for pool in self._pools())

    def in_use(self) -> int:
        return sum(pool.used_bytes() for pool in self._pools())

    def empty_cache(self) -> None:
        for pool in self._pools():
            pool.free_all_blocks()

    def _pools(self) -> Iterator[Any]:
        """The pool, once on each device in use: it answers for the current device only."""
        pool = self._cupy.get_default_memory_pool()
        for device in range(self._cupy.cuda.runtime.getDeviceCount()):
            with self._on(device) as usable:
                if usable:
                    yield pool

    @contextmanager
    def _on(self, device: int) -> Iterator[bool]:
        # Since CUDA 12 choosing a device makes its context, so devices without one are left alone.
        usable = _has_context(device)
        chosen: AbstractContextManager[Any] = self._cupy.cuda.Device(device) if usable else nullcontext()
        with chosen:
            yield usable


class _Jax:
    name = "jax"

    def __init__(self, jax: Any) -> None:
        self._jax = jax

    def held(self) -> int:
        return sum(stats.get("pool_bytes") or stats.get("bytes_in_use", 0) for stats in self._stats())

    def in_use(self) -> int:
        return sum(stats.get("bytes_in_use", 0) for stats in self._stats())

    def empty_cache(self) -> None:
        if self._started():
            self._jax.clear_caches()

    def _stats(self) -> Iterator[dict[str, int]]:
        if not self._started():
            return
        for device in self._jax.local_devices():
            if device.platform in {"gpu", "cuda", "rocm"}:
                yield device.memory_stats() or {}

    def _started(self) -> bool:
        # Asking JAX for its devices would start it, and by default take three quarters of the GPU.
        bridge = sys.modules.get("jax._src.xla_bridge")
        return bridge is not None and bool(bridge.backends_are_initialized())


class _Simulated:
    name = "simulated"

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda

    def held(self) -> int:
        return int(self._cuda.memory_reserved())

    def in_use(self) -> int:
        return int(self._cuda.memory_allocated())

    def empty_cache(self) -> None:
        self._cuda.empty_cache()


_FRAMEWORKS: Sequence[tuple[str, type[Any]]] = (
    ("torch", _Torch),
    ("cupy", _CuPy),
    ("jax", _Jax),
    ("jupyter_gpushare.devices.simulated.cuda", _Simulated),
)


def _has_context(device: int) -> bool:
    """Whether this process already has a primary context on *device*, by the CUDA driver's own word."""
    driver = ctypes.CDLL("libcuda.so.1")
    flags, active = ctypes.c_uint(), ctypes.c_int()
    failed = driver.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(active))
    return not failed and bool(active.value)
