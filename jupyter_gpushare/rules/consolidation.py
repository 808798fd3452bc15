"""Moving jobs inside their fair share, so that a claim fits in one place (DESIGN 5, rule 3; off by default).

Bounded like the search in `reclaim`, and more: at most `MOST_MOVED` leases move for one claim.
"""

from __future__ import annotations

from itertools import combinations, islice
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.rules.displaceable import can_be_displaced, displaceable, own_parts
from jupyter_gpushare.rules.reclaim import MOST_SETS, Plan, rank_of
from jupyter_gpushare.rules.shortage import all_keep_what_they_deserve
from jupyter_gpushare.rules.situation import soon

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_gpushare.rules.layout import Site
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.rooms import Placement
    from jupyter_gpushare.rules.situation import Situation

__all__ = ["MOST_MOVED", "plan_moves"]

MOST_MOVED: Final = 3
_MOST_RECLAIMED: Final = 4


def plan_moves(situation: Situation, claim: Lease) -> Plan | None:
    """The best way to make *claim* fit where jobs may also be moved, or None.

    To be asked only when no set is feasible without moves. First the best set to reclaim, which may be empty, by the
    order of `plan_reclaim`; for it the best moves: fewest leases, least capacity, newest, name. Whoever is moved must
    fit elsewhere at the same time.
    """
    pools = {name for name, pool in situation.snapshot.pools.items() if pool.consolidation}
    fitting = situation.rooms.layout.fitting(claim.share, claim.pool)
    sites = [site for site in fitting.sites if site.pool in pools] if pools else []
    if not sites or claim.grants or not situation.is_within_limit(claim):
        return None
    trials = iter(range(MOST_SETS))
    for reclaimed in _sets_to_reclaim(situation, claim):
        for site, moved in _sets_to_move(situation, sites, claim, reclaimed):
            if next(trials, None) is None:
                return None
            placement = _try_out(situation, claim, site, reclaimed, moved)
            if placement is not None:
                return Plan(reclaimed, placement, moved)
    return None


def _sets_to_reclaim(situation: Situation, claim: Lease) -> Iterator[tuple[Lease, ...]]:
    """Sets that make room enough for the claim, be it in pieces, best first."""
    above = displaceable(situation, claim, whose_turn_is_over=True)
    candidates = sorted(
        (each for leases in above for each in leases), key=lambda each: rank_of(situation, claim, [each])
    )
    missing = situation.cost(claim) - _room(situation, claim)
    for size in range(min(len(candidates), _MOST_RECLAIMED) + 1):
        sets = islice(combinations(candidates, size), MOST_SETS)
        enough = [each for each in sets if sum(sum(own_parts(lease).values()) for lease in each) >= missing]
        yield from sorted(enough, key=lambda each: rank_of(situation, claim, each))


def _room(situation: Situation, claim: Lease) -> int:
    room = situation.rooms.room(soon(claim))
    return sum(max(0, room(device)) for device in situation.rooms.layout.fitting(claim.share, claim.pool).needs)


def _sets_to_move(
    situation: Situation, sites: list[Site], claim: Lease, reclaimed: tuple[Lease, ...]
) -> Iterator[tuple[Site, tuple[Lease, ...]]]:
    """What could leave the one site on which the claim then fits, best first."""
    there = [(site, _movable(situation, site, reclaimed)) for site in sites]
    for size in range(1, MOST_MOVED + 1):
        found = [
            (site, moved)
            for site, leases in there
            for moved in islice(combinations(leases, size), MOST_SETS)
            if _fits_without(situation, site, claim, (*reclaimed, *moved))
        ]
        yield from sorted(found, key=lambda each: _rank_of_moves(each[1]))


def _movable(situation: Situation, site: Site, reclaimed: tuple[Lease, ...]) -> list[Lease]:
    """Jobs that can go on elsewhere; one that parks can go on only where it was."""
    snapshot = situation.snapshot
    books = [snapshot.device_books.get(device.uuid) for device in site.devices]
    ids = {key for each in books if each is not None for key in each.leases} - {lease.id for lease in reclaimed}
    return [
        lease
        for key in sorted(ids)
        if not (lease := snapshot.leases[key]).is_parkable and can_be_displaced(situation, lease)
    ]


def _rank_of_moves(moved: tuple[Lease, ...]) -> tuple[int, list[float], list[str]]:
    newest = sorted(moved, key=lambda lease: (-lease.submitted, lease.id))
    capacity = sum(lease.amount.millionths for lease in moved)
    return capacity, [-lease.submitted for lease in newest], [lease.id for lease in newest]


def _fits_without(situation: Situation, site: Site, claim: Lease, leases: tuple[Lease, ...]) -> bool:
    freed: dict[str, int] = {}
    for lease in leases:
        for device, amount in own_parts(lease).items():
            freed[device] = freed.get(device, 0) + amount
    room, fitting = situation.rooms.room(soon(claim)), situation.rooms.layout.fitting(claim.share, claim.pool)
    fits = sum(room(uuid) + freed.get(uuid, 0) >= fitting.needs[uuid] for uuid in fitting.sites[site])
    return fits >= claim.share.count


def _try_out(
    situation: Situation, claim: Lease, site: Site, reclaimed: tuple[Lease, ...], moved: tuple[Lease, ...]
) -> Placement | None:
    """Where the claim goes, if everybody who is moved fits elsewhere and nobody ends below what it deserves."""
    trial = situation.copy()
    rooms = trial.rooms
    for lease in (*reclaimed, *moved):
        trial.release(lease)
    placement = trial.place_soon(claim, [site])
    if placement is None:
        return None
    rooms.keep(placement)
    for lease in sorted(moved, key=lambda lease: (-lease.amount.millionths, lease.submitted, lease.id)):
        elsewhere = trial.place_soon(lease.evolve(grants=(), loans=()))
        if elsewhere is None:
            return None
        rooms.keep(elsewhere)
    return placement if all_keep_what_they_deserve(trial, claim, reclaimed) else None
