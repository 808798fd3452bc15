"""What this process has of the simulated machine: opened on first use, not inherited through a fork."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from jupyter_gpushare.devices.identity import myself
from jupyter_gpushare.devices.simulated.checkpointing import Checkpointing
from jupyter_gpushare.devices.simulated.context import Context, CudaError, ForkedError, NoDeviceError
from jupyter_gpushare.devices.simulated.driver_thread import DriverThread
from jupyter_gpushare.devices.simulated.driver_wire import address
from jupyter_gpushare.devices.simulated.latch import Latch
from jupyter_gpushare.devices.simulated.limits import is_mps_client, memory_limit
from jupyter_gpushare.devices.simulated.machine import Machine, MachineError
from jupyter_gpushare.devices.simulated.visible import MACHINE_VARIABLE, visible_devices

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_gpushare.devices.device import Device

__all__ = ["Runtime", "current", "reset", "started"]

_lock = threading.RLock()
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


class Runtime:
    """The devices that this process may see, and its contexts on them."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        path = environ.get(MACHINE_VARIABLE)
        if not path:
            raise NoDeviceError(f"{MACHINE_VARIABLE} is not set: this process was started without a simulated machine")
        try:
            self.machine = Machine.open(path)
        except MachineError as trouble:
            raise NoDeviceError(str(trouble)) from None
        self.devices = visible_devices(self.machine.devices, environ)
        self.pid = os.getpid()
        self._owner = myself()
        self._contexts: dict[int, Context] = {}
        self.machine.occupancy.forget(self._owner)
        self.latch = Latch()
        self._environ = dict(environ)
        self._driver: DriverThread | None = None
        if is_mps_client(environ):
            self.use("mps")

    def use(self, feature: str) -> None:
        """Record that this process uses *feature* of the driver."""
        self.machine.occupancy.use(self._owner, feature)

    @property
    def contexts(self) -> Sequence[Context]:
        """The contexts that are open."""
        return tuple(self._contexts.values())

    def device(self, ordinal: int) -> Device:
        """Device number *ordinal*.

        Raises:
            NoDeviceError: this process sees no such device.
        """
        if ordinal not in range(len(self.devices)):
            raise NoDeviceError(
                f"device: {ordinal!r} is not one of the {len(self.devices)} that this process sees;"
                " count from 0, and look at CUDA_VISIBLE_DEVICES"
            )
        return self.devices[ordinal]

    def context(self, ordinal: int) -> Context:
        """The context on device number *ordinal*, opened if need be.

        Raises:
            NoDeviceError: this process sees no such device.
            CudaError: it cannot be opened.
        """
        device = self.device(ordinal)
        if ordinal not in self._contexts:
            self.latch.wait()
            with self.latch.calls:
                self.latch.wait()
                with _lock:
                    if ordinal not in self._contexts:
                        self._contexts[ordinal] = self._open(device, ordinal)
        return self._contexts[ordinal]

    def _open(self, device: Device, ordinal: int) -> Context:
        try:
            limit = memory_limit(self._environ, ordinal, device.uuid)
        except ValueError as trouble:
            raise CudaError(str(trouble)) from None
        if self._driver is None:
            carry_out = Checkpointing(self.machine, self._owner, self.latch, lambda: self.contexts).carry_out
            self._driver = DriverThread(address(self.machine.id, self._owner), carry_out)
        return Context.open(self.machine, device, ordinal, self._owner, latch=self.latch, limit=limit)

    def close_contexts(self) -> None:
        """Give everything back."""
        for context in self.contexts:
            context.close()
        self._contexts.clear()

    def stop(self) -> None:
        """Let go of the machine, after `close_contexts`. Waits for a controller's request that is carried out now."""
        if self._driver is not None:
            self._driver.stop()
        if self.latch.is_shut:  # Locked at the last moment: nothing is left that could be parked.
            self.latch.open()
        self.latch.close()
        self.machine.close()


_runtime: Runtime | None = None


def started() -> Runtime | None:
    """This process's runtime if it has one.

    Raises:
        ForkedError: its parent had opened a context.
    """
    global _runtime  # noqa: PLW0603 - CUDA's state belongs to the process, so does this
    with _lock:
        if _runtime is not None and _runtime.pid != os.getpid():
            if _runtime.contexts:
                raise ForkedError
            _runtime = None
        return _runtime


def current() -> Runtime:
    """This process's runtime, started if need be.

    Raises:
        NoDeviceError: no simulated machine was given to this process.
        ForkedError: its parent had opened a context.
    """
    global _runtime  # noqa: PLW0603 - as above
    with _lock:
        here = started()
        if here is None:
            here = _runtime = Runtime(os.environ)
        return here


def reset() -> None:
    """Give back all that this process has; the next use starts anew."""
    global _runtime  # noqa: PLW0603 - as above
    here = started()
    if here is None:
        return
    here.latch.wait()
    with here.latch.calls:
        here.latch.wait()
        with _lock:
            if _runtime is here:
                _runtime = None
            here.close_contexts()
    here.stop()
