"""Whose is the GPU memory? From what the driver lists to kernels, terminals and others. Pure: no I/O of its own.

Two traps decide the shape. A driver reports process ids of the *host*; inside a container they mean nothing, or
worse, they are by chance those of our own processes. And a part that cannot be read makes a sum unknown: a sum
over the rest would say too little, and somebody would lend on it.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from jupyter_gpushare.devices.device import Attribution, Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from jupyter_gpushare.devices.device import DeviceUse, ProcessUse

__all__ = [
    "FOREIGN_NAMESPACE",
    "NO_DEVICE",
    "Attributed",
    "DeviceSplit",
    "Owner",
    "OwnerUse",
    "attribute",
]

FOREIGN_NAMESPACE: Final = (
    "The driver reports process ids of another namespace, as in a container without host pids, "
    "so it cannot be said which use is whose."
)
NO_DEVICE: Final = "There is no GPU to read."

# The smallest CUDA contexts (MPS clients) take tens of MB; an idle device shows a few MB of the driver's own.
_SMALLEST_CONTEXT: Final = 16 << 20
_WORST_LAST: Final = tuple(Attribution)
_NOTHING: Final = Reading.exact(0)


@dataclass(frozen=True, slots=True)
class Owner:
    """Whom a process belongs to: *key* is a kernel id, a terminal's name, or a process id as text."""

    kind: Literal["kernel", "terminal", "server", "process"]
    key: str


@dataclass(frozen=True, slots=True)
class OwnerUse:
    """What one owner holds with all its processes.

    Attributes:
        owner: whose use this is.
        pids: its processes on any device, ascending.
        memory: bytes on all devices together.
        utilisation: per cent, the average over the devices that it holds.
        by_device: bytes per device UUID, for the devices that it holds.
    """

    owner: Owner
    pids: tuple[int, ...]
    memory: Reading
    utilisation: Reading
    by_device: Mapping[str, Reading]


@dataclass(frozen=True, slots=True)
class DeviceSplit:
    """One device's memory, divided: *mine* is this session's, *others* is all the rest, the driver's own included.

    ``other_holders`` counts the listed processes that are not ours; None when that cannot be known.
    """

    uuid: str
    mine: Reading
    others: Reading
    other_holders: int | None


@dataclass(frozen=True, slots=True)
class Attributed:
    """All devices at one moment, divided by owner.

    Attributes:
        owners: who holds something, in a stable order. An owner who is missing holds exactly nothing if *trusted*.
        devices: the split of each device, in the order of the readings.
        memory: bytes of this session on all devices.
        utilisation: per cent: the session's processes together on each device, at most 100 there, averaged over the
            devices that it holds; 0 when it holds none. An average, so that two devices at full load read 100.
        trusted: whether the driver's lists are complete and of our namespace.
        reason: why not, for people; empty when trusted. It stands for each owner who is missing.
    """

    owners: tuple[OwnerUse, ...]
    devices: tuple[DeviceSplit, ...]
    memory: Reading
    utilisation: Reading
    trusted: bool
    reason: str = ""


@dataclass(slots=True)
class _Held:
    """The processes of one owner, by device."""

    pids: set[int] = field(default_factory=set)
    by_device: dict[str, list[ProcessUse]] = field(default_factory=lambda: defaultdict(list))


def attribute(
    uses: Sequence[DeviceUse],
    owner_of: Callable[[int], Owner | None],
    *,
    has_open: Callable[[Collection[int]], frozenset[int]],
    roots: Iterable[int],
    host_pids: bool = False,
) -> Attributed:
    """Divide *uses* among the owners of this session and everybody else.

    Args:
        uses: what the source read.
        owner_of: the owner of a local process, None for one that is not of this session.
        has_open: which of some local processes have a device open. A listed process that resolves to ours but has
            none open is somebody else's with the same number: it counts as others'.
        roots: the session's own processes, at least those from which its owners descend. If one has a device open while
            the driver lists none of ours, the lists are of another namespace. The server itself does not count as a
            witness, because reading the driver opens the devices too.
        host_pids: this process is known to run in the host's pid namespace, so the lists need no such proof.
    """
    if not uses:
        missing = Reading.unavailable(NO_DEVICE)
        return Attributed((), (), missing, missing, trusted=False, reason=NO_DEVICE)
    ours = _ours(uses, owner_of, has_open)
    if not ours and not host_pids and _is_in_use(uses):
        witnesses = _witnesses(roots, owner_of, has_open)
        if witnesses:
            return _unattributed(uses, witnesses)
    return _divide(uses, ours)


def _ours(
    uses: Sequence[DeviceUse],
    owner_of: Callable[[int], Owner | None],
    has_open: Callable[[Collection[int]], frozenset[int]],
) -> dict[int, Owner]:
    listed = {process.pid for use in uses for process in use.processes or ()}
    claimed = {pid: owner for pid in sorted(listed) if (owner := owner_of(pid)) is not None}
    confirmed = has_open(claimed.keys()) if claimed else frozenset()
    return {pid: owner for pid, owner in claimed.items() if pid in confirmed}


