"""Whoever stops a server says so first, as a `Loss`: to the audit, the metrics and the log."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, Protocol

from prometheus_client import Counter

from jupyter_gpushare.broker.ledger import LedgerError
from jupyter_gpushare.broker.metrics_table import CULLED
from jupyter_gpushare.broker.reconciler import StoppedError
from jupyter_gpushare.hub.claim_key import claim_key
from jupyter_gpushare.hub.culling.verdict import Why
from jupyter_gpushare.rules.event import LossAnnounced
from jupyter_gpushare.rules.loss import Loss

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from prometheus_client import CollectorRegistry

    from jupyter_gpushare.hub.culling.wire import Evidence, Stop
    from jupyter_gpushare.hub.culling.witnesses import Witnessed, Witnesses

__all__ = ["LOSS_OF", "InService", "Source"]

_LOG: Final = logging.getLogger(__name__)

#: As what each reason to stop a server is kept.
LOSS_OF: Final = {
    Why.IDLE: Loss.SERVER_STOPPED_WHILE_IDLE,
    Why.PARKED_TOO_LONG: Loss.SERVER_STOPPED_WHILE_IDLE,
    Why.TOO_OLD: Loss.SERVER_STOPPED_FOR_ITS_AGE,
}


class Source(Protocol):
    """Where a culler has its evidence from, and where it announces what it is about to do."""

    async def evidence(self) -> Evidence | None:
        """What is known now; None where nobody can be asked."""

    async def announce(self, stops: Sequence[Stop]) -> Mapping[Stop, str]:
        """These servers are about to be stopped; those of them that must go on, with the reason."""


class InService:
    """Inside the service: nothing is asked over a network.

    Args:
        witnesses: what is known.
        submit: has the audit keep events.
        registry: for the figures.
    """

    def __init__(
        self,
        witnesses: Witnesses,
        submit: Callable[[list[LossAnnounced]], Awaitable[object]],
        registry: CollectorRegistry | None = None,
    ) -> None:
        self._witnesses = witnesses
        self._submit = submit
        self._stops = Counter(CULLED.name, CULLED.text, CULLED.labels, registry=registry)

    async def evidence(self) -> Evidence | None:
        """As `Source.evidence`."""
        return self._witnesses.evidence()

    async def announce(self, stops: Sequence[Stop]) -> Mapping[Stop, str]:
        """As `Source.announce`: judged once more, by what has become known since."""
        known = self._witnesses.known()
        judged = [(stop, known.get((stop.person, claim_key(stop.person, stop.server)))) for stop in stops]
        go_on = {stop: why for stop, server in judged if (why := self._objection(stop, server))}
        # Without a share there is no line of it: those are counted, and in the log.
        told = [(stop, each.lease) for stop, each in judged if each is not None and each.lease and stop not in go_on]
        try:
            if told:
                await self._submit([_event(stop, lease) for stop, lease in told])
        except (LedgerError, StoppedError) as error:
            # What is not in the audit does not happen.
            go_on.update({stop: f"the audit cannot keep it now: {error}" for stop, _ in told})
        for stop in stops:
            if stop not in go_on:
                self._stops.labels(why=stop.why.value).inc()
                _LOG.warning("Loss %s: the server %r of %s: %s", LOSS_OF[stop.why], stop.server, stop.person, stop.why)
        return go_on

    def _objection(self, stop: Stop, server: Witnessed | None) -> str:
        if stop.why not in LOSS_OF:
            return f"{stop.why} is no reason to stop a server"
        if server is None:
            return ""
        now = self._witnesses.may_stop(server, stop.why)
        return "" if now.stops else now.why.value


def _event(stop: Stop, lease: str) -> LossAnnounced:
    return LossAnnounced(lease, LOSS_OF[stop.why], f"the whole server, {stop.why}", by="culler")
