"""How long those that wait will wait: the way back is played through, copy by copy and save by save, on each host.

What nobody can know has no estimate rather than a wrong one: when a job ends by itself, when a holder that ignores
what it was asked leaves. Nor does anybody know who else will want to come back: of two that are ready whoever waits
longest is first, but a copy that a later one began is not stopped.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.rules.capacity import Host
from jupyter_gpushare.rules.copies import host_of, is_overdue, is_saving
from jupyter_gpushare.rules.host_memory import copy_of
from jupyter_gpushare.rules.lease import Lease, Status, Target
from jupyter_gpushare.rules.lending import borrowers
from jupyter_gpushare.rules.pace import Paces
from jupyter_gpushare.rules.resuming import place_of, waiting_sessions
from jupyter_gpushare.rules.room import free_room
from jupyter_gpushare.rules.turns import pool_of, turn_ends
from jupyter_gpushare.rules.yielding import urgency, would_park

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["estimates"]

_LONGEST_S: Final = 30 * 86400.0
_COPYING: Final = frozenset({Status.PARKING, Status.RESUMING})
_MOVING: Final = _COPYING | {Status.YIELDING}


def estimates(snapshot: Snapshot, now: float, paces: Paces | None = None) -> Mapping[str, float]:
    """For each waiting lease, by id, about how many seconds it still waits; a lease without an estimate is left out.

    The time that it takes grows with those that wait and move, not with those that hold something.
    """
    hosts: dict[str, _Host] = {}
    waiting = waiting_sessions(snapshot)
    for lease in waiting:
        _host(hosts, snapshot, lease, now, paces).add_waiting(lease)
    unsettled = [snapshot.leases[key] for key in snapshot.unsettled]
    for lease in sorted(unsettled, key=lambda lease: urgency(snapshot, lease)):
        if lease.status in _MOVING or lease.is_called:
            _host(hosts, snapshot, lease, now, paces).add_moving(lease)
    found: dict[str, float] = {}
    for host in hosts.values():
        found |= host.play()
    return found


def _host(hosts: dict[str, _Host], snapshot: Snapshot, lease: Lease, now: float, paces: Paces | None) -> _Host:
    name = host_of(snapshot, lease)
    if name not in hosts:
        hosts[name] = _Host(snapshot, snapshot.hosts.get(name, Host(name)), paces or Paces(), now)
    return hosts[name]


@dataclass(slots=True)
class _Host:
    """One host, played through. Room is in millionths.

    Attributes:
        at: the moment that the play has come to, in seconds since the epoch; it begins *now*.
        room: what nobody holds, of the devices that matter.
        waiting: who comes back, in order.
        leavers: who is called and has not begun to leave, in order; not before the time beside it.
        owing: those that have to leave before a session can come back.
        agenda: when what ends, and times at which somebody may begin.
    """

    snapshot: Snapshot
    limits: Host
    paces: Paces
    now: float
    at: float = field(init=False)
    copies: int = 0
    saves: int = 0
    restoring: set[str] = field(default_factory=set)
    room: dict[str, int] = field(default_factory=dict)
    waiting: list[Lease] = field(default_factory=list)
    leavers: dict[str, tuple[Lease, float]] = field(default_factory=dict)
    owing: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    agenda: list[tuple[float, str, Lease | None]] = field(default_factory=list)
    found: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.at = self.now

    def add_waiting(self, lease: Lease) -> None:
        """A session that waits, after those that wait already."""
        self.waiting.append(lease)
        self._wake(lease.not_before)
        for each in borrowers(self.snapshot, lease):
            self.owing[lease.id].add(each.id)
            if each.can_be_called and not self._is_guaranteed(lease):
                self._add_leaver(each, turn_ends(self.snapshot, each))

    def add_moving(self, lease: Lease) -> None:
        """One that is on its way, or called to be."""
        if lease.status not in _MOVING:
            self._add_leaver(lease, self.now)
            return
        is_overdue_now = is_overdue(self.snapshot, lease, self.now)
        if lease.status is Status.RESUMING:
            self.restoring.update(lease.devices)
        if not is_overdue_now:
            self._begin(lease, max(self.now, lease.since + self.paces.takes_s(self.snapshot, lease)))

    def play(self) -> dict[str, float]:
        """The estimates, in seconds, of all that come to an end."""
        self._begin_all()
        while self.agenda and self.at - self.now < _LONGEST_S:
            self.at, _, lease = heapq.heappop(self.agenda)
            if lease is not None:
                self._end(lease)
            self._begin_all()
        return self.found

    def _add_leaver(self, lease: Lease, not_before: float) -> None:
        self.leavers.setdefault(lease.id, (self._way_out(lease), not_before))
        self._wake(not_before)

    def _way_out(self, lease: Lease) -> Lease:
        # One that restores is asked as soon as it runs.
        then = lease.evolve(status=Status.RUNNING) if lease.status is Status.RESUMING else lease
        if would_park(self.snapshot, then):
            return lease.evolve(status=Status.PARKING, host_memory=copy_of(self.snapshot, lease))
        return lease.evolve(status=Status.YIELDING)

    def _wake(self, when: float) -> None:
        if when > self.now:
            heapq.heappush(self.agenda, (when, "", None))

    def _is_guaranteed(self, lease: Lease) -> bool:
        return pool_of(self.snapshot, lease).resume == "guaranteed"

    # What the rules would begin at this moment, in their order

    def _begin_all(self) -> None:
        self._bring_back()
        for key, (lease, not_before) in list(self.leavers.items()):
            is_copy = lease.status is Status.PARKING
            is_free = self.copies < self.limits.copies if is_copy else self.saves < self.limits.saves
            if is_free and not_before <= self.at:
                del self.leavers[key]
                self._start(lease)

    def _bring_back(self) -> None:
        kept: set[str] = set()
        parking: set[str] = set()
        for lease in list(self.waiting):
            if self.copies + len(parking) >= self.limits.copies:
                return
            if kept.isdisjoint(lease.devices) and self._is_ready(lease):
                self.waiting.remove(lease)
                self._hold(lease, 1)
                self.restoring.update(lease.devices)
                self._start(lease.evolve(status=Status.RESUMING))
                continue
            parking.update(key for key in self.owing.get(lease.id, ()) if self._would_park(key))
            if not self._is_guaranteed(lease):
                kept.update(lease.devices)

    def _would_park(self, key: str) -> bool:
        lease, not_before = self.leavers.get(key, (None, 0.0))
        return lease is not None and lease.status is Status.PARKING and not_before <= self.at

    def _is_ready(self, lease: Lease) -> bool:
        if self.owing.get(lease.id) or lease.not_before > self.at or not self.restoring.isdisjoint(lease.devices):
            return False
        return all(self._room(grant.device) >= grant.amount.millionths for grant in lease.grants)

    def _room(self, uuid: str) -> int:
        if uuid not in self.room:
            self.room[uuid] = free_room(self.snapshot, uuid) if uuid in self.snapshot.devices else 0
        return self.room[uuid]

    def _hold(self, lease: Lease, sign: int) -> None:
        for grant in lease.grants:
            self.room[grant.device] = self._room(grant.device) - sign * grant.amount.millionths

    def _start(self, lease: Lease) -> None:
        self._begin(lease, self.at + self.paces.takes_s(self.snapshot, lease))

    def _begin(self, lease: Lease, ends: float) -> None:
        self._count(lease, 1)
        heapq.heappush(self.agenda, (ends, lease.id, lease))

    def _count(self, lease: Lease, sign: int) -> None:
        if lease.status in _COPYING:
            self.copies += sign
        elif is_saving(lease):
            self.saves += sign

    # What ends

    def _end(self, lease: Lease) -> None:
        self._count(lease, -1)
        if lease.status is Status.RESUMING:
            self.restoring.difference_update(lease.devices)
            self.found[lease.id] = self.at - self.now
            if lease.reason is not None and lease.evolve(status=Status.RUNNING).is_called:
                self._add_leaver(lease.evolve(status=Status.RUNNING), self.at)
            return
        self._hold(lease, -1)
        for owed in self.owing.values():
            owed.discard(lease.id)
        if lease.because_of in self.snapshot.waiting:
            # A claim that others leave for has its place when the last of them has left.
            self.found[lease.because_of] = self.at - self.now
        if lease.status is Status.PARKING and lease.is_session and lease.target is Target.RUNNING:
            insort(self.waiting, lease.enter(Status.PARKED, self.at), key=place_of)