def _is_in_use(uses: Sequence[DeviceUse]) -> bool:
    """Whether any device holds enough memory to hide a context of ours."""
    return any(use.memory.value is None or use.memory.value >= _SMALLEST_CONTEXT for use in uses)


def _witnesses(
    roots: Iterable[int],
    owner_of: Callable[[int], Owner | None],
    has_open: Callable[[Collection[int]], frozenset[int]],
) -> dict[int, Owner]:
    owners = {pid: owner for pid in roots if (owner := owner_of(pid)) is not None and owner.kind != "server"}
    holding = has_open(owners.keys()) if owners else frozenset()
    return {pid: owner for pid, owner in owners.items() if pid in holding}


def _unattributed(uses: Sequence[DeviceUse], witnesses: Mapping[int, Owner]) -> Attributed:
    unknown = Reading.unavailable(FOREIGN_NAMESPACE)
    pids = defaultdict(list)
    for pid, owner in witnesses.items():
        pids[owner].append(pid)
    return Attributed(
        owners=tuple(OwnerUse(owner, tuple(sorted(pids[owner])), unknown, unknown, {}) for owner in _ordered(pids)),
        devices=tuple(DeviceSplit(use.uuid, unknown, unknown, None) for use in uses),
        memory=unknown,
        utilisation=unknown,
        trusted=False,
        reason=FOREIGN_NAMESPACE,
    )


def _divide(uses: Sequence[DeviceUse], ours: Mapping[int, Owner]) -> Attributed:
    held: dict[Owner, _Held] = defaultdict(_Held)
    session = _Held()
    for use in uses:
        for process in use.processes or ():
            if (owner := ours.get(process.pid)) is not None:
                for holder in (held[owner], session):
                    holder.pids.add(process.pid)
                    holder.by_device[use.uuid].append(process)
    unlisted = next((use.processes_reason for use in uses if use.processes is None), None)
    gaps = () if unlisted is None else (Reading.unavailable(unlisted),)
    devices = tuple(_split(use, session.by_device.get(use.uuid, ())) for use in uses)
    return Attributed(
        owners=tuple(_owner_use(owner, held[owner], gaps) for owner in _ordered(held)),
        devices=devices,
        memory=_sum(device.mine for device in devices),
        utilisation=_utilisation(session, gaps),
        trusted=unlisted is None,
        reason=unlisted or "",
    )


def _split(use: DeviceUse, mine: Collection[ProcessUse]) -> DeviceSplit:
    if use.processes is None:
        unknown = Reading.unavailable(use.processes_reason)
        return DeviceSplit(use.uuid, unknown, unknown, None)
    if not mine:
        # Most devices of a large machine, every second.
        return DeviceSplit(use.uuid, _NOTHING, use.memory, len({process.pid for process in use.processes}))
    memory = _sum(process.memory for process in mine)
    own = {process.pid for process in mine}
    strangers = {process.pid for process in use.processes} - own
    return DeviceSplit(use.uuid, memory, _rest(use.memory, memory), len(strangers))


def _owner_use(owner: Owner, held: _Held, gaps: Collection[Reading]) -> OwnerUse:
    by_device = {uuid: _sum(process.memory for process in processes) for uuid, processes in held.by_device.items()}
    return OwnerUse(
        owner=owner,
        pids=tuple(sorted(held.pids)),
        memory=_sum([*by_device.values(), *gaps]),
        utilisation=_utilisation(held, gaps),
        by_device=by_device,
    )


def _utilisation(held: _Held, gaps: Collection[Reading]) -> Reading:
    per_device = [_capped(_sum(process.utilisation for process in on_one)) for on_one in held.by_device.values()]
    total = _sum([*per_device, *gaps])
    if total.value is None or not per_device:
        return total
    return Reading(round(total.value / len(per_device)), total.attribution, total.reason)


def _capped(reading: Reading) -> Reading:
    """Per cent of one device: samples of several processes do not end at the same moment and may exceed it."""
    if reading.value is None or reading.value <= 100:  # noqa: PLR2004  # per cent
        return reading
    return Reading(100, reading.attribution, reading.reason)


def _rest(used: Reading, mine: Reading) -> Reading:
    """What is used and not mine; never negative, because the two were not read at the same instant."""
    if used.value is None or mine.value is None:
        return used if used.value is None else mine
    worst = max(used, mine, key=_badness)
    return Reading(max(0, used.value - mine.value), worst.attribution, worst.reason)


def _sum(readings: Iterable[Reading]) -> Reading:
    """The sum, attributed as its worst part; one part without a number leaves the sum without."""
    total, worst = 0, Reading.exact(0)
    for reading in readings:
        if reading.value is None:
            return reading
        total += reading.value
        worst = max(worst, reading, key=_badness)
    return Reading(total, worst.attribution, worst.reason)


def _badness(reading: Reading) -> int:
    return _WORST_LAST.index(reading.attribution)


def _ordered(owners: Iterable[Owner]) -> list[Owner]:
    return sorted(owners, key=lambda owner: (owner.kind, owner.key))
