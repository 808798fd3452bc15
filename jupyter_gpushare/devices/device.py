"""The one interface to GPUs, whatever stands behind it: NVIDIA, AMD, or the simulated machine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from jupyter_gpushare.quantity import Memory

__all__ = ["Attribution", "Device", "DeviceUse", "Driver", "DriverState", "ProcessUse", "Reading", "Source"]


class DriverState(StrEnum):
    """Where the driver stands. *Lost* is a driver that worked and stopped; it is tried again."""

    ABSENT = "absent"
    READY = "ready"
    LOST = "lost"


class Attribution(StrEnum):
    """How a number was found, from best to worst (DESIGN 9)."""

    EXACT = "exact"
    IN_KERNEL = "in_kernel"
    DEVICE_TOTAL = "device_total"
    UNAVAILABLE = "unavailable"


class Reading(msgspec.Struct, frozen=True):
    """A number with its attribution, or not available with the reason. Unknown is never zero.

    Memory is in bytes; utilisation is in per cent of the device's time, 0 to 100.
    """

    value: int | None
    attribution: Attribution
    reason: str = ""

    @classmethod
    def exact(cls, value: int) -> Reading:
        """A number that the driver itself gave for exactly this."""
        return cls(value, Attribution.EXACT)

    @classmethod
    def unavailable(cls, reason: str) -> Reading:
        """No number, because of *reason*, a short sentence for people."""
        return cls(None, Attribution.UNAVAILABLE, reason)


@dataclass(frozen=True, slots=True)
class Driver:
    """What a source is and how it does.

    Attributes:
        vendor: ``nvidia``, ``amd``, ``simulated`` or ``none``.
        state: absent, ready or lost.
        version: the driver's version, empty when unknown.
        reason: why it is not ready, for people, with what to do; empty when ready.
    """

    vendor: str
    state: DriverState
    version: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU or MIG instance. Identified by *uuid*; *index* is for people.

    Attributes:
        uuid: ``GPU-…`` or ``MIG-…``, as the driver writes it.
        index: the position on the host.
        host: the machine's name.
        kind: a short name in lower case that shares can ask for, such as ``a100``.
        name: the product name, such as ``NVIDIA A100-SXM4-40GB``.
        total: the device's memory.
        usable: what holders can get: total minus the driver's reserve.
        is_mig: whether this is a MIG instance, whose utilisation the driver does not give.
    """

    uuid: str
    index: int
    host: str
    kind: str
    name: str
    total: Memory
    usable: Memory
    is_mig: bool = False


class ProcessUse(msgspec.Struct, frozen=True):
    """What one process holds on one device. *pid* is as the driver reports it: perhaps of another namespace."""

    pid: int
    memory: Reading
    utilisation: Reading


class DeviceUse(msgspec.Struct, frozen=True):
    """One device at one moment: its totals and its processes.

    ``processes`` is None when the driver cannot list them, and ``processes_reason`` then says why.
    """

    uuid: str
    memory: Reading
    utilisation: Reading
    processes: tuple[ProcessUse, ...] | None
    processes_reason: str = ""


class Source(Protocol):
    """Where devices come from. Every method may block for as long as the driver does: call it in a thread.

    No method raises for what a driver does: trouble shows in `driver` and in readings that are not available.
    """

    def driver(self) -> Driver:
        """The driver's state. Opens the driver on first use, and tries again after it was lost."""

    def devices(self) -> Sequence[Device]:
        """The devices this process may see, empty when there are none. Constant while the driver stays ready."""

    def read(self) -> Sequence[DeviceUse]:
        """Each device's use now, in the order of `devices`."""

    def has_open(self, pids: Collection[int]) -> frozenset[int]:
        """Which of *pids*, local processes, have a device open. From the kernel's file tables: no driver call."""

    def close(self) -> None:
        """Let go of the driver. It may be opened again."""
