"""What conversations and routes need of the broker, in one place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.change import Verb

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from jupyter_gpushare.broker import wire
    from jupyter_gpushare.broker.accounting import Accountant
    from jupyter_gpushare.broker.bounds import Bounds
    from jupyter_gpushare.broker.clock import Clock
    from jupyter_gpushare.broker.evidence import Evidence
    from jupyter_gpushare.broker.holders import Holders
    from jupyter_gpushare.broker.ledger import Recorded
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
        bounds: how much one person may take.
        history: the lines of the audit about a lease with a verb. May raise LedgerError.
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
    bounds: Bounds
    history: Callable[[str, Verb], Awaitable[Sequence[Recorded]]]
    usage: dict[str, Usage] = field(default_factory=dict)

    def used(self, lease: str, said: wire.UsageMessage) -> None:
        """Take a report."""
        now = self.clock.now()
        self.usage[lease] = Usage(said.memory, now)
        if said.computed_s is not None:
            self.accountant.computed(lease, said.computed_s, now)

    def holds(self, lease: str) -> Memory | None:
        """What *lease* has on its devices, by its holder's last word and by ours; None where neither can be had."""
        said = self.usage.get(lease)
        known = [] if said is None or said.memory is None else [said.memory]
        seen = {} if self.evidence.last is None else self.evidence.last.held.get(lease, {})
        parts = [size for size in seen.values() if size is not None]
        if parts and len(parts) == len(seen):
            known.append(sum(parts))
        return Memory(max(known)) if known else None

    async def is_over(self, lease: str) -> bool:
        """Whether *lease* was ours and came to its end, as far as the ledger remembers.

        Raises:
            LedgerError: it cannot be asked now.
        """
        if lease in self.reconciler.committed.leases:
            # Its end is decided, and not kept yet; or it is no end.
            return lease not in self.reconciler.snapshot.leases
        ended = await self.history(lease, Verb.ENDED)
        return any("asked" not in line.entry.details for line in ended) or bool(await self.history(lease, Verb.FAILED))

    async def shows(self, lease: Lease) -> bool:
        """Whether the devices show that something of *lease* is on all that it says it has."""
        seen = await self.evidence.look()
        held = seen.held.get(lease.id, {})
        return bool(lease.devices) and all(uuid in held for uuid in lease.devices)
