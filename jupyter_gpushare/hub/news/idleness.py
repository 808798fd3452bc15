"""Whose share will be parked soon: a line to whoever left a notebook open, while there is time to keep it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from jupyter_gpushare.hub.news.wording import idle_soon
from jupyter_gpushare.rules.lease import Status, Target
from jupyter_gpushare.rules.turns import pool_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from msgspec import UnsetType

    from jupyter_gpushare.hub.news.wording import News
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.pool import Pool
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["IdleWatch"]

#: So long before it is parked, or half its timeout if that is shorter.
_BEFORE_S: Final = 120.0
# A holder that connects again says a little differently since when: that is the same stretch.
_SAME_S: Final = 60.0


@dataclass(slots=True)
class IdleWatch:
    """Knows who is idle, so that nobody has to look through all leases for them. Pure; the clock is passed in.

    Args:
        is_kept: whether the owner of a lease has said that its share is to be kept.
        park_after_s: after how many idle seconds the admin has a lease of a pool parked at the latest, besides what the
            pool itself says; None where nothing is said.
        said: when a lease's own session will have it parked; None where it will not, unset where it does not say. A
            notebook may have a timeout of its own, which only its session knows.
    """

    is_kept: Callable[[Lease], bool] = lambda _lease: False
    park_after_s: Callable[[Pool, Lease], float | None] = lambda _pool, _lease: None
    said: Callable[[Lease], float | UnsetType | None] = lambda _lease: UNSET
    _idle: dict[str, float] = field(default_factory=dict)
    _told: dict[str, float] = field(default_factory=dict)

    def see(self, leases: Iterable[Lease]) -> None:
        """These leases are so now."""
        for lease in leases:
            since = lease.idle_since
            if since is not None and lease.is_session and not lease.is_over:
                self._idle[lease.id] = since
                continue
            self._idle.pop(lease.id, None)
            self._told.pop(lease.id, None)

    def _was_told(self, key: str, since: float) -> bool:
        told = self._told.get(key)
        return told is not None and abs(told - since) < _SAME_S

    def due(self, books: Snapshot, now: float) -> list[News]:
        """Whom to tell, each stretch of idleness once."""
        if books.is_parking_stopped:
            return []
        found = []
        for key, since in list(self._idle.items()):
            lease = books.leases.get(key)
            if lease is None or self._was_told(key, since) or not _may_be_parked(lease):
                continue
            pool = pool_of(books, lease)
            parks_at = self._parks_at(pool, lease, since)
            if parks_at is None or pool.parking != "park" or self.is_kept(lease):
                continue
            if parks_at - min(_BEFORE_S, (parks_at - since) / 2) <= now < parks_at:
                self._told[key] = since
                found.append(idle_soon(lease, since, now, parks_at))
        return found

    def _parks_at(self, pool: Pool, lease: Lease, since: float) -> float | None:
        said = self.said(lease)
        if said is not UNSET:
            return said
        timeout_s = self.park_after_s(pool, lease)
        return since + (pool.idle_timeout_s if timeout_s is None else min(timeout_s, pool.idle_timeout_s))


def _may_be_parked(lease: Lease) -> bool:
    return lease.status is Status.RUNNING and lease.target is Target.RUNNING and lease.is_parkable
