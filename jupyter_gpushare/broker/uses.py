"""How much of its devices each lease holds while it runs: what a parked copy of it would take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.event import Using
from jupyter_gpushare.rules.lease import Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_gpushare.broker.sighting import Sighting
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["uses"]

# Programs take and give back a little all the time, and each event is a commit.
_STEP: Final = 256 << 20
_FALLS: Final = 2


def uses(seen: Sighting, books: Snapshot) -> Iterator[Using]:
    """Whoever holds more than is known of it, or less than half of that. Nothing where the driver gives no number."""
    for key, held in seen.held.items():
        lease, parts = books.leases.get(key), [size for size in held.values() if size is not None]
        if lease is None or lease.status is not Status.RUNNING or len(parts) < len(held):
            continue
        if not seen.readable.issuperset(lease.devices):
            continue  # part of a sum is not what it holds
        memory = Memory(-(-sum(parts) // _STEP) * _STEP)
        if lease.uses is None or not lease.uses.bytes <= _FALLS * memory.bytes <= _FALLS * lease.uses.bytes:
            yield Using(key, memory)
