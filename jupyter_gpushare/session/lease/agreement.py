"""What moving a kernel's GPU state asks of the share first: there may be a broker, which has promised it to others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_gpushare.broker.pool_policy import PoolPolicy
    from jupyter_gpushare.parking.verdict import NotParkable
    from jupyter_gpushare.session.parking.record import Parking

__all__ = ["Agreement", "NoBroker"]


class Agreement(Protocol):
    """Whoever keeps the books of the share."""

    async def may_park(self, parking: Parking, memory: int) -> NotParkable | None:
        """Whether these bytes may move to host memory now: None, or why not. May wait for the answer."""

    def may_resume(self, parking: Parking) -> str | None:
        """Whether a parked kernel may come back now: None, or why not yet, as part of a sentence."""

    def clause(self) -> str | None:
        """Why parked kernels do not come back yet, as it is at this moment; None where the share is not in the way."""

    async def foreign(self) -> Mapping[str, int] | None:
        """Bytes on each device that nobody's lease covers; None where nobody knows."""

    def policy(self) -> PoolPolicy | None:
        """What the admin of the share's pool decided; None where there is no such."""


class NoBroker:
    """Without a broker nothing is promised to anybody, and the room on the device alone decides."""

    async def may_park(self, parking: Parking, memory: int) -> NotParkable | None:  # noqa: ARG002  # the interface's
        """Always."""
        return None

    def may_resume(self, parking: Parking) -> str | None:  # noqa: ARG002  # the interface's
        """Always."""
        return None

    def clause(self) -> str | None:
        """Nothing."""
        return None

    async def foreign(self) -> Mapping[str, int] | None:
        """Nobody knows."""
        return None

    def policy(self) -> PoolPolicy | None:
        """There is no pool."""
        return None
