"""How much room a device has now, as its driver reports it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.parking import trouble

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from jupyter_gpushare.devices.device import DeviceUse, Source
    from jupyter_gpushare.rules.message import Message

    Room = Callable[[str], Awaitable["RoomReading"]]

__all__ = ["DeviceRoom", "RoomReading"]


@dataclass(frozen=True, slots=True)
class RoomReading:
    """One device at one moment.

    Attributes:
        free: bytes that nobody holds; None when unknown, and then nothing may come back.
        whole: bytes that the device has when it is empty. A kernel that had nearly all of it needs no margin on top.
        claim_cost: bytes that proving room takes itself. CUDA's claim needs a context, for which a kernel that had
            nearly all of the device leaves no room; the last bytes then rest on *free* alone.
        foreign: bytes held by processes that are not ours.
        reason: why nothing may come back here now, a clause for people, or None. It decides before any number does.
    """

    free: int | None
    whole: int
    foreign: int = 0
    reason: Message | None = None
    claim_cost: int = 0


class DeviceRoom:
    """Room by the devices' own readings, fresh at each call.

    Args:
        source: the devices.
        foreign: bytes on this device that belong to no process of ours.
    """

    def __init__(self, source: Source, foreign: Callable[[DeviceUse], int] | None = None) -> None:
        self._source = source
        self._foreign = foreign

    async def __call__(self, device: str) -> RoomReading:
        """The room on *device* now."""
        return await asyncio.to_thread(self._read, device)

    def _read(self, uuid: str) -> RoomReading:
        device = next((device for device in self._source.devices() if device.uuid == uuid), None)
        use = next((use for use in self._source.read() if use.uuid == uuid), None)
        if device is None or use is None:
            return RoomReading(None, 0, reason=trouble.device_missing(uuid))
        whole = device.usable.bytes
        claim_cost = _CLAIM_COST.get(self._source.driver().vendor, 0)
        foreign = self._foreign(use) if self._foreign else 0
        if use.memory.value is None:
            return RoomReading(None, whole, foreign, trouble.room_unknown(use.memory.reason))
        return RoomReading(max(0, whole - use.memory.value), whole, foreign, claim_cost=claim_cost)


# A CUDA context takes 0.3 to 0.6 GB on the devices that we know.
_CLAIM_COST: Final = {"nvidia": 1 << 30}
