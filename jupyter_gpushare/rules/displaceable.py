"""Which jobs could be displaced for a claim, and what that would free where."""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.rules.lease import Lease, Status, Target
from jupyter_gpushare.rules.snapshot import ProjectBooks
from jupyter_gpushare.rules.standing import Bound
from jupyter_gpushare.rules.turns import turn_is_over

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jupyter_gpushare.rules.situation import Situation
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["Jobs", "can_be_displaced", "displaceable", "excess", "jobs_above", "own_parts"]

_AT_WORK: Final = frozenset({Status.GRANTED, Status.RUNNING, Status.RESUMING})


@dataclass(slots=True)
class Jobs:
    """The jobs of one project that are at work on more than loans, whatever their turn.

    Attributes:
        freed: what the leaving of all frees on each device, in millionths.
    """

    freed: dict[str, int] = field(default_factory=dict)
    _order: list[tuple[int, float, str]] = field(default_factory=list)
    _leases: dict[str, Lease] = field(default_factory=dict)
    _books: ProjectBooks = field(default_factory=ProjectBooks)

    def __iter__(self) -> Iterator[Lease]:
        """Least capacity first, then newest, then by name."""
        return (self._leases[key] for _, _, key in self._order)

    def follow(self, snapshot: Snapshot, books: ProjectBooks) -> None:
        """Take over the jobs of *snapshot*: only what changed is looked at closely."""
        if self._books is books:
            return
        for key in [key for key in self._leases if snapshot.leases.get(key) is not self._leases[key]]:
            self._drop(self._leases.pop(key))
        for key in books.leases:
            lease = snapshot.leases[key]
            if lease.status in _AT_WORK and key not in self._leases and _is_at_work(lease):
                self._leases[key] = lease
                self._add(lease)
        self._books = books

    def _add(self, lease: Lease) -> None:
        insort(self._order, _rank(lease))
        for device, amount in own_parts(lease).items():
            self.freed[device] = self.freed.get(device, 0) + amount

    def _drop(self, lease: Lease) -> None:
        del self._order[bisect_left(self._order, _rank(lease))]
        for device, amount in own_parts(lease).items():
            self.freed[device] -= amount
            if not self.freed[device]:
                del self.freed[device]


def _rank(lease: Lease) -> tuple[int, float, str]:
    return lease.amount.millionths, -lease.submitted, lease.id


class _Known(threading.local):
    """What this thread sorted for the snapshot before, by project: only what changed is sorted again.

    The result follows from the snapshot alone.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, Jobs] = {}


_KNOWN = _Known()


def jobs_above(situation: Situation, claim: Lease, bound: Bound = Bound.FAIR_SHARE) -> Mapping[str, Jobs]:
    """The jobs of projects above *bound*; of the claim's own too, once the claim is counted in."""
    books, known = situation.snapshot.project_books, _KNOWN.jobs
    for name in known.keys() - books.keys():
        del known[name]
    found = {}
    for name in situation.standings:
        if name in books and excess(situation, claim, name, bound) > 0:
            # Should this fail half-way, the next begins anew.
            jobs = known.pop(name, None) or Jobs()
            jobs.follow(situation.snapshot, books[name])
            found[name] = known[name] = jobs
    return found


def displaceable(
    situation: Situation, claim: Lease, bound: Bound = Bound.FAIR_SHARE, *, whose_turn_is_over: bool
) -> list[Iterator[Lease]]:
    """Those of `jobs_above` that nobody has called yet; with *whose_turn_is_over*, only those whose turn is over."""

    def _is_left(lease: Lease) -> bool:
        return lease.id not in situation.leases and (
            not whose_turn_is_over or turn_is_over(situation.snapshot, lease, situation.now)
        )

    return [filter(_is_left, jobs) for jobs in jobs_above(situation, claim, bound).values()]


def excess(situation: Situation, claim: Lease, project: str, bound: Bound = Bound.FAIR_SHARE) -> int:
    """How far *project* is above *bound*, the claim counted in."""
    own = situation.cost(claim) if project == claim.project else 0
    return situation.standings[project].above(bound) + own


def can_be_displaced(situation: Situation, lease: Lease) -> bool:
    """Whether *lease* is a job at work on more than loans, not on its way out yet, and its minimum turn is over."""
    is_left = lease.status in _AT_WORK and lease.id not in situation.leases and _is_at_work(lease)
    return is_left and turn_is_over(situation.snapshot, lease, situation.now)


def _is_at_work(lease: Lease) -> bool:
    if lease.is_session or lease.is_called or lease.target is not Target.RUNNING:
        return False
    return not lease.loans or lease.lent != lease.amount


def own_parts(lease: Lease) -> dict[str, int]:
    """What its leaving frees of each device for somebody else to have: all that is not lent to it."""
    parts: dict[str, int] = {}
    for grant in lease.grants:
        parts[grant.device] = parts.get(grant.device, 0) + grant.amount.millionths
    for loan in lease.loans:
        parts[loan.device] = parts.get(loan.device, 0) - loan.amount.millionths
    return {device: amount for device, amount in parts.items() if amount > 0}
