"""A pool's policy over what a server, a kernel spec, a notebook or an owner wishes: a default, and a bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jupyter_gpushare.parking.verdict import NotParkable
from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.session.isolation.choose import MODES

if TYPE_CHECKING:
    from jupyter_gpushare.broker.pool_policy import PoolPolicy
    from jupyter_gpushare.parking.verdict import Verdict
    from jupyter_gpushare.session.isolation.mode import Mode
    from jupyter_gpushare.session.wire import ParkingMode

__all__ = ["decided", "isolation_under", "parking_under", "timeout_under", "verdict_under"]

_LESS_FIRST: Final[tuple[ParkingMode, ...]] = ("off", "observe", "park")
_WEAKEST_FIRST: Final[tuple[Mode, ...]] = tuple(mode.name for mode in MODES)


def decided(policy: PoolPolicy | None) -> PoolPolicy | None:
    """*policy*, if it decides anything."""
    return None if policy is None or policy.says_nothing else policy


def verdict_under(policy: PoolPolicy | None, verdict: Verdict) -> Verdict:
    """*verdict*, which says who switched parking off where the pool did."""
    if policy is None or policy.parking != "off":
        return verdict
    if not isinstance(verdict, NotParkable) or verdict.reason.code != "PARKING_OFF":
        return verdict
    values = {"pool": policy.pool}
    return NotParkable(
        Message("PARKING_OFF", "Parking is switched off in pool {pool}.", values),
        Message("PARKING_OFF_REMEDY", "An admin can switch it on, for pool {pool} in gpushare.toml.", values),
    )


def parking_under(policy: PoolPolicy | None, own: ParkingMode) -> ParkingMode:
    """What may be parked: the less of the server's *own* mode and the pool's."""
    said = None if policy is None else policy.parking
    return own if said is None else min(own, said, key=_LESS_FIRST.index)


def isolation_under(policy: PoolPolicy | None, own: Mode) -> Mode:
    """How kernels are held: the stronger of the server's *own* mode and the pool's."""
    said = None if policy is None else policy.isolation
    return own if said is None else max(own, said, key=_WEAKEST_FIRST.index)


def timeout_under(policy: PoolPolicy | None, own_s: float | None, *, is_default: bool = False) -> float | None:
    """After how many idle seconds a kernel is parked by itself; None for never.

    Args:
        policy: the pool's, which is never exceeded.
        own_s: what somebody here wants.
        is_default: whether nobody said that, so that the pool's holds instead even where it is longer.
    """
    said_s = None if policy is None else policy.idle_timeout_s
    if said_s is None:
        return own_s
    return said_s if is_default or own_s is None else min(own_s, said_s)
