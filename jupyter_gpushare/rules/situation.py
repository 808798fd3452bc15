"""What one round of service looks at: the books, the rooms and the standings, as it changes them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Self

from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.copies import is_overdue
from jupyter_gpushare.rules.counting import capacity_of, rooms_of
from jupyter_gpushare.rules.demand import demand_of
from jupyter_gpushare.rules.layout import shape_of
from jupyter_gpushare.rules.lease import Status
from jupyter_gpushare.rules.placement import NOBODY, Neighbours, choose_place, neighbours, with_loans
from jupyter_gpushare.rules.rooms import View
from jupyter_gpushare.rules.standing import Standing, leaving, standings

if TYPE_CHECKING:
    from collections.abc import Collection

    from jupyter_gpushare.rules.layout import Site
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.reason import Reason
    from jupyter_gpushare.rules.rooms import Placement, Rooms
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["Situation", "look", "soon"]


@dataclass(slots=True)
class Situation:
    """A working copy: what is decided for one claim, the next finds done.

    Attributes:
        snapshot: the books as the round began.
        now: the clock.
        rooms: what devices have room for.
        standings: of each project.
        leases: those that the round has changed.
        leavers: whose capacity will be free without any further decision.
        ignoring: those of them whose time for it is over: what they have is theirs still, and their room is counted on
            only where there is no other way.
        hopeless: what was found to fit nowhere. Rooms only shrink, until somebody else is to leave.
        reasons: why claims alike wait, as found.
        near: where the members of anti-affinity groups were as the round began.
        together: what would be free on each device without the jobs of these projects, as the round began.
    """

    snapshot: Snapshot
    now: float
    rooms: Rooms
    standings: dict[str, Standing]
    leavers: list[Lease]
    ignoring: list[Lease] = field(default_factory=list)
    leases: dict[str, Lease] = field(default_factory=dict)
    hopeless: set[object] = field(default_factory=set)
    reasons: dict[object, Reason] = field(default_factory=dict)
    near: dict[str, Neighbours] = field(default_factory=dict)
    together: dict[tuple[str, ...], dict[str, int]] = field(default_factory=dict)

    def copy(self) -> Self:
        """One to try something out with: its rooms are its own, and nothing is known to be hopeless in it."""
        return replace(self, rooms=self.rooms.copy(), hopeless=set(), reasons={})

    def standing(self, lease: Lease) -> Standing:
        """That of the lease's project."""
        return self.standings[lease.project]

    def cost(self, lease: Lease) -> int:
        """What a waiting claim would have, in millionths: of a share in GiB, on the smallest device it could get."""
        if lease.grants:
            return lease.amount.millionths
        request = lease.share.request
        if isinstance(request, Fraction):
            return request.millionths * lease.share.count
        dearest = self.rooms.layout.fitting(lease.share, lease.pool).dearest
        return dearest * lease.share.count or demand_of(lease, self.snapshot.devices).millionths

    def has_inside(self, lease: Lease) -> bool:
        """Whether the claim *lease* is inside its project's fair share."""
        return self.standing(lease).has_inside(self.cost(lease), is_session=lease.is_session)

    def foresee(self, lease: Lease) -> None:
        """Count the claim *lease* as served."""
        self.standing(lease).add(self.cost(lease), is_session=lease.is_session)

    def is_within_limit(self, lease: Lease) -> bool:
        """Whether its project stays within its limit with it."""
        standing = self.standing(lease)
        return standing.total + self.cost(lease) <= standing.limit or lease.project not in self.snapshot.projects

    def place_now(self, lease: Lease) -> Placement | None:
        """Where it could begin now, without a loan."""
        return self.place(lease, View.SESSION if lease.is_session else View.OWN)

    def place_soon(self, lease: Lease, sites: Collection[Site] | None = None) -> Placement | None:
        """Where it could begin once those that are leaving have left, without a loan."""
        return self.place(lease, soon(lease), sites)

    def place_late(self, lease: Lease) -> Placement | None:
        """Where it could begin once those have left, too, that ignore it so far: nobody can say when."""
        if not self.ignoring:
            return None
        for each in self.ignoring:
            self.rooms.release(each)
        found = choose_place(self.rooms, lease, soon(lease), near=self._near(lease))
        for each in self.ignoring:
            self.rooms.release(each, -1)
        return found

    def place_on_loan(self, lease: Lease) -> Placement | None:
        """Where a job could begin now, with as little on loan as there can be."""
        found = self.place(lease, View.WITH_LOANS)
        return None if found is None else with_loans(self.rooms, found)

    def place(self, lease: Lease, view: View, sites: Collection[Site] | None = None) -> Placement | None:
        """The best place for it by *view*."""
        what = None if lease.grants or sites is not None else (view, shape_of(lease.share, lease.pool))
        if what in self.hopeless:
            return None
        found = choose_place(self.rooms, lease, view, near=self._near(lease), sites=sites)
        if found is None and what is not None:
            self.hopeless.add(what)
        return found

    def place_without(self, lease: Lease, devices: Collection[str], view: View) -> Placement | None:
        """The best place for it by *view* that is on none of *devices*."""
        return choose_place(self.rooms.without(devices), lease, view, near=self._near(lease))

    def release(self, lease: Lease) -> None:
        """Count on *lease* to leave."""
        self.rooms.release(lease)
        self.hopeless.clear()
        self.reasons.clear()

    def _near(self, lease: Lease) -> Neighbours:
        """Where those are that *lease* is to stay apart from."""
        group = lease.spread_group
        if not group or not any(pool.placement == "spread" for pool in self.snapshot.pools.values()):
            return NOBODY
        if group not in self.near:
            members = (each for each in self.snapshot.leases.values() if each.spread_group == group)
            self.near[group] = neighbours(self.snapshot, filter(_has_a_place, members))
        new = (each for each in self.leases.values() if each.spread_group == group and each.status is Status.GRANTED)
        return neighbours(self.snapshot, new, self.near[group])


def _has_a_place(lease: Lease) -> bool:
    return lease.is_resident or lease.is_promised


def soon(lease: Lease) -> View:
    """How to look for room for *lease* once those that are leaving have left."""
    return View.SESSION_SOON if lease.is_session else View.OWN_SOON


def look(snapshot: Snapshot, now: float) -> Situation:
    """The situation as it is: those that are leaving count as coming room, and for their projects no more."""
    gone = leaving(snapshot)
    ignoring = [lease for lease in gone if not lease.is_called and is_overdue(snapshot, lease, now)]
    going = [lease for lease in gone if lease not in ignoring]
    rooms = rooms_of(snapshot)
    for lease in going:
        rooms.release(lease)
    for key in snapshot.unsettled:
        lease = snapshot.leases[key]
        if lease.is_session and lease.status is Status.PARKING:
            rooms.release(lease)
    return Situation(snapshot, now, rooms, standings(snapshot, capacity_of(snapshot), going), gone, ignoring)
