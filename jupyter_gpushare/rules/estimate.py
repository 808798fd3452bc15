"""How long those that wait will wait: the way back is played through, copy by copy and save by save, on each host.

What nobody can know, such as when a job ends by itself, has no estimate rather than a wrong one.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.rules.copies import host_of, is_saving
from jupyter_gpushare.rules.host_memory import fits_job, whole_share
from jupyter_gpushare.rules.lease import Lease, Status
from jupyter_gpushare.rules.lending import borrowers
from jupyter_gpushare.rules.resuming import waiting_sessions
from jupyter_gpushare.rules.room import free_room
from jupyter_gpushare.rules.turns import pool_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["Pace", "estimates"]

_LONGEST_S: Final = 30 * 86400.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a host is.

    Attributes:
        copy: bytes per second between device and host memory.
        save_s: how long a job takes to save itself and leave; None where nobody has measured it: all its grace.
        answer_s: what passes on top of each copy or save until it is attested.
    """

    copy: float = 4e9
    save_s: float | None = None
    answer_s: float = 0.0


def estimates(snapshot: Snapshot, now: float, paces: Mapping[str, Pace] | None = None) -> Mapping[str, float]:
    """For each waiting lease, by id, about how many seconds it still waits; a lease without an estimate is left out.

    *paces* is by host; what it leaves out is taken to be as fast as `Pace` says.
    """
    hosts: dict[str, _Host] = {}
    for lease in waiting_sessions(snapshot):
        name = host_of(snapshot, lease)
        if name not in hosts:
            hosts[name] = _Host(snapshot, name, (paces or {}).get(name, Pace()), now)
        hosts[name].add(lease)
    _add_moving(snapshot, hosts, paces or {}, now)
    found: dict[str, float] = {}
    for host in hosts.values():
        found |= host.play()
    return found


def _add_moving(snapshot: Snapshot, hosts: dict[str, _Host], paces: Mapping[str, Pace], now: float) -> None:
    """Those that are at it already take slots, and what they leave is somebody's."""
    for key in sorted(snapshot.unsettled):
        lease = snapshot.leases[key]
        name = host_of(snapshot, lease)
        if lease.status in _MOVING and (name in hosts or lease.because_of or lease.status is Status.RESUMING):
            if name not in hosts:
                hosts[name] = _Host(snapshot, name, paces.get(name, Pace()), now)
            hosts[name].add_moving(lease)


_MOVING: Final = frozenset({Status.PARKING, Status.RESUMING, Status.YIELDING})


@dataclass(slots=True)
class _Host:
    """One host, played through from *now*. Times are seconds from then; room is in millionths."""

    snapshot: Snapshot
    name: str
    pace: Pace
    now: float
    at: float = 0.0
    copies: int = 0
    saves: int = 0
    restoring: set[str] = field(default_factory=set)
    room: dict[str, int] = field(default_factory=dict)
    waiting: list[Lease] = field(default_factory=list)
    to_leave: dict[str, Lease] = field(default_factory=dict)
    lenders: dict[str, set[str]] = field(default_factory=dict)
    ends: list[tuple[float, str, Lease, bool]] = field(default_factory=list)
    found: dict[str, float] = field(default_factory=dict)

    def add(self, lease: Lease) -> None:
        """A session that waits, after those that wait already."""
        self.waiting.append(lease)
        for uuid in lease.devices:
            if uuid in self.snapshot.devices:
                self.room.setdefault(uuid, free_room(self.snapshot, uuid))
        for each in borrowers(self.snapshot, lease):
            self.lenders.setdefault(lease.id, set()).add(each.id)
            if each.status not in _MOVING and each.status is not Status.MISSING:
                self.to_leave.setdefault(each.id, self._way_out(each))

    def add_moving(self, lease: Lease) -> None:
        """One that is on its way already."""
        self._begin(lease, max(0.0, self._takes_s(lease) - (self.now - lease.since)))

    def play(self) -> dict[str, float]:
        """The estimates of all that come to an end."""
        self._pass()
        while self.ends and self.at < _LONGEST_S:
            self.at, _, lease, is_copy = heapq.heappop(self.ends)
            self._end(lease, is_copy=is_copy)
            self._pass()
        return self.found

    def _takes_s(self, lease: Lease) -> float:
        if lease.status in (Status.PARKING, Status.RESUMING):
            return lease.host_memory.bytes / self.pace.copy + self.pace.answer_s
        grace = pool_of(self.snapshot, lease).grace_s if lease.grace_s is None else lease.grace_s
        return (grace if self.pace.save_s is None else min(self.pace.save_s, grace)) + self.pace.answer_s

    def _begin(self, lease: Lease, takes_s: float) -> None:
        is_copy = lease.status is not Status.YIELDING
        if is_copy:
            self.copies += 1
        elif is_saving(lease):
            self.saves += 1
        if lease.status is Status.RESUMING:
            self.restoring.update(lease.devices)
        heapq.heappush(self.ends, (self.at + takes_s, lease.id, lease, is_copy))

    def _end(self, lease: Lease, *, is_copy: bool) -> None:
        if is_copy:
            self.copies -= 1
        elif is_saving(lease):
            self.saves -= 1
        if lease.status is Status.RESUMING:
            self.restoring.difference_update(lease.devices)
            self.found[lease.id] = self.at
            return
        for grant in lease.grants:
            self.room[grant.device] = self.room.get(grant.device, 0) + grant.amount.millionths
        for owed in self.lenders.values():
            owed.discard(lease.id)
        if lease.because_of in self.snapshot.waiting:
            # A claim that others leave for has its place when the last of them has left.
            self.found[lease.because_of] = self.at

    def _pass(self) -> None:
        """What the rules would begin at this moment: who comes back first, then who makes room."""
        limits = self.snapshot.hosts.get(self.name)
        copies, saves = (2, 4) if limits is None else (limits.copies, limits.saves)
        for lease in list(self.waiting):
            if self.copies < copies and self._is_ready(lease):
                self.waiting.remove(lease)
                for grant in lease.grants:
                    self.room[grant.device] -= grant.amount.millionths
                self._start(lease.evolve(status=Status.RESUMING))
        for key, leaver in list(self.to_leave.items()):
            if (self.copies < copies) if leaver.status is Status.PARKING else (self.saves < saves):
                del self.to_leave[key]
                self._start(leaver)

    def _start(self, lease: Lease) -> None:
        self._begin(lease, self._takes_s(lease))

    def _is_ready(self, lease: Lease) -> bool:
        if self.lenders.get(lease.id) or not self.restoring.isdisjoint(lease.devices):
            return False
        return all(self.room.get(grant.device, 0) >= grant.amount.millionths for grant in lease.grants)

    def _way_out(self, lease: Lease) -> Lease:
        memory = whole_share(self.snapshot, lease)
        if lease.is_parkable and lease.status is Status.RUNNING and fits_job(self.snapshot, lease, memory):
            return lease.evolve(status=Status.PARKING, host_memory=memory)
        return lease.evolve(status=Status.YIELDING)
