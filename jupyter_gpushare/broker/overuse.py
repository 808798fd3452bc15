"""Who uses more than its request and bursts allow, for longer than it takes to free it (DESIGN 5, rule 6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.event import OverUse
from jupyter_gpushare.rules.lease import Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jupyter_gpushare.broker.sighting import Sighting
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["OverUses"]

_GRACE_S: Final = 10.0


class OverUses:
    """Remembers since when each lease uses too much. A share without bursts is its own session's to guard."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def events(self, seen: Sighting, books: Snapshot) -> Iterator[OverUse]:
        """Those whose grace is over, as of this look; told once in each grace."""
        over = {key for key, held in seen.held.items() if _is_over(books.leases.get(key), held, books)}
        self._since = {key: self._since.get(key, seen.began) for key in over}
        for key in sorted(over):
            if seen.began - self._since[key] >= _GRACE_S:
                self._since[key] = seen.began
                yield OverUse(key)


def _is_over(lease: Lease | None, held: Mapping[str, int | None], books: Snapshot) -> bool:
    if lease is None or lease.status is not Status.RUNNING or not lease.share.bursts:
        return False
    return any(_allowed(lease, uuid, books) < (memory or 0) for uuid, memory in held.items() if uuid in lease.devices)


def _allowed(lease: Lease, uuid: str, books: Snapshot) -> int:
    """Bytes that *lease* may use of the device now."""
    parts = (part.amount for part in (*lease.grants, *lease.bursts) if part.device == uuid)
    return Fraction.total(parts).of(books.devices[uuid].usable).bytes if uuid in books.devices else 0
