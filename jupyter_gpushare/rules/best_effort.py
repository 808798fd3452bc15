"""Turns in classes: where more is promised than there is, idle sessions make room for those that compute.

First come, first served; the longest idle yields first, after its minimum turn, and by being parked: nothing is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.change import Change
from jupyter_gpushare.rules.copies import is_overdue
from jupyter_gpushare.rules.demand import could_hold, share_cost
from jupyter_gpushare.rules.host_memory import copy_of
from jupyter_gpushare.rules.lease import Grant, Lease, Status, Target
from jupyter_gpushare.rules.parking_requests import ask_to_park, refused_because
from jupyter_gpushare.rules.resuming import waiting_sessions
from jupyter_gpushare.rules.room import free_room, is_best_effort, takes_more
from jupyter_gpushare.rules.snapshot import DeviceBooks
from jupyter_gpushare.rules.turns import turn_is_over

if TYPE_CHECKING:
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["take_turns"]


def take_turns(snapshot: Snapshot, now: float) -> Change:
    """Ask idle sessions to park for those that wait in a ``best-effort`` pool, and no more of them than make room."""
    if all(pool.resume == "guaranteed" for pool in snapshot.pools.values()):
        return Change()
    change, spoken_for = Change(), _leaving(snapshot, now)
    for claim in [*waiting_sessions(snapshot), *_queued_sessions(snapshot)]:
        made = _make_room(snapshot, claim, spoken_for, now)
        snapshot, change = snapshot.with_change(made), change.then(made)
    return change


def _queued_sessions(snapshot: Snapshot) -> list[Lease]:
    claims = [lease for key in snapshot.waiting if (lease := snapshot.leases[key]).is_session]
    return sorted(claims, key=lambda lease: (lease.submitted, lease.id))


def _leaving(snapshot: Snapshot, now: float) -> dict[str, int]:
    """What is about to be free on each device; the first who wait get it. Nobody counts on who ignores its call."""
    leaving: dict[str, int] = {}
    for key in snapshot.unsettled:
        lease = snapshot.leases[key]
        is_on_its_way = lease.status in (Status.PARKING, Status.YIELDING) and not is_overdue(snapshot, lease, now)
        is_leaving = is_on_its_way or lease.is_called
        if is_leaving or (lease.status is Status.RUNNING and lease.target is not Target.RUNNING):
            for grant in lease.grants:
                leaving[grant.device] = leaving.get(grant.device, 0) + grant.amount.millionths
    return leaving


def _make_room(snapshot: Snapshot, claim: Lease, leaving: dict[str, int], now: float) -> Change:
    places = [claim.grants] if claim.grants else _places(snapshot, claim)
    if any(_missing(snapshot, place, leaving) <= 0 for place in places):
        _take(next(place for place in places if _missing(snapshot, place, leaving) <= 0), leaving)
        return Change()
    best = min(
        ((victims, place) for place in places if (victims := _victims(snapshot, place, leaving, now))),
        key=lambda option: [(victim.idle_since or now, victim.id) for victim in option[0]],
        default=None,
    )
    if best is None:
        return Change()
    change = Change()
    for victim in best[0]:
        asked = ask_to_park(snapshot.with_change(change), victim, now, memory=None, by="rules", because_of=claim.id)
        change = change.then(asked)
        for grant in victim.grants:
            leaving[grant.device] = leaving.get(grant.device, 0) + grant.amount.millionths
    _take(best[1], leaving)
    return change


def _places(snapshot: Snapshot, claim: Lease) -> list[tuple[Grant, ...]]:
    """Devices where a new session could be promised its share; one of several devices has no turns."""
    if claim.share.count > 1:
        return []
    places: list[tuple[Grant, ...]] = []
    for uuid, device in sorted(snapshot.devices.items()):
        if not (could_hold(claim, device) and is_best_effort(snapshot, device) and takes_more(snapshot, device)):
            continue
        need = share_cost(claim.share, device.usable)
        most = device.capacity.millionths * snapshot.pools[device.pool].oversubscribe.millionths // Fraction.PER_GPU
        if snapshot.device_books.get(uuid, DeviceBooks()).promised.millionths + need.millionths <= most:
            places.append((Grant(uuid, need),))
    return places


def _missing(snapshot: Snapshot, place: tuple[Grant, ...], leaving: dict[str, int]) -> int:
    """By how much the fullest device of *place* is too full, when those that leave have left."""
    return max(
        grant.amount.millionths - free_room(snapshot, grant.device) - leaving.get(grant.device, 0) for grant in place
    )


def _take(place: tuple[Grant, ...], leaving: dict[str, int]) -> None:
    for grant in place:
        leaving[grant.device] = leaving.get(grant.device, 0) - grant.amount.millionths


def _victims(snapshot: Snapshot, place: tuple[Grant, ...], leaving: dict[str, int], now: float) -> list[Lease]:
    """The longest idle on the devices of *place*, as many as make room there; none if all together do not."""
    chosen: dict[str, Lease] = {}
    for grant in place:
        missing = _missing(snapshot, (grant,), leaving)
        missing -= sum(_on(victim, grant.device) for victim in chosen.values())
        for victim in _idle_on(snapshot, grant.device, now):
            if missing <= 0:
                break
            if victim.id not in chosen:
                chosen[victim.id] = victim
                missing -= _on(victim, grant.device)
        if missing > 0:
            return []
    return list(chosen.values())


def _on(lease: Lease, uuid: str) -> int:
    return sum(grant.amount.millionths for grant in lease.grants if grant.device == uuid)


def _idle_on(snapshot: Snapshot, uuid: str, now: float) -> list[Lease]:
    device = snapshot.devices.get(uuid)
    if device is None or not is_best_effort(snapshot, device) or snapshot.pools[device.pool].parking != "park":
        return []
    there = [snapshot.leases[key] for key in snapshot.device_books.get(uuid, DeviceBooks()).leases]
    idle = [lease for lease in there if _may_be_asked(snapshot, lease, now)]
    return sorted(idle, key=lambda lease: (lease.idle_since or now, lease.id))


def _may_be_asked(snapshot: Snapshot, lease: Lease, now: float) -> bool:
    return (
        lease.is_session
        and lease.status is Status.RUNNING
        and lease.target is Target.RUNNING
        and lease.is_parkable
        and lease.idle_since is not None
        and lease.not_before <= now
        and turn_is_over(snapshot, lease, now)
        and refused_because(snapshot, lease, copy_of(snapshot, lease)) is None
    )
