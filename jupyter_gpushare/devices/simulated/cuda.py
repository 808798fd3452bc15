"""A tiny API to the simulated GPUs that behaves as CUDA does below a framework with a caching allocator.

    from jupyter_gpushare.devices.simulated import cuda

    weights = cuda.allocate("2GiB")
    weights.fill(seed=1)
    cuda.compute(load=80, seconds=5)

The first use of a device opens a context, which costs memory until the process ends. Freed buffers stay
*reserved* by this process until `empty_cache`. Memory is not zeroed. A forked child cannot use what its
parent opened; if the parent had opened nothing, the child opens its own. Devices are numbered as
``CUDA_VISIBLE_DEVICES`` lists them. Every function may raise a `CudaError`.

While a controller has locked or parked the process, every call waits until it is unlocked. As with CUDA, an interrupt
(Ctrl-C, the stop button) is delivered only then, and `synchronize` crashes the process while its memory is away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from jupyter_gpushare.devices.device import DriverState
from jupyter_gpushare.devices.simulated import runtime
from jupyter_gpushare.devices.simulated.buffer import Buffer
from jupyter_gpushare.devices.simulated.context import (
    CudaError,
    DriverError,
    ForkedError,
    NoDeviceError,
    OutOfMemoryError,
)
from jupyter_gpushare.devices.simulated.occupancy import NoRoom
from jupyter_gpushare.quantity import Memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_gpushare.devices.simulated.context import Context

__all__ = [
    "Buffer",
    "CudaError",
    "DriverError",
    "Feature",
    "ForkedError",
    "NoDeviceError",
    "OutOfMemoryError",
    "allocate",
    "compute",
    "device_count",
    "device_name",
    "device_reset",
    "empty_cache",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "synchronize",
    "use",
]

Feature = Literal["managed_memory", "mps", "nccl", "ipc"]


def device_count() -> int:
    """How many devices this process sees: 0 without a simulated machine or without its driver."""
    try:
        here = runtime.current()
    except NoDeviceError:
        return 0
    state, _ = here.machine.faults().driver()
    return 0 if state is DriverState.ABSENT else len(here.devices)


def device_name(device: int = 0) -> str:
    """The product name of *device*. Opens no context."""
    return runtime.current().device(device).name


def allocate(size: int | str, device: int = 0) -> Buffer:
    """A new buffer of *size*, bytes or text such as ``2GiB``, with whatever content the memory has.

    Raises:
        ValueError: *size* is not an amount of memory.
        OutOfMemoryError: the device has no room, even after this process's cache was given back.
    """
    wanted = Memory.parse(size).bytes if isinstance(size, str) else size
    if not isinstance(wanted, int) or isinstance(wanted, bool) or wanted <= 0 or wanted == Memory.UNLIMITED.bytes:
        raise ValueError(f"size: {size!r} is not an amount of memory; write for example '2GiB'")
    context = runtime.current().context(device)
    with context.turn():
        context.enter("allocate")
        try:
            block = context.allocator.allocate(wanted)
        except NoRoom:
            raise OutOfMemoryError(context.describe_shortage(wanted)) from None
        return Buffer(context, block, wanted)


def compute(load: float, seconds: float, device: int = 0) -> None:
    """Compute for *seconds*, taking *load* per cent of the device's time. Returns when done; an interrupt ends it.

    Raises:
        ValueError: *load* is not in per cent, or *seconds* is negative.
    """
    if not 1 <= load <= 100:  # noqa: PLR2004 - per cent
        raise ValueError(f"load: {load!r} is not in per cent, 1 to 100; write for example 80")
    if not 0 <= seconds < float("inf"):
        raise ValueError(f"seconds: {seconds!r} is not a time; write for example 5")
    runtime.current().context(device).compute(load, seconds)


def synchronize(device: int = 0) -> None:
    """Wait until this process's computations on *device* have ended."""
    runtime.current().context(device).synchronize()


def empty_cache() -> None:
    """Give memory that no buffer uses back to the devices. Does nothing where none was used."""
    for context in _open():
        context.release_cached()


def memory_allocated(device: int | None = None) -> int:
    """The bytes that buffers of this process use, on *device* or on all. Opens no context."""
    return sum(context.allocator.allocated for context in _open() if device in (None, context.ordinal))


def memory_reserved(device: int | None = None) -> int:
    """The bytes that this process's buffers and cache take, on *device* or on all. Opens no context."""
    return sum(context.allocator.reserved for context in _open() if device in (None, context.ordinal))


def mem_get_info(device: int = 0) -> tuple[int, int]:
    """The free and the total bytes of *device*, whoever uses it."""
    context = runtime.current().context(device)
    with context.turn():
        context.enter("memory")
        return context.memory()


def use(feature: Feature) -> None:
    """Turn on what makes this process hard or impossible to park. Opens no context.

    Managed memory and MPS cannot be parked, and an attempt with managed memory loses the GPU state. NCCL and memory
    shared by IPC are recorded, for those who ask before they park.

    Raises:
        ValueError: there is no such feature.
    """
    if feature not in get_args(Feature):
        raise ValueError(f"feature: {feature!r} is not one of {', '.join(get_args(Feature))}")
    runtime.current().use(feature)


def device_reset() -> None:
    """End this process's contexts on all devices. Its buffers are lost."""
    runtime.reset()


def _open() -> Sequence[Context]:
    here = runtime.started()
    return here.contexts if here else ()
