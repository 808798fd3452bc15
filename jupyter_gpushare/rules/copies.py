"""How many leases may move memory or save themselves at once on a host, and who may restore on a device now."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.rules.lease import Status, Target
from jupyter_gpushare.rules.turns import pool_of

if TYPE_CHECKING:
    from jupyter_gpushare.quantity import Memory
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["Slots", "allowance_s", "copy_s", "deadline_of", "host_of", "is_overdue", "is_saving"]

# Bytes per second that even a busy machine copies between device and host memory: deadlines are no estimates.
_SLOW_COPY: Final = 1_000_000_000
_COPIES: Final = frozenset({Status.PARKING, Status.RESUMING})


def host_of(snapshot: Snapshot, lease: Lease) -> str:
    """The name of the host of its grants; empty while it has none."""
    device = snapshot.devices.get(lease.grants[0].device) if lease.grants else None
    return "" if device is None else device.host


def copy_s(memory: Memory) -> float:
    """How long a copy of *memory* takes at most where nothing is wrong, in seconds."""
    return memory.bytes / _SLOW_COPY


def allowance_s(snapshot: Snapshot, lease: Lease) -> float:
    """How long its holder has for what its status asks, in seconds: its grace, and the copy where there is one."""
    grace = pool_of(snapshot, lease).grace_s if lease.grace_s is None else lease.grace_s
    return grace + (copy_s(lease.host_memory) if lease.status in _COPIES else 0.0)


def deadline_of(snapshot: Snapshot, lease: Lease, now: float) -> Lease:
    """*lease* with the deadline of a status that it enters *now*."""
    return lease.evolve(deadline=now + allowance_s(snapshot, lease))


def is_overdue(snapshot: Snapshot, lease: Lease, now: float) -> bool:
    """Whether it is in its status for longer than its holder has for that, however often it was asked again.

    Its device stays taken until that is attested, but nobody can count on it any more.
    """
    return now >= lease.since + allowance_s(snapshot, lease)


def is_saving(lease: Lease) -> bool:
    """Whether it gives up its share to go on later; one that ends for good saves nothing."""
    return lease.status is Status.YIELDING and lease.target is not Target.ENDED


class Slots:
    """What each host can still take at this moment. Taking counts at once, so that one pass takes no slot twice.

    Whoever is past its deadline counts no more: a holder that ignores what it is asked must not keep everybody else
    on its host waiting. Its device stays taken all the same.
    """

    def __init__(self, snapshot: Snapshot, now: float) -> None:
        self._snapshot = snapshot
        self._copies: Counter[str] = Counter()
        self._saves: Counter[str] = Counter()
        self._restoring: set[str] = set()
        for key in snapshot.unsettled:
            self._count(snapshot.leases[key], now)

    def _count(self, lease: Lease, now: float) -> None:
        if lease.status is Status.RESUMING or lease.was is Status.RESUMING:
            self._restoring.update(lease.devices)
        is_copy = lease.status in _COPIES
        if not is_copy and not is_saving(lease):
            return
        if not is_overdue(self._snapshot, lease, now):
            taken = self._copies if is_copy else self._saves
            taken[host_of(self._snapshot, lease)] += 1

    def take_copy(self, host: str) -> bool:
        """Take one of the copies that *host* makes at once; False if none is left."""
        known = self._snapshot.hosts.get(host)
        if known is not None and self._copies[host] >= known.copies:
            return False
        self._copies[host] += 1
        return True

    def take_save(self, host: str) -> bool:
        """Take one of the saves that *host* makes at once; False if none is left."""
        known = self._snapshot.hosts.get(host)
        if known is not None and self._saves[host] >= known.saves:
            return False
        self._saves[host] += 1
        return True

    def take_tokens(self, devices: tuple[str, ...]) -> bool:
        """Take the device tokens of all *devices*; False, and none taken, if somebody restores on one of them."""
        if not self._restoring.isdisjoint(devices):
            return False
        self._restoring.update(devices)
        return True

    def has_tokens(self, devices: tuple[str, ...]) -> bool:
        """Whether nobody restores on any of *devices*."""
        return self._restoring.isdisjoint(devices)
