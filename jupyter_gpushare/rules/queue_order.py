"""In which order waiting claims are served (DESIGN 5, rule 3, last paragraph)."""

from __future__ import annotations

import heapq
import threading
from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.resting import Group, Ids, Resting

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import ProjectBooks, Snapshot
    from jupyter_gpushare.rules.standing import Standing

__all__ = ["Group", "Line", "ProjectLines", "Queue", "claim_order", "queue_of"]

#: Sessions before jobs, oldest, name.
_Order = tuple[bool, float, str]


def claim_order(lease: Lease) -> _Order:
    """The place of a claim among those of its project."""
    return (not lease.is_session, lease.submitted, lease.id)


def _group_of(lease: Lease) -> Group:
    share = lease.share
    request = share.request.millionths if isinstance(share.request, Fraction) else -share.request.bytes
    asked = (lease.project, lease.is_session, request, share.count, share.kind, lease.pool)
    return (*asked, lease.spread_group, lease.start_cost_s, lease.grace_s, lease.grants)


@dataclass(slots=True)
class Queue:
    """All waiting claims, sorted into groups.

    Attributes:
        groups: ids in order, for each group.
        awake: those groups that are to be looked at in every round.
        resting: the others, by project: parked jobs, looked at since anything about them or the policy changed.
        reasons: in each group, who waits for what.
        fresh: nobody has looked at these yet.
        planned: room is being made for these, or they were moved: what was decided for them stays decided.
    """

    groups: dict[Group, Ids] = field(default_factory=dict)
    awake: dict[Group, Ids] = field(default_factory=dict)
    resting: dict[str, Resting] = field(default_factory=dict)
    reasons: dict[Group, dict[Reason | None, set[str]]] = field(default_factory=dict)
    fresh: set[str] = field(default_factory=set)
    planned: set[str] = field(default_factory=set)
    _leases: dict[str, Lease] = field(default_factory=dict)
    _books: Mapping[str, ProjectBooks] = field(default_factory=dict)
    _waiting: frozenset[str] = frozenset()
    _policy: tuple[object, object] | None = None
    _awaited: frozenset[str] | None = None

    def rest(self, groups: Iterable[Group]) -> None:
        """These parked jobs wait for their devices and know it: nothing but room there, or a larger share, helps.

        To be said when a round is over: until then it reads from what is awake.
        """
        for group in groups:
            if group in self.awake:
                self.resting.setdefault(group[0], Resting()).add(group, self.awake[group])
                del self.awake[group]

    def sessions(self) -> Iterator[Ids]:
        """The groups of sessions."""
        return (ids for group, ids in self.awake.items() if group[1])

    def awaited(self) -> frozenset[str]:
        """The parked jobs that were told that they wait for their devices."""
        if self._awaited is None:
            bound = (self.reasons[group] for group in self.groups if group[-1])
            self._awaited = frozenset().union(*(each.get(Reason.WAITING_FOR_SAME_DEVICE, ()) for each in bound))
        return self._awaited

    def follow(self, snapshot: Snapshot) -> None:
        """Take over the claims of *snapshot*: in time that grows with what is new and with the projects touched."""
        policy = (snapshot.projects, snapshot.pools)
        if self._policy is None or any(old is not new for old, new in zip(self._policy, policy, strict=True)):
            self.awake, self.resting, self._policy = dict(self.groups), {}, policy
        if self._waiting is not snapshot.waiting:
            for key in self._leases.keys() - snapshot.waiting:
                self._drop(key)
        for name, books in snapshot.project_books.items():
            if self._books.get(name) is not books:
                self._update(snapshot.leases[key] for key in books.leases & snapshot.waiting)
        self._books, self._waiting = snapshot.project_books, snapshot.waiting

    def _update(self, leases: Iterable[Lease]) -> None:
        for lease in leases:
            old = self._leases.get(lease.id)
            if old is not lease:
                self._put(lease, old)

    def _put(self, lease: Lease, old: Lease | None) -> None:
        group = _group_of(lease)
        if old is not None and (_group_of(old), old.submitted) != (group, lease.submitted):
            self._drop(old.id)
            old = None
        if old is None:
            insort(self.groups.setdefault(group, []), (lease.submitted, lease.id))
        else:
            self._forget_reason(old, group)
        self._leases[lease.id] = lease
        self._wake(group)
        self.reasons.setdefault(group, {}).setdefault(lease.reason, set()).add(lease.id)
        (self.fresh.add if lease.reason is None else self.fresh.discard)(lease.id)
        is_planned = lease.reason in (Reason.WAITING_FOR_CALL_BACK, Reason.MOVED)
        (self.planned.add if is_planned else self.planned.discard)(lease.id)

    def _wake(self, group: Group) -> None:
        if group in self.groups:
            self.awake[group] = self.groups[group]
        else:
            self.awake.pop(group, None)
        if group[-1]:
            self._awaited = None
            if (resting := self.resting.get(group[0])) is not None:
                resting.discard(group)

    def _forget_reason(self, lease: Lease, group: Group) -> None:
        there = self.reasons[group]
        there[lease.reason].discard(lease.id)
        if not there[lease.reason]:
            del there[lease.reason]

    def _drop(self, key: str) -> None:
        lease = self._leases.pop(key)
        group = _group_of(lease)
        self._forget_reason(lease, group)
        ids = self.groups[group]
        del ids[bisect_left(ids, (lease.submitted, key))]
        if not ids:
            del self.groups[group], self.reasons[group]
        self._wake(group)
        self.fresh.discard(key)
        self.planned.discard(key)


class _Known(threading.local):
    """What this thread sorted for the snapshot before: only what is new is sorted again.

    The result follows from the snapshot alone.
    """

    def __init__(self) -> None:
        self.queue = Queue()


_KNOWN = _Known()


def queue_of(snapshot: Snapshot) -> Queue:
    """The waiting claims of *snapshot*; to be looked at, not changed but by `Queue.rest`, until the next call."""
    # Should this fail half-way, the next begins anew.
    queue, _KNOWN.queue = _KNOWN.queue, Queue()
    queue.follow(snapshot)
    _KNOWN.queue = queue
    return queue


@dataclass(slots=True)
class Line:
    """Claims that are alike, from one that is still to be served on."""

    group: Group
    ids: Ids
    first: int = 0


class ProjectLines:
    """Entries of many projects, taken out in the order in which they are served.

    First the project that is furthest below its fair share, in GPUs; within it sessions before jobs, oldest, name.
    """

    def __init__(self, standings: Mapping[str, Standing]) -> None:
        self._standings = standings
        self._lines: dict[str, list[tuple[_Order, Any]]] = {}

    def add(self, project: str, order: _Order, entry: Any) -> None:
        """Put *entry* in the line of *project*."""
        heapq.heappush(self._lines.setdefault(project, []), (order, entry))

    def pop(self) -> Any:
        """The next entry as things stand now; None when all lines are empty."""
        if not self._lines:
            return None
        name = min(self._lines, key=lambda each: (self._standings[each].excess, self._lines[each][0][0]))
        line = self._lines[name]
        entry = heapq.heappop(line)[1]
        if not line:
            del self._lines[name]
        return entry
