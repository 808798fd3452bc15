"""How fast hosts and jobs really are: learned from the moves that are seen, for estimates.

What hosts have shown outlives the broker, in the ledger; what jobs have shown does not.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.parking.speed import Speed
from jupyter_gpushare.rules.copies import host_of
from jupyter_gpushare.rules.lease import Status
from jupyter_gpushare.rules.pace import Leaving, Pace, Paces

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_gpushare.broker.reconciler import Published
    from jupyter_gpushare.parking.speed import Direction
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["Pacing"]

# The newest save or safe point counts for so much, and all earlier ones together for the rest.
_NEWEST: Final = 0.3


class Pacing:
    """The pace of each host, job and project, as of the moves seen, and of what brokers before this one saw."""

    def __init__(self) -> None:
        self._usual = Speed()
        self._hosts: dict[tuple[str, Direction], Speed] = {}
        self._jobs: dict[str, Leaving] = {}
        self._projects: dict[str, Leaving] = {}
        self._not_begun: set[str] = set()
        self._begun_anew: set[str] = set()
        self._news: set[str] = set()

    def know(self, paces: Mapping[str, Pace]) -> None:
        """Begin with what was known of these hosts."""
        for host, pace in paces.items():
            speed = Speed(pace.out_bytes_per_s, pace.in_bytes_per_s, pace.out_fixed_s, pace.in_fixed_s)
            self._hosts[host, "park"] = self._hosts[host, "resume"] = speed

    def take_news(self) -> dict[str, Pace]:
        """The hosts of which something was learned since the last time."""
        news, self._news = self._news, set()
        return {host: self._pace(host) for host in news}

    @property
    def paces(self) -> Paces:
        """All that is known now."""
        return Paces(
            {host: self._pace(host) for host, _ in self._hosts},
            _as_pace(self._usual, self._usual),
            MappingProxyType(self._jobs),
            MappingProxyType(self._projects),
        )

    def _pace(self, host: str) -> Pace:
        out, back = (self._hosts.get((host, way), self._usual) for way in ("park", "resume"))
        return _as_pace(out, back)

    def published(self, published: Published) -> None:
        """Learn from what ended with a commit."""
        for key, new in published.change.leases.items():
            old = published.old.leases.get(key)
            if old is not None and old.status is not new.status:
                if key not in self._begun_anew:
                    self._learn(published.old, old, new)
                self._remember(old, new)
            elif old is not None and old.since != new.since:
                self._begun_anew.add(key)
            if new.is_over:
                self._jobs.pop(key, None)
                self._begun_anew.discard(key)

    def _remember(self, old: Lease, new: Lease) -> None:
        self._not_begun.discard(new.id)
        # After an outage or an absence the time of what is asked begins anew: nobody knows how long it really took.
        self._begun_anew.discard(new.id)
        if old.status is Status.MISSING:
            self._begun_anew.add(new.id)
        if new.status is Status.YIELDING and old.status is Status.GRANTED:
            self._not_begun.add(new.id)

    def _learn(self, books: Snapshot, old: Lease, new: Lease) -> None:
        host, took_s = host_of(books, old), new.since - old.since
        if not host or took_s <= 0:
            return
        match old.status, new.status:
            case Status.PARKING, Status.PARKED if old.is_session:
                self._moved(host, "park", old, took_s)
            case Status.PARKING, Status.PARKED:
                copy_s = self._pace(host).park_s(old.host_memory)
                self._left(old, "safe_point_s", max(0.0, took_s - copy_s))
            case Status.RESUMING, Status.RUNNING:
                self._moved(host, "resume", old, took_s)
            case Status.YIELDING, Status.QUEUED if not old.is_session and old.id not in self._not_begun:
                self._left(old, "save_s", took_s)
            case _:
                pass

    def _moved(self, host: str, way: Direction, lease: Lease, took_s: float) -> None:
        size = lease.host_memory.bytes
        self._hosts[host, way] = self._hosts.get((host, way), self._usual).after(way, size, took_s)
        self._usual = self._usual.after(way, size, took_s)
        self._news.add(host)

    def _left(self, lease: Lease, what: str, took_s: float) -> None:
        for known, key in ((self._jobs, lease.id), (self._projects, lease.project)):
            before = known.get(key, Leaving())
            was_s: float | None = getattr(before, what)
            now_s = took_s if was_s is None else (1 - _NEWEST) * was_s + _NEWEST * took_s
            known[key] = replace(before, **{what: now_s})


def _as_pace(out: Speed, back: Speed) -> Pace:
    return Pace(out.out_bytes_per_s, back.in_bytes_per_s, out.out_fixed_s, back.in_fixed_s)
