"""What conversations and routes need of the broker, in one place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_gpushare.broker import wire
    from jupyter_gpushare.broker.accounting import Accountant
    from jupyter_gpushare.broker.clock import Clock
    from jupyter_gpushare.broker.evidence import Evidence
    from jupyter_gpushare.broker.holders import Holders
    from jupyter_gpushare.broker.models import View
    from jupyter_gpushare.broker.reconciler import Reconciler
    from jupyter_gpushare.broker.roster import Roster
    from jupyter_gpushare.broker.tokens import LeaseTokens
    from jupyter_gpushare.rules.lease import Lease

__all__ = ["Desk", "Usage"]


@dataclass(frozen=True, slots=True)
class Usage:
    """What a holder said that it uses: bytes, and when it said so."""

    memory: int | None
    at: float


@dataclass(slots=True)
class Desk:
    """The parts, wired together by `service`.

    Attributes:
        view: the newest books that are kept.
        broker: the broker itself, for the wire.
        accountant: adds up GPU-hours.
        usage: what holders said last, by lease. In memory only.
    """

    reconciler: Reconciler
    evidence: Evidence
    holders: Holders
    roster: Roster
    tokens: LeaseTokens
    clock: Clock
    view: Callable[[], View]
    broker: Callable[[], wire.BrokerModel]
    accountant: Accountant
    usage: dict[str, Usage] = field(default_factory=dict)

    def used(self, lease: str, said: wire.UsageMessage) -> None:
        """Take a report."""
        now = self.clock.now()
        self.usage[lease] = Usage(said.memory, now)
        if said.computed_s is not None:
            self.accountant.computed(lease, said.computed_s, now)

    async def shows(self, lease: Lease) -> bool:
        """Whether the devices show that something of *lease* is on all that it says it has."""
        seen = await self.evidence.look()
        held = seen.held.get(lease.id, {})
        return bool(lease.devices) and all(uuid in held for uuid in lease.devices)
