"""A wish to park, on its way to the broker, and how its refusal is told from one of before."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.client import BrokerError

if TYPE_CHECKING:
    from jupyter_gpushare.broker.wire import LeaseModel

__all__ = ["NOT_PARKED", "ParkWish"]

#: Reasons for which the broker does not have a session parked; the lease stays where it is.
NOT_PARKED: Final = frozenset({"NO_HOST_MEMORY", "NOT_PARKABLE", "PARKING_IS_OFF", "PARKING_STOPPED"})
_SAME_AGAIN_S: Final = 3.0


@dataclass(slots=True)
class ParkWish:
    """A wish to park that the broker has yet to answer, until *until* by the monotonic clock.

    A refusal is the reason of a lease that stays where it is. The same one twice is told once only, so what the lease
    said before the wish counts after a moment, and not at once.
    """

    until: float
    of: LeaseModel | None = None
    at: float = 0.0

    @property
    def is_over(self) -> bool:
        """Whether the broker has had its time."""
        return time.monotonic() >= self.until

    def said(self, lease: LeaseModel) -> None:
        """It was said, when the lease was so."""
        self.of, self.at = lease, time.monotonic()

    def refusal(self, lease: LeaseModel) -> BrokerError | None:
        """What the broker has against it; None while it has said nothing of the kind."""
        if self.of is None or lease.reason is None or lease.reason.code not in NOT_PARKED:
            return None
        is_new = lease is not self.of or time.monotonic() - self.at >= _SAME_AGAIN_S
        return BrokerError.of(lease.reason) if is_new and lease.target == "running" == lease.status else None
