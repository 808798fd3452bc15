"""Whom a claim inside its project's fair share displaces (DESIGN 5, rule 3; docs/decisions/0020).

The search looks at sets of one lease, then of two, and so on, and takes the best of the first size that has a feasible
one. It is exact as long as there are at most `MOST_SETS` sets of a size to look at. With more it looks only at sets
that are all on one site; with more than that even there, only at the one that is built lease by lease, best first. So
in large clusters a set may be missed that needs somebody displaced on one host so that somebody else goes on there.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass
from itertools import chain, combinations, islice
from math import comb
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.rules.displaceable import displaceable, excess, jobs_above, own_parts
from jupyter_gpushare.rules.layout import shape_of
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.shortage import all_keep_what_they_deserve
from jupyter_gpushare.rules.situation import soon
from jupyter_gpushare.rules.standing import Bound

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from jupyter_gpushare.rules.layout import Site
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.rooms import Placement
    from jupyter_gpushare.rules.situation import Situation

__all__ = ["MOST_SETS", "Plan", "plan_reclaim", "rank_of"]

#: How many sets of one size are looked at.
MOST_SETS: Final = 500
# Of larger sets no two are compared: one is built for each site.
_MOST_LEASES: Final = 16


@dataclass(frozen=True, slots=True)
class Plan:
    """What makes a claim fit: these leases yield, these are moved, and then it goes there. Meanwhile it waits so."""

    reclaimed: tuple[Lease, ...]
    placement: Placement
    moved: tuple[Lease, ...] = ()
    reason: Reason = Reason.WAITING_FOR_CALL_BACK


_Rank = tuple[int, int, int, tuple[float, ...], tuple[str, ...]]


def plan_reclaim(
    situation: Situation, claim: Lease, bound: Bound = Bound.FAIR_SHARE, *, whose_turn_is_over: bool = True
) -> Plan | None:
    """The best set of leases to reclaim for *claim*, or None if no set is feasible.

    Only jobs of projects above *bound* are in a set; with *whose_turn_is_over*, only those whose minimum turn is over.
    Feasible is a set after which the claim fits on devices, and no project that lost something ends below min(quota,
    demand), its jobs that wait or are reclaimed being placed on what is left over, in the order and in the places in
    which they are served. Best: fewest leases; least capacity; largest excess over fair share; newest by first
    submission; name.
    """
    is_like_others = (
        not claim.grants and situation.is_within_limit(claim) and excess(situation, claim, claim.project, bound) <= 0
    )
    alike = (bound, claim.is_session, shape_of(claim.share, claim.pool))
    if is_like_others and not situation.hopeless.isdisjoint({("ever", alike), (whose_turn_is_over, alike)}):
        return None
    search = _Search(situation, claim, bound, whose_turn_is_over=whose_turn_is_over)
    if not search.could_ever_fit():
        situation.hopeless.update({("ever", alike)} if is_like_others else ())
        return None
    for leases in islice(search.sets(), MOST_SETS):
        placement = search.try_out(leases)
        if placement is not None:
            return Plan(leases, placement)
    if is_like_others:
        situation.hopeless.add((whose_turn_is_over, alike))
    return None


def rank_of(situation: Situation, claim: Lease, leases: Iterable[Lease]) -> _Rank:
    """The rank of a set: fewest, least capacity, largest excess, newest, name. The excess is that before each loss."""
    newest = sorted(leases, key=lambda lease: (-lease.submitted, lease.id))
    taken: dict[str, int] = {}
    above = 0
    for lease in newest:
        before = taken.get(lease.project, 0)
        above += excess(situation, claim, lease.project) - before
        taken[lease.project] = before + lease.amount.millionths - lease.lent.millionths
    return (
        len(newest),
        sum(lease.amount.millionths for lease in newest),
        -above,
        tuple(-lease.submitted for lease in newest),
        tuple(lease.id for lease in newest),
    )


class _Search:
    """One search for one claim."""

    def __init__(self, situation: Situation, claim: Lease, bound: Bound, *, whose_turn_is_over: bool) -> None:
        self._situation = situation
        self._claim = claim
        self._bound = bound
        self._whose_turn_is_over = whose_turn_is_over
        self._fitting = situation.rooms.layout.fitting(claim.share, claim.pool)
        self._room = situation.rooms.room(soon(claim))
        self._is_at_limit = not situation.is_within_limit(claim)
        self._parts: dict[str, dict[str, int]] = {}
        self._with_room: dict[Site, frozenset[str]] = {}
        self._large: dict[Site, tuple[Lease, ...]] = {}

    def could_ever_fit(self) -> bool:
        """Whether the claim would fit somewhere if all jobs above the bound left, whatever their turn."""
        freed = _together(self._situation, self._claim, self._bound)
        return any(self._fits(site, freed) for site in self._with_enough(freed))

    def sets(self) -> Iterator[tuple[Lease, ...]]:
        """Sets after which the claim fits somewhere, best first."""
        # Within a project they are in order already, and most claims need no more than a few.
        singles = [
            filter(self._is_enough, ((lease,) for lease in filter(self._is_close, leases)))
            for leases in self._candidates()
        ]
        yield from heapq.merge(*singles, key=self._rank) if len(singles) > 1 else chain.from_iterable(singles)
        everybody = sorted((lease for leases in self._candidates() for lease in leases), key=_id)
        sites = self._sites(self._freed(everybody))
        there = self._by_site(everybody) if sites else {}
        for size in range(2, min(len(everybody), _MOST_LEASES) + 1) if sites else ():
            found = self._sets_of(size, everybody, {site: there.get(site, []) for site in sites})
            yield from sorted(filter(self._is_enough, found), key=self._rank)
        large = (self._built(site, there.get(site, [])) for site in sites)
        yield from sorted(
            (each for each in large if len(each) > _MOST_LEASES and self._is_enough(each)), key=self._rank
        )

    def _candidates(self) -> list[Iterator[Lease]]:
        turn = self._whose_turn_is_over
        return displaceable(self._situation, self._claim, self._bound, whose_turn_is_over=turn)

    def _sites(self, freed: Mapping[str, int]) -> list[Site]:
        """Where the claim would fit if that much were freed."""
        return [site for site in self._touched(freed) if self._fits(site, freed)]

    def _rank(self, leases: tuple[Lease, ...]) -> _Rank:
        return rank_of(self._situation, self._claim, leases)

    def try_out(self, leases: tuple[Lease, ...]) -> Placement | None:
        """Where the claim goes without *leases*, if that leaves nobody below what it deserves."""
        rooms = self._situation.rooms
        for lease in leases:
            rooms.release(lease)
        places = (
            placement
            for placement in islice(self._places(leases), _MOST_LEASES)
            if all_keep_what_they_deserve(self._situation, self._claim, leases, placement)
        )
        found = next(places, None)
        for lease in leases:
            rooms.release(lease, -1)
        return found

    def _places(self, leases: tuple[Lease, ...]) -> Iterator[Placement]:
        """Where the claim could go without *leases*, best first, one on each site: what is left over differs."""
        sites = self._touched(self._freed(leases))
        while sites and (placement := self._situation.place_soon(self._claim, sites)) is not None:
            yield placement
            taken = self._situation.rooms.layout.site_of[placement[0].device]
            sites = [site for site in sites if site is not taken]

    def _by_site(self, leases: list[Lease]) -> dict[Site, list[Lease]]:
        on: dict[Site, list[Lease]] = {}
        for lease in leases:
            for site in self._touched(self._freed([lease])):
                on.setdefault(site, []).append(lease)
        return on

    def _sets_of(
        self, size: int, everybody: list[Lease], there: Mapping[Site, list[Lease]]
    ) -> Iterator[tuple[Lease, ...]]:
        if comb(len(everybody), size) <= MOST_SETS:
            yield from combinations(everybody, size)
            return
        for site, leases in there.items():
            yield from self._sets_at(site, leases, size)

    def _sets_at(self, site: Site, leases: list[Lease], size: int) -> Iterator[tuple[Lease, ...]]:
        """Sets on one site alone: leaving elsewhere makes no room here."""
        if self._is_too_short(site, size * max((len(lease.grants) for lease in leases), default=0)):
            return
        if comb(len(leases), size) <= MOST_SETS:
            yield from combinations(leases, size)
            return
        built = self._built(site, leases)
        if len(built) == size:
            yield built

    def _built(self, site: Site, leases: list[Lease]) -> tuple[Lease, ...]:
        """As `_build`, once for each site."""
        if site not in self._large:
            self._large[site] = self._build(site, leases)
        return self._large[site]

    def _build(self, site: Site, leases: list[Lease]) -> tuple[Lease, ...]:
        """Those that free the most devices first, then by rank, until it is enough; less what was not needed."""
        chosen: list[Lease] = []
        for lease in sorted(leases, key=lambda each: (-len(self._freed([each])), self._rank((each,)))):
            chosen.append(lease)
            if self._fits(site, self._freed(chosen)):
                break
        for lease in chosen[:-1]:
            without = [each for each in chosen if each is not lease]
            chosen = without if self._fits(site, self._freed(without)) else chosen
        return tuple(chosen)

    def _is_close(self, lease: Lease) -> bool:
        """Whether the claim might fit without *lease*: a quick look at very many."""
        site_of, sites = self._situation.rooms.layout.site_of, self._fitting.sites
        there = {site_of[grant.device] for grant in lease.grants if grant.device in site_of} & sites.keys()
        return self._is_at_limit or not all(self._is_too_short(site, len(lease.grants)) for site in there)

    def _is_too_short(self, site: Site, devices: int) -> bool:
        """Whether more than so many *devices* of *site* are missing for a claim that may go anywhere."""
        is_bound = self._is_at_limit or bool(self._claim.grants)
        return not is_bound and self._claim.share.count - len(self._fits_now(site)) > devices

    def _is_enough(self, leases: tuple[Lease, ...]) -> bool:
        freed = self._freed(leases)
        return self._may_have(leases) and any(self._fits(site, freed) for site in self._touched(freed))

    def _may_have(self, leases: tuple[Lease, ...]) -> bool:
        """Whether the claim's project stays within its limit."""
        if not self._is_at_limit:
            return True
        standing = self._situation.standing(self._claim)
        own = sum(lease.amount.millionths for lease in leases if lease.project == self._claim.project)
        return standing.total - own + self._situation.cost(self._claim) <= standing.limit

    def _with_enough(self, freed: Mapping[str, int]) -> list[Site]:
        """The sites where enough devices would have room; a quick look, made for many claims in every decision."""
        if self._is_at_limit or self._claim.grants:
            return self._touched(freed)
        rooms, needs, view = self._situation.rooms, self._fitting.needs, soon(self._claim)
        room, site_of = self._room, rooms.layout.site_of
        fits = [uuid for uuid, more in freed.items() if uuid in needs and room(uuid) + more >= needs[uuid]]
        if not fits:
            return []
        also = (uuid for uuid in rooms.devices(view) if uuid in needs and uuid not in freed)
        fits += (uuid for uuid in also if room(uuid) >= needs[uuid])
        found = Counter(site_of[uuid] for uuid in fits)
        return [site for site, count in found.items() if count >= self._claim.share.count]

    def _freed(self, leases: Iterable[Lease]) -> dict[str, int]:
        freed: dict[str, int] = {}
        for lease in leases:
            if lease.id not in self._parts:
                self._parts[lease.id] = own_parts(lease)
            for device, amount in self._parts[lease.id].items():
                freed[device] = freed.get(device, 0) + amount
        return freed

    def _touched(self, freed: Iterable[str]) -> list[Site]:
        """The sites with room that is freed; all, for a claim that only its project's limit keeps waiting."""
        if self._is_at_limit:
            return list(self._fitting.sites)
        site_of = self._situation.rooms.layout.site_of
        return list(dict.fromkeys(site_of[uuid] for uuid in freed if uuid in self._fitting.needs))

    def _fits(self, site: Site, freed: Mapping[str, int]) -> bool:
        room, claim = self._room, self._claim
        if claim.grants:
            return all(room(part.device) + freed.get(part.device, 0) >= part.amount.millionths for part in claim.grants)
        fits = self._fits_now(site)
        missing = claim.share.count - len(fits)
        if missing > len(freed):
            return False
        needs, site_of = self._fitting.needs, self._situation.rooms.layout.site_of
        more = (uuid for uuid in freed if uuid not in fits and site_of.get(uuid) is site and uuid in needs)
        return sum(room(uuid) + freed[uuid] >= needs[uuid] for uuid in more) >= missing

    def _fits_now(self, site: Site) -> frozenset[str]:
        """The devices of *site* that have room already; looked up once, as most sets are on few sites."""
        if site not in self._with_room:
            room, needs = self._room, self._fitting.needs
            self._with_room[site] = frozenset(uuid for uuid in self._fitting.sites[site] if room(uuid) >= needs[uuid])
        return self._with_room[site]


def _together(situation: Situation, claim: Lease, bound: Bound) -> dict[str, int]:
    """What would be free on each device if all jobs of projects above *bound* left."""
    above = jobs_above(situation, claim, bound)
    names = tuple(sorted(above))
    if names not in situation.together:
        freed: dict[str, int] = {}
        for jobs in above.values():
            for device, amount in jobs.freed.items():
                freed[device] = freed.get(device, 0) + amount
        situation.together[names] = freed
    return situation.together[names]


def _id(lease: Lease) -> str:
    return lease.id
