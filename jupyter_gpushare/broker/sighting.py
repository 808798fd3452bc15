"""What the devices show, divided by lease: who holds what, what is foreign, and which lists can be believed."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.kinship import Kinship
from jupyter_gpushare.devices.descendants import descendants
from jupyter_gpushare.devices.device import DriverState
from jupyter_gpushare.devices.identity import Identity, identify, is_alive
from jupyter_gpushare.devices.process_tree import in_host_pid_namespace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jupyter_gpushare.devices.device import Device, DeviceUse, Driver, Source

__all__ = ["Look", "Sighting"]

_UNKNOWN_START: Final = -1
# A process that ends between the driver's list and ours is on no second list, unless the driver's lags.
_MOST_READS: Final = 2


@dataclass(frozen=True, slots=True)
class Sighting:
    """Every device at one moment.

    Attributes:
        began: when the reading began, in seconds that only go forward.
        driver: the driver's state; while it is not ready the rest says nothing.
        devices: all of them.
        readable: of which devices the list of processes can be believed.
        held: bytes by lease and device; None where the driver gives no number for a process that it lists.
        processes: by lease, those that were listed.
        foreign: bytes by device of processes that belong to no lease.
        strangers: by device, the processes that belong to no lease.
        utilisation: by device, how busy it is, in per cent of its time; only of those that tell.
    """

    began: float
    driver: Driver
    devices: Sequence[Device] = ()
    readable: frozenset[str] = frozenset()
    held: Mapping[str, Mapping[str, int | None]] = field(default_factory=dict)
    processes: Mapping[str, frozenset[Identity]] = field(default_factory=dict)
    foreign: Mapping[str, int] = field(default_factory=dict)
    strangers: Mapping[str, frozenset[Identity]] = field(default_factory=dict)
    utilisation: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_ready(self) -> bool:
        """Whether it says anything."""
        return self.driver.state is DriverState.READY


class Look:
    """Looks at the devices, again and again. Blocking: for one thread.

    Args:
        source: the devices.
        monotonic: seconds that only go forward.
        host_pids: whether the driver's process ids are known to be ours; else that has to show.
    """

    def __init__(self, source: Source, monotonic: Callable[[], float], *, host_pids: bool | None = None) -> None:
        self._source = source
        self._monotonic = monotonic
        self._kinship = Kinship()
        self._is_proven = in_host_pid_namespace() if host_pids is None else host_pids

    def take(self, roots: Mapping[Identity, str]) -> Sighting:
        """One look, with the leases of the processes that holders named."""
        began = self._monotonic()
        driver = self._source.driver()
        devices = tuple(self._source.devices())
        if driver.state is not DriverState.READY:
            return Sighting(began, driver, devices)
        uses, ours = self._read(roots)
        readable = self._readable(uses, ours, roots)
        return _divide(Sighting(began, driver, devices, readable), uses, ours)

    def close(self) -> None:
        """Let go of the driver."""
        self._source.close()

    def _read(self, roots: Mapping[Identity, str]) -> tuple[Sequence[DeviceUse], dict[int, str]]:
        """What the devices are used for, and by which leases."""
        for _ in range(_MOST_READS):
            uses = tuple(self._source.read())
            ours = self._ours(uses, roots)
            if not (self._is_proven and _has_ended(uses, ours)):
                break
        return uses, ours

    def _ours(self, uses: Sequence[DeviceUse], roots: Mapping[Identity, str]) -> dict[int, str]:
        """The lease of each listed process that has one."""
        listed = {process.pid for use in uses for process in use.processes or ()}
        claimed = self._kinship.leases_of(listed, roots)
        if self._is_proven or not claimed:
            return claimed
        # A number may by chance be one of our processes': only one that has a device open can be meant.
        confirmed = self._source.has_open(claimed.keys())
        self._is_proven = bool(confirmed)
        return {pid: lease for pid, lease in claimed.items() if pid in confirmed}

    def _readable(
        self, uses: Sequence[DeviceUse], ours: Mapping[int, str], roots: Mapping[Identity, str]
    ) -> frozenset[str]:
        listed = frozenset(use.uuid for use in uses if use.processes is not None)
        if self._is_proven or ours or not any(use.processes for use in uses):
            return listed
        # Processes are listed, none of ours among them, and one of ours has a device open: another namespace's numbers.
        # This process is no witness: reading the driver opens the devices too.
        witnesses = descendants({each.pid for each in roots if is_alive(each)}) - {os.getpid()}
        return frozenset() if self._source.has_open(witnesses) else listed


def _has_ended(uses: Sequence[DeviceUse], ours: Mapping[int, str]) -> bool:
    """Whether a listed process is no more, and was nobody's that we knew: it would be taken for a stranger."""
    return any(
        process.pid not in ours and identify(process.pid) is None for use in uses for process in use.processes or ()
    )


def _divide(seen: Sighting, uses: Sequence[DeviceUse], ours: Mapping[int, str]) -> Sighting:
    held: defaultdict[str, dict[str, int | None]] = defaultdict(dict)
    processes: defaultdict[str, set[Identity]] = defaultdict(set)
    strangers: defaultdict[str, set[Identity]] = defaultdict(set)
    foreign: dict[str, int] = {}
    for use in uses:
        rest = 0
        for process in use.processes or ():
            lease, memory = ours.get(process.pid), process.memory.value
            who = identify(process.pid) or Identity(process.pid, _UNKNOWN_START)
            if lease is None:
                strangers[use.uuid].add(who)
                rest += memory or 0
            elif memory != 0:
                processes[lease].add(who)
                before = held[lease].get(use.uuid, 0)
                held[lease][use.uuid] = None if memory is None or before is None else before + memory
        foreign[use.uuid] = rest
    return Sighting(
        seen.began,
        seen.driver,
        seen.devices,
        seen.readable,
        held,
        {lease: frozenset(found) for lease, found in processes.items()},
        foreign,
        {uuid: frozenset(found) for uuid, found in strangers.items()},
        {use.uuid: use.utilisation.value for use in uses if use.utilisation.value is not None},
    )
