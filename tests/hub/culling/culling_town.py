"""A hub's broker with culling in it, asked as a hub, its people, its sessions and its cullers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jupyter_gpushare.broker.access import Caller
from jupyter_gpushare.broker.cull_policy import CullPolicy, Limits
from jupyter_gpushare.hub.culling.hub_servers import HubServers
from jupyter_gpushare.hub.culling.service import CullingService
from jupyter_gpushare.hub.culling.wire import Evidence, LossesAnswer, Outlook
from tests.broker.service.bench import until
from tests.broker.service.hub_town import HubTown, session

from .small_hub import TOKEN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tornado.httputil import HTTPServerRequest

    from jupyter_gpushare.broker import hub_wire
    from jupyter_gpushare.broker.clock import Clock
    from jupyter_gpushare.broker.service import Broker
    from jupyter_gpushare.hub.culling.announcing import InService
    from jupyter_gpushare.hub.culling.wire import Stop
    from tests.broker.service.bench import Bench
    from tests.broker.service.hub_town import Answer

    from .small_hub import SmallHub

HOUR = 3600.0
POLICY = CullPolicy(
    Limits(
        park_after_s=900.0,
        end_kernels_after_s=2 * HOUR,
        stop_after_s=HOUR,
        stop_parked_after_s=24 * HOUR,
        max_age_s=100 * HOUR,
        warning_s=600.0,
    )
)
#: Other services of the hub, by their tokens.
SERVICES = {
    "culler": Caller("service culler", is_admin=True, groups=frozenset(), kind="service"),
    "reader": Caller("service reader", groups=frozenset(), kind="service", reads_only=True),
}


class MovedClock:
    """The broker's clock, moved forward by a test."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.ahead_s = 0.0

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._clock.now() + self.ahead_s


class CullingTown(HubTown):
    """A hub's broker with culling in it, under *policy*. *hub* is whose servers it looks after itself; None: nobody's."""

    hub: SmallHub | None = None
    policy = replace(POLICY, every_s=0.01)

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        identify = bench.options["identify"]
        self.services = dict(SERVICES)

        async def known(request: HTTPServerRequest) -> Caller | None:
            token = request.headers.get("Authorization", "").removeprefix("Bearer ")
            return None if token in ("", "Bearer") else self.services.get(token) or await identify(request)

        bench.options |= {"identify": known, "routes": self._routes}

    def _routes(self, broker: Broker) -> list[Any]:
        hub = None if self.hub is None else HubServers(self.hub.url, TOKEN)
        self.culling = CullingService(broker, hub)
        self.in_the_file, self.culling.witnesses.policy = self.culling.witnesses.policy, lambda: self.policy
        self.clock = MovedClock(broker.clock)
        self.culling.witnesses.now = self.clock.now
        return self.culling.routes()

    async def testify(self, who: str, **words: Any) -> Answer:
        """Say how idle one is."""
        return await self.ask("PUT", "culling/testimony", who, words)

    async def outlook(self, who: str, **words: Any) -> Outlook:
        """What one hears."""
        answer = await self.testify(who, **words)
        assert answer.status == 200, answer.body
        return answer.of(Outlook)

    async def evidence(self, who: str = "culler") -> Evidence:
        """What a culler hears."""
        return (await self.ask("GET", "culling/evidence", who)).of(Evidence)

    async def announce(self, *stops: Stop, who: str = "culler") -> dict[str, str]:
        """Whose servers must go on, and why."""
        answer = await self.ask("POST", "culling/losses", who, {"stops": list(stops)})
        assert answer.status == 200, answer.body
        return {each.person: each.reason for each in answer.of(LossesAnswer).go_on}

    async def serve(self, key: str = "hub:ana/", person: str = "ana") -> hub_wire.ClaimAnswer:
        """Have a server with a share that runs."""
        claim = (await self.start(key.replace("/", "%2F"), person=person)).claim
        holding = self.client(claim.token).hold(session(key), [])
        self.bench._holdings.append(holding)
        await asyncio.wait_for(holding.granted(), 60)
        holding.did("running", holding.lease.epoch if holding.lease is not None else 0)
        await until(lambda: self.bench.broker.books.leases[claim.lease.id].status == "running")
        return claim


class Watched:
    """A source that counts how often it is asked."""

    def __init__(self, source: InService) -> None:
        self._source = source
        self.asked = 0

    async def evidence(self) -> Evidence | None:
        """As the source."""
        self.asked += 1
        return await self._source.evidence()

    async def announce(self, stops: Sequence[Stop]) -> Mapping[Stop, str]:
        """As the source."""
        return await self._source.announce(stops)
