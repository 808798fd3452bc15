"""How long what somebody got is left alone, and how long whoever lost it waits: what keeps shares from thrashing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jupyter_gpushare.rules.pool import Pool

if TYPE_CHECKING:
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["back_off_s", "pool_of", "turn_ends", "turn_is_over"]

# The pause doubles with each loss up to 32 times the first.
_MOST_DOUBLINGS: Final = 5


def pool_of(snapshot: Snapshot, lease: Lease) -> Pool:
    """The policy for *lease*: of the pool of its devices, or while it has none, of the pool that it asks for.

    A pool that the admin's file no longer has parks nothing and lends nothing.
    """
    device = snapshot.devices.get(lease.grants[0].device) if lease.grants else None
    name = lease.pool if device is None else device.pool
    known = snapshot.pools.get(name)
    return Pool(name, parking="off") if known is None else known


def turn_ends(snapshot: Snapshot, lease: Lease) -> float:
    """When *lease* may be called back or reclaimed at the earliest, but for a resume under ``guaranteed``."""
    return lease.turn_began + pool_of(snapshot, lease).minimum_turn_s


def turn_is_over(snapshot: Snapshot, lease: Lease, now: float) -> bool:
    """Whether its minimum turn is over."""
    return turn_ends(snapshot, lease) <= now


def back_off_s(pool: Pool, turns_lost: int) -> float:
    """How long after a turn's beginning the next one may begin, of a job that has now lost *turns_lost* turns."""
    doublings = min(max(turns_lost, 1) - 1, _MOST_DOUBLINGS)
    return pool.backoff_s * float(1 << doublings)
