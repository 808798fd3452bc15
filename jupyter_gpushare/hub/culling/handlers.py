"""The routes of culling, in the service beside the broker's own."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.broker.access import Role, roles_of
from jupyter_gpushare.broker.handlers import API, BrokerHandler
from jupyter_gpushare.broker.public_error import bad_request, not_found
from jupyter_gpushare.hub.culling.wire import (
    EVIDENCE,
    LOSSES,
    TESTIMONY,
    GoesOn,
    LossesAnswer,
    LossesRequest,
    Testimony,
)
from jupyter_gpushare.hub.culling.witnesses import is_own

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_gpushare.broker.service import Broker
    from jupyter_gpushare.hub.culling.announcing import InService
    from jupyter_gpushare.hub.culling.witnesses import Witnesses
    from jupyter_gpushare.rules.lease import Lease

__all__ = ["ACCESS", "routes"]

#: Route and verb: who may. What is not here nobody may. A person speaks for leases of its own. The evidence says whose
#: each server is, so that a service that may only look is not told it: a culler needs custom:gpushare:admin.
ACCESS: Final[Mapping[tuple[str, str], frozenset[Role]]] = {
    (TESTIMONY, "PUT"): frozenset({Role.LEASE, Role.PERSON}),
    (EVIDENCE, "GET"): frozenset({Role.HUB, Role.ADMIN}),
    (LOSSES, "POST"): frozenset({Role.HUB, Role.ADMIN}),
}
_SHORTEST_S: Final = 1.0
_LONGEST_S: Final = 1e9


class CullingHandler(BrokerHandler):
    """What the routes have in common."""

    def initialize(self, broker: Broker, witnesses: Witnesses, announcer: InService) -> None:  # type: ignore[override]  # more is given to these
        """Who is asked."""
        super().initialize(broker)
        self.witnesses = witnesses
        self.announcer = announcer

    async def prepare(self) -> None:
        """Find out who asks, and refuse whoever may not."""
        self.broker.bounds.check(self.request)
        self.caller = await self.broker.identify(self.request)
        allowed = ACCESS.get((self.route, self.request.method or ""), frozenset())
        if not allowed & self.roles():
            self.refuse()


class TestimonyHandler(CullingHandler):
    """What notebook servers know of their own use."""

    route = TESTIMONY
    __test__ = False  # no test, in spite of its name

    def put(self) -> None:
        """Take it; what will become of the server."""
        said = self.read(Testimony)
        if said.server and not (said.lease or self.person.lease):
            if not is_own(self.person.person, said.server):
                raise not_found("server", said.server)
            self.answer(self.witnesses.hear(self.person.person, said.server, said))
            return
        lease = self._lease(said)
        self.answer(self.witnesses.hear(lease.person, lease.key, said, lease))

    def _lease(self, said: Testimony) -> Lease:
        wanted = self.person.lease or said.lease
        lease = self.broker.books.leases.get(wanted)
        is_own = lease is not None and bool(roles_of(self.caller, self.broker.books, lease) & {Role.LEASE, Role.OWNER})
        if lease is None or not is_own or said.lease not in ("", lease.id):
            raise not_found("lease", said.lease or wanted)
        return lease


class EvidenceHandler(CullingHandler):
    """What is known of all servers with a share."""

    route = EVIDENCE

    def get(self) -> None:
        """All of it; *stop_after* says after how long the asker stops a server where the admin's file does not."""
        if (text := self.get_query_argument("stop_after", "", strip=False)) != "":
            self.witnesses.expect(_length(text))
        self.answer(self.witnesses.evidence())


class LossesHandler(CullingHandler):
    """Stops that are about to happen."""

    route = LOSSES

    async def post(self) -> None:
        """Announce them; those that must go on."""
        go_on = await self.announcer.announce(self.read(LossesRequest).stops)
        self.answer(LossesAnswer([GoesOn(stop.person, stop.server, why) for stop, why in go_on.items()]))


def routes(broker: Broker, witnesses: Witnesses, announcer: InService) -> list[tuple[str, Any, dict[str, Any]]]:
    """All of them, as tornado takes them."""
    given = {"broker": broker, "witnesses": witnesses, "announcer": announcer}
    return [
        (f"{API}/{handler.route}", handler, given) for handler in (TestimonyHandler, EvidenceHandler, LossesHandler)
    ]


def _length(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not _SHORTEST_S <= seconds <= _LONGEST_S:
        raise bad_request(f"{text[:20]!r} is no number of seconds; write for example 3600", "stop_after")
    return seconds
