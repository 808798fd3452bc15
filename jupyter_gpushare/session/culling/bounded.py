"""The share's books, with the timeout that an admin's culling sets for idle GPUs: the idle policy keeps to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from jupyter_gpushare.broker.pool_policy import PoolPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_gpushare.parking.verdict import NotParkable
    from jupyter_gpushare.session.lease.agreement import Agreement
    from jupyter_gpushare.session.parking.record import Parking

__all__ = ["Bounded"]


class Bounded:
    """*agreement*, whose policy parks idle GPUs after *park_after_s* at the latest.

    Args:
        agreement: whoever keeps the books.
        park_after_s: seconds; None where nothing is said.
        pool: what the pool is called where the books say nothing of it.
    """

    def __init__(self, agreement: Agreement, park_after_s: Callable[[], float | None], pool: Callable[[], str]) -> None:
        self._agreement = agreement
        self._park_after_s = park_after_s
        self._pool = pool

    async def may_park(self, parking: Parking, memory: int) -> NotParkable | None:
        """As the agreement's own."""
        return await self._agreement.may_park(parking, memory)

    def may_resume(self, parking: Parking) -> str | None:
        """As the agreement's own."""
        return self._agreement.may_resume(parking)

    def clause(self) -> str | None:
        """As the agreement's own."""
        return self._agreement.clause()

    async def foreign(self) -> Mapping[str, int] | None:
        """As the agreement's own."""
        return await self._agreement.foreign()

    def policy(self) -> PoolPolicy | None:
        """The pool's, with the shorter of both timeouts."""
        policy, timeout_s = self._agreement.policy(), self._park_after_s()
        if timeout_s is None:
            return policy
        if policy is None:
            return PoolPolicy(self._pool(), idle_timeout_s=timeout_s)
        said_s = policy.idle_timeout_s
        return msgspec.structs.replace(policy, idle_timeout_s=timeout_s if said_s is None else min(said_s, timeout_s))
