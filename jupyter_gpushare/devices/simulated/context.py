"""One process's context on one simulated device, and the errors that a program meets there."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from jupyter_gpushare.devices.simulated.allocator import CachingAllocator
from jupyter_gpushare.devices.simulated.occupancy import NoRoom
from jupyter_gpushare.devices.simulated.store import MachineError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from jupyter_gpushare.devices.device import Device
    from jupyter_gpushare.devices.identity import Identity
    from jupyter_gpushare.devices.simulated.arena import Arena
    from jupyter_gpushare.devices.simulated.faults import Call, Faults
    from jupyter_gpushare.devices.simulated.machine import Machine
    from jupyter_gpushare.devices.simulated.occupancy import Allocation

__all__ = ["Context", "CudaError", "DriverError", "ForkedError", "NoDeviceError", "OutOfMemoryError", "pass_call"]

# How often a running computation looks whether its driver is still there.
_LOOK_EVERY_S = 0.1


class CudaError(RuntimeError):
    """What a simulated GPU refuses. The message says why and what to do."""


class NoDeviceError(CudaError):
    """There is no such simulated device for this process."""


class DriverError(CudaError):
    """The driver is not there, or failed at this call."""


class ForkedError(CudaError):
    """A forked child used what its parent had opened. As with CUDA, a context does not survive a fork."""

    def __init__(self) -> None:
        super().__init__(
            "a forked process cannot use the GPU that its parent had opened: "
            "start it with multiprocessing's 'spawn', or fork before the first use"
        )


class OutOfMemoryError(CudaError):
    """The device has not enough free memory."""


def pass_call(faults: Faults, call: Call) -> None:
    """Go through *call* as the driver lets it: late, or not at all.

    Raises:
        DriverError: it fails.
    """
    if delay_s := faults.delay_s(call):
        time.sleep(delay_s)
    if reason := faults.failure(call):
        raise DriverError(f"simulated CUDA error: {reason}")


class Context:
    """What this process has open on *device*, its number *ordinal* here. Made by `open`, used until `close`."""

    def __init__(self, machine: Machine, device: Device, ordinal: int, context_id: int, arena: Arena) -> None:
        self.device = device
        self.ordinal = ordinal
        self.arena = arena
        self.allocator = CachingAllocator(self)
        self._machine = machine
        self._id = context_id
        self._pid = os.getpid()
        self._is_closed = False
        self._loads = 0
        self._load_ended = threading.Condition()

    @classmethod
    def open(cls, machine: Machine, device: Device, ordinal: int, owner: Identity) -> Context:
        """*owner*'s context on *device*.

        Raises:
            OutOfMemoryError: the context itself does not fit.
            DriverError: the driver is not there.
        """
        pass_call(machine.faults(), "open_context")
        arena = machine.open_arena(device.uuid)
        try:
            context_id = machine.occupancy.open_context(device.uuid, owner, machine.context_bytes)
        except NoRoom as trouble:
            arena.close()
            raise OutOfMemoryError(
                f"simulated CUDA out of memory: GPU {ordinal} ({device.name}) has {_short(trouble.free)} free,"
                f" a context takes {_short(trouble.asked)}. Wait, or ask other holders to release memory."
            ) from None
        except BaseException:
            arena.close()
            raise
        return cls(machine, device, ordinal, context_id, arena)

    def close(self) -> None:
        """Give everything back. Buffers that are left are lost."""
        self._is_closed = True
        self.arena.close()
        with suppress(MachineError):  # A machine that is gone holds nothing of ours.
            self._machine.occupancy.close_context(self._id)

    def enter(self, call: Call) -> None:
        """Begin *call*.

        Raises:
            ForkedError: in a forked child.
            CudaError: after `close`, or after the driver went away once, for ever.
            DriverError: the driver is not there, or fails at this call.
        """
        if self._pid != os.getpid():
            raise ForkedError
        if self._is_closed:
            raise CudaError("this device was reset and its buffers are gone: allocate new ones")
        is_usable, faults = self._machine.occupancy.condition(self._id)
        pass_call(faults, call)
        if not is_usable:
            raise DriverError(
                "simulated CUDA error: the driver went away and took this process's GPU state along: restart the kernel"
            )

    def take(self, size: int) -> Allocation:
        """A segment for the allocator."""
        return self._machine.occupancy.allocate(self._id, size)

    def keep(self, segments: Collection[Allocation]) -> None:
        """Give all other segments back."""
        self._machine.occupancy.keep(self._id, [segment.id for segment in segments], self.arena)

    def memory(self) -> tuple[int, int]:
        """Free and total bytes of the device."""
        return self._machine.occupancy.room(self.device.uuid), self.device.total.bytes

    def describe_shortage(self, asked: int) -> str:
        """Why *asked* bytes were not to be had, in one paragraph."""
        free, _ = self.memory()
        cached = self.allocator.reserved - self.allocator.allocated
        return (
            f"simulated CUDA out of memory: tried to allocate {_short(asked)}; GPU {self.ordinal} ({self.device.name})"
            f" has {_short(free)} of {_short(self.device.usable.bytes)} free. This process uses"
            f" {_short(self.allocator.allocated)} and caches {_short(cached)}. Free buffers that you no longer need and"
            " call empty_cache(), or wait until other holders release memory."
        )

    def compute(self, per_cent: float, seconds: float) -> None:
        """Keep the device busy at *per_cent* for *seconds*; an exception, such as KeyboardInterrupt, ends it."""
        deadline = time.monotonic() + seconds
        with self._load(per_cent):
            while (left := deadline - time.monotonic()) > 0:
                time.sleep(min(left, _LOOK_EVERY_S))
                self.enter("compute")

    @contextmanager
    def _load(self, per_cent: float) -> Iterator[None]:
        with self._load_ended:
            self._loads += 1
        load = None
        try:
            load = self._machine.occupancy.begin_load(self._id, per_cent)
            yield
        finally:
            if load is not None:
                self._machine.occupancy.end_load(load)
            with self._load_ended:
                self._loads -= 1
                self._load_ended.notify_all()

    def synchronize(self) -> None:
        """Wait until this process's computations on the device, those of other threads, have ended."""
        with self._load_ended:
            self._load_ended.wait_for(lambda: not self._loads)


def _short(size: int) -> str:
    return f"{size / (1 << 30):.2f} GiB" if size >= 1 << 30 else f"{size / (1 << 20):.0f} MiB"
