"""Rule 3 of DESIGN 5 as it is written, by trying everything: the measure for the search in `reclaim`.

Devices are looked at one by one and sets in full, so this is for worlds with a handful of leases.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.fair_share import fair_share

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["best_set"]

_Free = dict[str, int]


def best_set(snapshot: Snapshot, claim: Lease) -> tuple[str, ...] | None:
    """The ids of the best feasible set for *claim*, which waits in *snapshot* and fits nowhere; None if there is none."""
    fair = {name: share.millionths for name, share in fair_share(snapshot).items()}
    victims = [
        lease
        for lease in snapshot.leases.values()
        if not lease.is_session and lease.grants and _excess(snapshot, claim, fair, lease.project) > 0
    ]
    for size in range(1, len(victims) + 1):
        feasible = [each for each in combinations(victims, size) if _is_feasible(snapshot, claim, each)]
        if feasible:
            best = min(feasible, key=lambda each: _rank(snapshot, claim, fair, each))
            return tuple(sorted(lease.id for lease in best))
    return None


def _excess(snapshot: Snapshot, claim: Lease, fair: dict[str, int], project: str) -> int:
    own = _size(claim) if claim.project == project else 0
    return snapshot.project_books[project].counted.millionths + own - fair[project]


def _rank(
    snapshot: Snapshot, claim: Lease, fair: dict[str, int], leases: tuple[Lease, ...]
) -> tuple[int, int, list[float], list[str]]:
    newest = sorted(leases, key=lambda lease: (-lease.submitted, lease.id))
    above, taken = 0, dict.fromkeys(fair, 0)
    for lease in newest:
        above += _excess(snapshot, claim, fair, lease.project) - taken[lease.project]
        taken[lease.project] += _size(lease)
    return sum(map(_size, leases)), -above, [-lease.submitted for lease in newest], [lease.id for lease in newest]


def _size(lease: Lease) -> int:
    assert isinstance(lease.share.request, Fraction)
    return lease.share.request.millionths * lease.share.count


def _is_feasible(snapshot: Snapshot, claim: Lease, leases: tuple[Lease, ...]) -> bool:
    free = {uuid: device.capacity.millionths for uuid, device in snapshot.devices.items()}
    for lease in snapshot.leases.values():
        if lease not in leases:
            for grant in lease.grants:
                free[grant.device] -= grant.amount.millionths
    used = {name: books.counted.millionths for name, books in snapshot.project_books.items()}
    for lease in leases:
        used[lease.project] -= _size(lease)
    used[claim.project] = used.get(claim.project, 0) + _size(claim)
    waiting = [lease for lease in snapshot.leases.values() if not lease.grants and lease.id != claim.id]
    again = sorted((lease for lease in (*waiting, *leases) if not lease.is_session), key=lambda lease: lease.submitted)
    lines = {name: [lease for lease in again if lease.project == name] for name in {lease.project for lease in leases}}
    return any(_can_make_up(snapshot, used, lines, after) for after in _placements(snapshot, free, claim))


def _can_make_up(snapshot: Snapshot, used: dict[str, int], lines: dict[str, list[Lease]], free: _Free) -> bool:
    """Whether jobs that wait or were reclaimed can be placed so that nobody ends below min(quota, demand).

    Within a project they go on in the order in which they are served, each where `placement` would put it: whoever is
    older and fits is not passed over.
    """
    if all(used[name] >= _deserved(snapshot, name) for name in lines):
        return True
    for name, line in lines.items():
        if line:
            job, rest = line[0], {**lines, name: line[1:]}
            more = {**used, name: used[name] + _size(job)}
            placed = min(
                _placements(snapshot, free, job), key=lambda after: _packed(snapshot, free, after), default=None
            )
            if _can_make_up(snapshot, more, rest, placed) if placed else _can_make_up(snapshot, used, rest, free):
                return True
    return False


def _deserved(snapshot: Snapshot, project: str) -> int:
    return min(snapshot.projects[project].quota, snapshot.project_books[project].demand).millionths


def _packed(snapshot: Snapshot, free: _Free, after: _Free) -> tuple[int, int, list[str]]:
    """How good a place is under ``binpack``: the fullest devices, the fullest host, names."""
    chosen = [uuid for uuid in free if after[uuid] != free[uuid]]
    host = snapshot.devices[chosen[0]].host
    left = sum(there for uuid, there in free.items() if snapshot.devices[uuid].host == host)
    return sum(free[uuid] for uuid in chosen), left, chosen


def _placements(snapshot: Snapshot, free: _Free, lease: Lease) -> Iterator[_Free]:
    """All the ways to place *lease*, as what is free afterwards."""
    assert isinstance(lease.share.request, Fraction)
    need = lease.share.request.millionths
    for host in snapshot.hosts:
        fits = [uuid for uuid in free if snapshot.devices[uuid].host == host and free[uuid] >= need]
        for chosen in combinations(fits, lease.share.count):
            yield {uuid: there - need if uuid in chosen else there for uuid, there in free.items()}
