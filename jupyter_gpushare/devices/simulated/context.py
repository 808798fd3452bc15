"""One process's context on one simulated device, and the errors that a program meets there."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from jupyter_gpushare.devices.simulated.allocator import CachingAllocator
from jupyter_gpushare.devices.simulated.occupancy import NoRoom
from jupyter_gpushare.devices.simulated.store import MachineError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from contextlib import AbstractContextManager

    from jupyter_gpushare.devices.device import Device
    from jupyter_gpushare.devices.identity import Identity
    from jupyter_gpushare.devices.simulated.arena import Arena
    from jupyter_gpushare.devices.simulated.extents import Extent
    from jupyter_gpushare.devices.simulated.faults import Call, Faults
    from jupyter_gpushare.devices.simulated.latch import Latch
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


def pass_call(machine: Machine, faults: Faults, call: Call) -> None:
    """Go through *call* as the driver lets it: late, never, or not at all.

    Raises:
        DriverError: it fails.
    """
    while faults.hangs(call):
        time.sleep(_LOOK_EVERY_S)
        faults = machine.faults()
    if faults.kills_owner(call):
        signal.raise_signal(signal.SIGKILL)
    if delay_s := faults.delay_s(call):
        time.sleep(delay_s)
    if reason := faults.failure(call):
        raise DriverError(f"simulated CUDA error: {reason}")


class Context:
    """What this process has open on *device*, its number *ordinal* here. Made by `open`, used until `close`."""

    def __init__(
        self,
        machine: Machine,
        device: Device,
        ordinal: int,
        *,
        context_id: int,
        arena: Arena,
        latch: Latch,
        limit: int,
    ) -> None:
        self.device = device
        self.ordinal = ordinal
        self.arena = arena
        self.allocator = CachingAllocator(self)
        self._machine = machine
        self._id = context_id
        self._latch = latch
        self._limit = limit
        self._pid = os.getpid()
        self._is_closed = False
        self._computing: set[object] = set()
        self._ended = threading.Condition()

    @classmethod
    def open(
        cls, machine: Machine, device: Device, ordinal: int, owner: Identity, *, latch: Latch, limit: int | None = None
    ) -> Context:
        """*owner*'s context on *device*, that may hold *limit* bytes there. Its calls go through *latch*.

        Raises:
            OutOfMemoryError: the context itself does not fit.
            DriverError: the driver is not there.
        """
        pass_call(machine, machine.faults(), "open_context")
        limit = device.usable.bytes if limit is None else min(limit, device.usable.bytes)
        arena = machine.open_arena(device.uuid)
        try:
            context_id = machine.occupancy.open_context(device.uuid, owner, machine.context_bytes, limit)
        except NoRoom as trouble:
            arena.close()
            raise OutOfMemoryError(
                f"simulated CUDA out of memory: GPU {ordinal} ({device.name}) has {_short(trouble.free)} free,"
                f" a context takes {_short(trouble.asked)}. Wait, or ask other holders to release memory."
            ) from None
        except BaseException:
            arena.close()
            raise
        return cls(machine, device, ordinal, context_id=context_id, arena=arena, latch=latch, limit=limit)

    def close(self) -> None:
        """Give everything back. Buffers that are left are lost."""
        self._is_closed = True
        self.arena.close()
        with suppress(MachineError):  # A machine that is gone holds nothing of ours.
            self._machine.occupancy.close_context(self._id)

    def turn(self) -> AbstractContextManager[object]:
        """What a call holds while it lasts; waits while the process is locked. Call `enter` inside.

        Raises:
            ForkedError: in a forked child.
        """
        if self._pid != os.getpid():
            raise ForkedError
        self._latch.wait()
        return self._latch.calls

    def enter(self, call: Call) -> None:
        """Begin *call*, as soon as the process is not locked.

        Raises:
            CudaError: after `close`, or after the GPU state was lost once, for ever.
            DriverError: the driver is not there, or fails at this call.
        """
        self._latch.wait()
        self._check(call)

    def _check(self, call: Call) -> None:
        if self._is_closed:
            raise CudaError("this device was reset and its buffers are gone: allocate new ones")
        is_usable, faults = self._machine.occupancy.condition(self._id)
        pass_call(self._machine, faults, call)
        if not is_usable:
            raise DriverError(
                "simulated CUDA error: the driver went away or a park failed, and this process's GPU state is lost:"
                " restart the kernel"
            )

    def take(self, size: int) -> Allocation:
        """A segment for the allocator."""
        return self._machine.occupancy.allocate(self._id, size, self._limit)

    def keep(self, segments: Collection[Allocation]) -> None:
        """Give all other segments back."""
        self._machine.occupancy.keep(self._id, [segment.id for segment in segments], self.arena)

    def relocate(self, found: Mapping[int, tuple[Extent, ...]]) -> None:
        """Learn where the segments lie now, by allocation."""
        self.allocator.relocate(found)

    def memory(self) -> tuple[int, int]:
        """Free and total bytes of the device, or of what is left to this process of it."""
        room = self._machine.occupancy.room(self.device.uuid)
        if self._limit >= self.device.usable.bytes:
            return room, self.device.total.bytes
        return min(room, max(0, self._limit - self._machine.occupancy.held(self._id))), self._limit

    def release_cached(self) -> None:
        """Give back what no buffer uses. It synchronises, as CUDA's freeing does: while memory is away it crashes."""
        self._crash_if_away()
        with self.turn():
            self.enter("free")
            self.allocator.release_cached()

    def _crash_if_away(self) -> None:
        if self._latch.is_away:
            ctypes.string_at(0)  # Nothing is mapped there: SIGSEGV, which no handler of Python's can survive.

    def describe_shortage(self, asked: int) -> str:
        """Why *asked* bytes were not to be had, in one paragraph."""
        free, _ = self.memory()
        cached = self.allocator.reserved - self.allocator.allocated
        return (
            f"simulated CUDA out of memory: tried to allocate {_short(asked)}; GPU {self.ordinal} ({self.device.name})"
            f" has {_short(free)} of {_short(self._limit)} free. This process uses"
            f" {_short(self.allocator.allocated)} and caches {_short(cached)}. Free buffers that you no longer need and"
            " call empty_cache(), or wait until other holders release memory."
        )

    @property
    def is_computing(self) -> bool:
        """Whether a computation of any thread runs."""
        return bool(self._computing)

    def compute(self, per_cent: float, seconds: float) -> None:
        """Keep the device busy at *per_cent* for *seconds*; an exception, such as KeyboardInterrupt, ends it."""
        computation, load = object(), None
        try:
            with self.turn():
                self.enter("compute")
                self._computing.add(computation)
            deadline = time.monotonic() + seconds
            load = self._machine.occupancy.begin_load(self._id, per_cent)
            while (left := deadline - time.monotonic()) > 0:
                time.sleep(min(left, _LOOK_EVERY_S))
                self._check("compute")
        finally:
            # First of all, or another interrupt could leave the process computing for ever in the driver's eyes.
            self._computing.discard(computation)
            with self._ended:
                self._ended.notify_all()
            if load is not None:
                self._machine.occupancy.end_load(load)

    def synchronize(self) -> None:
        """Wait until this process's computations on the device, those of other threads, have ended.

        While the process is locked this returns at once, and while its memory is away it crashes, as CUDA does.
        """
        self._crash_if_away()
        if self._latch.is_shut:
            return
        with self.turn():
            self.enter("synchronize")
        with self._ended:
            self._ended.wait_for(lambda: not self._computing)


def _short(size: int) -> str:
    return f"{size / (1 << 30):.2f} GiB" if size >= 1 << 30 else f"{size / (1 << 20):.0f} MiB"
