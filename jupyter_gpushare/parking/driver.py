"""What moves GPU state for a notebook server or a job: the checkpoint process, the journal, the budget, the Parker.

Nothing is started before something is to be parked or cleaned up: whoever holds no GPU has no checkpoint process.
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Literal

import psutil

from jupyter_gpushare.devices.discovery import SIMULATED_MACHINE
from jupyter_gpushare.parking.checkpoint import CheckpointDriver, CheckpointError
from jupyter_gpushare.parking.device_token import TokenError, shared_directory
from jupyter_gpushare.parking.harmful_drivers import checkpoint_before_kill
from jupyter_gpushare.parking.host_memory import HostMemory
from jupyter_gpushare.parking.journal import Journal
from jupyter_gpushare.parking.parker import Parker
from jupyter_gpushare.parking.remote_checkpoint import RemoteCheckpoint, checkpoint_command
from jupyter_gpushare.parking.room import DeviceRoom, RoomReading
from jupyter_gpushare.parking.trouble import room_unknown

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_gpushare.devices.device import DeviceUse, Source
    from jupyter_gpushare.parking.recovery import Recovered
    from jupyter_gpushare.parking.sequence import Parked, Resumed, Step, Target

__all__ = ["ParkingDriver", "default_budget"]

_ROOM_S = 5.0


class ParkingDriver:
    """Moves GPU state; what is moved has a name of its owner's, a kernel's id or a job's.

    Args:
        open_source: gives the devices once more, since room is asked for in a thread of its own.
        foreign: bytes of a device's use that belong to no process of this owner.
        state: where the journal is.
        shared: where all servers of this host meet for tokens and bookings; None for the host's own place.
        budget: bytes of host memory for everything parked on this host.
        freeze: stop parked kernels' processes.
        log: where trouble goes.
    """

    def __init__(
        self,
        *,
        open_source: Callable[[], Source],
        foreign: Callable[[DeviceUse], int],
        state: Path,
        shared: str | None,
        budget: int,
        freeze: bool,
        log: logging.Logger,
    ) -> None:
        self._room = _Room(open_source, foreign)
        self._state = state
        self._shared = shared
        self._budget = budget
        self._freeze = freeze
        self._log = log
        self._driver: CheckpointDriver | None = None
        self._checkpoint: RemoteCheckpoint | None = None
        self._memory: HostMemory | None = None
        self._parker: Parker | None = None
        self._opening = asyncio.Lock()

    @property
    def known(self) -> CheckpointDriver | None:
        """The driver, None while it was not asked."""
        return self._driver

    async def driver(self) -> CheckpointDriver:
        """The driver, asked once; one that cannot be had says why in `missing`, and is asked again next time."""
        if self._driver is None:
            try:
                await self._opened()
            except (OSError, TokenError, CheckpointError) as error:
                self._log.warning("Nothing can be parked here: %s", error)
                return CheckpointDriver(_vendor(), missing=str(error))
        assert self._driver is not None  # noqa: S101  # `_opened` set it
        return self._driver

    async def budget_left(self) -> int | None:
        """Bytes that are left of the host's budget; None while nothing was ever parked from here."""
        memory = self._memory
        return None if memory is None else max(0, self._budget - await asyncio.to_thread(memory.booked))

    async def park(self, target: Target, began: Callable[[Step], None]) -> Parked:
        """Park *target*; see `Parker.park`."""
        return await (await self._opened()).park(target, began)

    async def resume(self, parked: Parked, began: Callable[[Step], None]) -> Resumed:
        """Bring *parked* back; see `Parker.resume`."""
        return await (await self._opened()).resume(parked, began)

    async def forget(self, kernel_id: str) -> None:
        """The kernel ended."""
        if self._parker is not None:
            await self._parker.forget(kernel_id)

    async def before_kill(self, kernel_id: str) -> bool:
        """The kernel is about to be killed; True when it must be, as its GPU state is away."""
        return self._parker is not None and await self._parker.before_kill(kernel_id)

    async def recover(self, announce: Callable[[Recovered], None]) -> list[Recovered]:
        """Clean up after servers that died. No checkpoint process is started when none did."""
        async with self._opening:
            parker = await self._make(harmful_kill=False)
        return await parker.recover(announce)

    async def stop(self) -> None:
        """End the checkpoint process and give every booking back."""
        if self._checkpoint is not None:
            await self._checkpoint.aclose()
        if self._memory is not None:
            await asyncio.to_thread(self._memory.close)
        self._room.close()

    async def _opened(self) -> Parker:
        async with self._opening:
            if self._parker is None:
                self._parker = await self._open()
            return self._parker

    async def _open(self) -> Parker:
        checkpoint, _ = await self._parts()
        self._driver = await checkpoint.driver()
        return await self._make(harmful_kill=checkpoint_before_kill(self._driver.version))

    async def _make(self, *, harmful_kill: bool) -> Parker:
        checkpoint, memory = await self._parts()
        journal = await asyncio.to_thread(Journal, self._state)
        return Parker(
            checkpoint, journal, memory, self._room, freeze=self._freeze, harmful_kill=harmful_kill, log=self._log
        )

    async def _parts(self) -> tuple[RemoteCheckpoint, HostMemory]:
        """What is made once; the checkpoint process itself starts with the first call."""
        if self._checkpoint is None or self._memory is None:
            shared = await asyncio.to_thread(shared_directory, self._shared)
            command = checkpoint_command(simulated=os.environ.get(SIMULATED_MACHINE) or None, locks=shared)
            self._checkpoint = RemoteCheckpoint(command, log=self._log)
            self._memory = HostMemory(shared, self._budget)
        return self._checkpoint, self._memory


class _Room:
    """Asks a source of its own for room, in one thread: a driver that hangs costs that thread and nothing else."""

    def __init__(self, open_source: Callable[[], Source], foreign: Callable[[DeviceUse], int]) -> None:
        self._open_source = open_source
        self._foreign = foreign
        self._room: DeviceRoom | None = None
        self._thread = ThreadPoolExecutor(1, "gpushare-room")

    async def __call__(self, device: str) -> RoomReading:
        reading = asyncio.get_running_loop().run_in_executor(self._thread, self._read, device)
        try:
            return await asyncio.wait_for(reading, _ROOM_S)
        except TimeoutError:
            return RoomReading(None, 0, reason=room_unknown("the driver does not answer"))

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _read(self, device: str) -> RoomReading:
        if self._room is None:
            self._room = DeviceRoom(self._open_source(), self._foreign)
        # Its own call would take a thread of the pool that the whole server shares.
        return self._room._read(device)  # noqa: SLF001


def _vendor() -> Literal["nvidia", "simulated"]:
    return "simulated" if os.environ.get(SIMULATED_MACHINE) else "nvidia"


def default_budget() -> int:
    """Half of this host's memory."""
    return int(psutil.virtual_memory().total // 2)
