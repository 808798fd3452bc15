"""How fast each host really is: learned from the moves that are seen, for estimates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jupyter_gpushare.rules.copies import host_of
from jupyter_gpushare.rules.estimate import Pace
from jupyter_gpushare.rules.lease import Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_gpushare.broker.reconciler import Published
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["Pacing"]

# The newest move counts for so much, and all earlier ones together for the rest.
_NEWEST: Final = 0.3
# Less memory says how long an answer takes, and nothing about copying.
_LEAST_BYTES: Final = 64 << 20
_MOVES: Final = {Status.PARKING: Status.PARKED, Status.RESUMING: Status.RUNNING}


class Pacing:
    """The pace of each host, as of the moves seen since the broker started."""

    def __init__(self) -> None:
        self._copies: dict[str, float] = {}
        self._saves: dict[str, float] = {}

    @property
    def paces(self) -> Mapping[str, Pace]:
        """By host; one of which nothing is known is left out."""
        usual = Pace()
        return {
            host: Pace(self._copies.get(host, usual.copy), self._saves.get(host))
            for host in self._copies.keys() | self._saves.keys()
        }

    def published(self, published: Published) -> None:
        """Learn from what ended with a commit."""
        for key, new in published.change.leases.items():
            if (old := published.old.leases.get(key)) is not None and old.status is not new.status:
                self._learn(published.old, old, new)

    def _learn(self, books: Snapshot, old: Lease, new: Lease) -> None:
        host, took_s = host_of(books, old), new.since - old.since
        if not host or took_s <= 0:
            return
        if _MOVES.get(old.status) is new.status and old.host_memory.bytes >= _LEAST_BYTES:
            _mix(self._copies, host, old.host_memory.bytes / took_s)
        elif old.status is Status.YIELDING and not old.is_session:
            _mix(self._saves, host, took_s)


def _mix(known: dict[str, float], host: str, seen: float) -> None:
    known[host] = seen if host not in known else (1 - _NEWEST) * known[host] + _NEWEST * seen
