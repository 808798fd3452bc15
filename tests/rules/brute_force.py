"""Rule 3 of DESIGN 5 as it is written, by trying everything: the measure for the searches in `reclaim` and `ways`.

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
    """The ids of the best feasible set for *claim*, which waits in *snapshot* and fits nowhere; None if there is none.

    Among jobs of projects above their fair share; for a session inside its project's quota, where those have no
    feasible set, among all jobs of projects above min(quota, demand).
    """
    fair = {name: share.millionths for name, share in fair_share(snapshot).items()}
    best = _best_among(snapshot, claim, fair, fair)
    if best is not None or not _is_session_inside_quota(snapshot, claim):
        return best
    return _best_among(
        snapshot, claim, fair, {name: min(fair[name], _deserved(snapshot, name)) for name in snapshot.project_books}
    )


def _is_session_inside_quota(snapshot: Snapshot, claim: Lease) -> bool:
    sessions = [each for each in snapshot.leases.values() if each.is_session and each.project == claim.project]
    admitted = sum(_size(each) for each in sessions if each.grants)
    return claim.is_session and admitted + _size(claim) <= snapshot.projects[claim.project].quota.millionths


def _best_among(snapshot: Snapshot, claim: Lease, fair: dict[str, int], safe: dict[str, int]) -> tuple[str, ...] | None:
    """The best set of jobs of projects that have more than what is *safe*."""
    victims = [
        lease
        for lease in snapshot.leases.values()
        if not lease.is_session and lease.grants and _excess(snapshot, claim, safe, lease.project) > 0
    ]
    for size in range(1, len(victims) + 1):
        feasible = [each for each in combinations(victims, size) if _is_feasible(snapshot, claim, fair, each)]
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


def _is_feasible(snapshot: Snapshot, claim: Lease, fair: dict[str, int], leases: tuple[Lease, ...]) -> bool:
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
    return any(_can_make_up(snapshot, fair, used, lines, after) for after in _placements(snapshot, free, claim))


def _can_make_up(
    snapshot: Snapshot, fair: dict[str, int], used: dict[str, int], lines: dict[str, list[Lease]], free: _Free
) -> bool:
    """Whether the jobs in *lines*, of projects that lost some, can go on so that none ends below min(quota, demand).

    They go on in the order in which they are served: always one of the project that is furthest below its fair share,
    the oldest first, each where `placement` would put it; whoever fits is not passed over.
    """
    short = [name for name in lines if used[name] < _deserved(snapshot, name)]
    able = [name for name in short if lines[name]]
    if not able:
        return not short
    name = min(able, key=lambda name: (used[name] - fair[name], lines[name][0].submitted))
    job, rest = lines[name][0], {**lines, name: lines[name][1:]}
    placed = min(_placements(snapshot, free, job), key=lambda after: _packed(snapshot, free, after), default=None)
    if placed is None:
        return _can_make_up(snapshot, fair, used, rest, free)
    return _can_make_up(snapshot, fair, {**used, name: used[name] + _size(job)}, rest, placed)


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
