"""Where each project stands against its quota and its fair share while claims are served."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.fair_share import divide
from jupyter_gpushare.rules.lease import Status
from jupyter_gpushare.rules.snapshot import ProjectBooks

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["Bound", "Standing", "is_leaving", "leaving", "standings"]


class Bound(Enum):
    """Up to what the jobs of a project are safe from a claim."""

    #: From every claim inside its project's fair share.
    FAIR_SHARE = auto()
    #: From a session's claim inside its project's quota that no other set makes fit: up to min(quota, demand).
    DESERVED = auto()


@dataclass(slots=True)
class Standing:
    """One project, in millionths of a GPU. What is on its way out is taken off already.

    Attributes:
        quota: what it always gets when it wants it.
        limit: what it never gets more than, loans included.
        fair: its fair share.
        deserved: min(quota, demand).
        used: what counts against its fair share: all but loans.
        sessions: of its sessions, running or parked.
        total: all that it has, loans included; kept only where there is a limit.
    """

    quota: int = 0
    limit: int = 0
    fair: int = 0
    deserved: int = 0
    used: int = 0
    sessions: int = 0
    total: int = 0

    @property
    def has_no_limit(self) -> bool:
        """Whether nothing but devices bounds what it gets."""
        return self.limit >= Fraction.UNLIMITED.millionths

    @property
    def excess(self) -> int:
        """How far it is above its fair share; below it, how far below, negative."""
        return self.used - self.fair

    def above(self, bound: Bound) -> int:
        """How far it is above what is safe under *bound*; below it, negative."""
        # Where not even the quotas fit, what is deserved is more than the fair share.
        return self.excess if bound is Bound.FAIR_SHARE else self.used - min(self.fair, self.deserved)

    def has_inside(self, cost: int, *, is_session: bool) -> bool:
        """Whether a claim of *cost* is inside its fair share; a session's counts only the project's sessions."""
        return (self.sessions if is_session else self.used) + cost <= self.fair

    def add(self, cost: int, *, lent: int = 0, is_session: bool = False) -> None:
        """It gets *cost*, of which *lent* is on loan."""
        self.used += cost - lent
        self.total += cost
        if is_session:
            self.sessions += cost


def is_leaving(lease: Lease) -> bool:
    """Whether what it has will be free, without any further decision."""
    if lease.status is Status.PARKING:
        return not lease.is_session
    return lease.status is Status.YIELDING or lease.is_called


def leaving(snapshot: Snapshot) -> list[Lease]:
    """All that are `is_leaving`."""
    unsettled = (snapshot.leases[key] for key in snapshot.unsettled)
    return [lease for lease in unsettled if is_leaving(lease)]


def standings(snapshot: Snapshot, whole: int, on_the_way_out: Iterable[Lease]) -> dict[str, Standing]:
    """Every project's standing, with *whole* millionths to divide; that of a project which is no more has no share."""
    demands = {name: books.demand.millionths for name, books in snapshot.project_books.items()}
    fair = divide(whole, snapshot.projects, demands)
    made = {name: _standing(snapshot, name, fair.get(name, 0)) for name in {*snapshot.projects, *demands}}
    for lease in on_the_way_out:
        made[lease.project].add(-lease.amount.millionths, lent=-lease.lent.millionths, is_session=lease.is_promised)
    return made


def _standing(snapshot: Snapshot, name: str, fair: int) -> Standing:
    project = snapshot.projects.get(name)
    books = snapshot.project_books.get(name, ProjectBooks())
    used, sessions = books.counted.millionths, books.sessions.millionths
    if project is None:
        return Standing(used=used, sessions=sessions)
    quota, limit = project.quota.millionths, project.limit.millionths
    deserved = min(quota, books.demand.millionths)
    total = 0 if project.limit.is_unlimited else _total(snapshot, books)
    return Standing(quota, limit, fair, deserved, used, sessions, total)


def _total(snapshot: Snapshot, books: ProjectBooks) -> int:
    leases = (snapshot.leases[key] for key in books.leases)
    return sum(lease.amount.millionths for lease in leases if lease.is_resident or lease.is_promised)
