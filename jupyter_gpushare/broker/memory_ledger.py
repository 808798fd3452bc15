"""Books in memory: for tests, for the replay, and for histories that want no disk."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from jupyter_gpushare.broker.ledger import EVER, ConflictError, NotLeaderError, Recorded, UsageHours
from jupyter_gpushare.broker.ledger_guards import check_change, check_columns, check_paces, check_usage
from jupyter_gpushare.broker.memory_past import MemoryPast, Past
from jupyter_gpushare.rules.lease import Status
from jupyter_gpushare.rules.snapshot import EMPTY

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from jupyter_gpushare.broker.ledger import Span
    from jupyter_gpushare.rules.change import Change
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.pace import Pace
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["MemoryBooks", "MemoryLedger"]


@dataclass
class MemoryBooks:
    """What outlives a ledger that was let go of: stands for the database."""

    incarnation: str = ""
    snapshot: Snapshot = EMPTY
    audit: list[Recorded] = field(default_factory=list)
    usage: dict[tuple[int, str, str], UsageHours] = field(default_factory=dict)
    holders: dict[tuple[str, str], str] = field(default_factory=dict)
    restores: dict[str, str] = field(default_factory=dict)
    paces: dict[str, Pace] = field(default_factory=dict)
    past: Past = field(default_factory=Past)
    lines: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class MemoryLedger(MemoryPast):
    """A `Ledger` in memory. Another one on the same *books* finds what this one kept."""

    def __init__(self, books: MemoryBooks | None = None) -> None:
        self.books = MemoryBooks() if books is None else books
        self._incarnation = ""

    @property
    def past(self) -> Past:
        """Where it keeps what is beside the books."""
        return self.books.past

    @property
    def lock(self) -> threading.Lock:
        """To be held while one looks or writes."""
        return self.books.lock

    def take_over(self, incarnation: str) -> None:
        """Be the one writer from now on."""
        with self.books.lock:
            self.books.incarnation = self._incarnation = incarnation

    def load(self) -> Snapshot:
        """The books as they were committed last."""
        with self.books.lock:
            return self.books.snapshot

    def commit(self, change: Change) -> None:
        """Keep the whole of *change* or nothing of it."""
        check_change(change)
        with self.books.lock:
            self._check_leader()
            books = self.books
            holders, restores = _claims(books, change)
            books.snapshot = books.snapshot.with_change(change)
            books.holders, books.restores = holders, restores
            books.audit += [Recorded(number, entry) for number, entry in enumerate(change.audit, books.lines + 1)]
            books.lines += len(change.audit)

    def audit(
        self,
        *,
        after: int = 0,
        limit: int = 1000,
        where: Mapping[str, str] | None = None,
        span: Span = EVER,
        projects: Collection[str] | None = None,
    ) -> Sequence[Recorded]:
        """Lines with a number above *after*, in the order of *span*."""
        wanted = dict(where or {})
        check_columns(wanted)
        with self.books.lock:
            gone = self.books.lines - len(self.books.audit)
            lines = self.books.audit[max(0, after - gone) :]
        if span.newest_first:
            lines.reverse()
        fitting = [
            each
            for each in lines
            if span.holds(each)
            and all((getattr(each.entry, k) or "") == v for k, v in wanted.items())
            and (projects is None or each.entry.project in projects)
        ]
        return fitting[: max(0, limit)]

    def prune_audit(self, before: float) -> int:
        """Forget the lines that are older than *before*."""
        with self.books.lock:
            self._check_leader()
            kept = [each for each in self.books.audit if each.entry.at >= before]
            gone, self.books.audit = len(self.books.audit) - len(kept), kept
            return gone

    def add_usage(self, usage: Sequence[UsageHours]) -> None:
        """Add to what each hour, project and person has already."""
        check_usage(usage)
        with self.books.lock:
            self._check_leader()
            for each in usage:
                key = (each.hour, each.project, each.person)
                self.books.usage[key] = _sum(self.books.usage.get(key, UsageHours(*key)), each)

    def usage(self, *, since: float, until: float) -> Sequence[UsageHours]:
        """What was used in the hours that begin in that time."""
        with self.books.lock:
            return [each for key, each in sorted(self.books.usage.items()) if since <= key[0] < until]

    def usage_of_projects(self, *, since: float, until: float) -> Sequence[UsageHours]:
        """The same, summed up: one for each project, with its first hour and no person."""
        found: dict[str, UsageHours] = {}
        for each in self.usage(since=since, until=until):
            first = found.get(each.project, UsageHours(each.hour, each.project, ""))
            found[each.project] = _sum(first, each)
        return [found[project] for project in sorted(found)]

    def keep_paces(self, paces: Mapping[str, Pace]) -> None:
        """Keep how fast these hosts are, by name."""
        check_paces(paces)
        with self.books.lock:
            self._check_leader()
            self.books.paces |= paces

    def paces(self) -> Mapping[str, Pace]:
        """How fast hosts were, by name."""
        with self.books.lock:
            return dict(self.books.paces)

    def close(self) -> None:
        """Let go of it; the books stay."""

    def _check_leader(self) -> None:
        if not self._incarnation or self._incarnation != self.books.incarnation:
            raise NotLeaderError("Another broker has taken over these books in memory; this one stops.")


def _sum(one: UsageHours, other: UsageHours) -> UsageHours:
    return replace(
        one,
        held=one.held + other.held,
        handed_back=one.handed_back + other.handed_back,
        lent=one.lent + other.lent,
        computed=one.computed + other.computed,
    )


def _claims(books: MemoryBooks, change: Change) -> tuple[dict[tuple[str, str], str], dict[str, str]]:
    """Who is which holder's lease, and who restores where, after *change*."""
    gone = change.leases.keys()
    holders = {key: lease for key, lease in books.holders.items() if lease not in gone}
    restores = {device: lease for device, lease in books.restores.items() if lease not in gone}
    for lease in change.leases.values():
        if not lease.is_over:
            _claim(lease, books.snapshot.leases.get(lease.id), holders, restores)
    return holders, restores


def _claim(lease: Lease, before: Lease | None, holders: dict[tuple[str, str], str], restores: dict[str, str]) -> None:
    if before is not None and lease.epoch < before.epoch:
        raise ConflictError(f"lease {lease.id!r}: its epoch goes back from {before.epoch} to {lease.epoch}")
    if lease.key and holders.setdefault((lease.person, lease.key), lease.id) != lease.id:
        raise ConflictError(f"lease {lease.id!r}: {lease.person} has another one for the key {lease.key!r}")
    if lease.status is Status.RESUMING:
        for device in lease.devices:
            if restores.setdefault(device, lease.id) != lease.id:
                raise ConflictError(f"lease {lease.id!r}: another one is being restored on {device}")
