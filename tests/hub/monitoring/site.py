"""A broker to which everything has happened that there is a figure for, and a hub beside it."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pytest
from prometheus_client import REGISTRY, generate_latest
from tornado.httpclient import AsyncHTTPClient
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from jupyter_gpushare.broker.access import Caller
from jupyter_gpushare.broker.admin_wire import ApplyRequest
from jupyter_gpushare.broker.client import BrokerError
from jupyter_gpushare.broker.clock import SteadyClock
from jupyter_gpushare.broker.hub_wire import ClaimRequest
from jupyter_gpushare.broker.ledger import UsageHours
from jupyter_gpushare.hub.outcomes import Outcome, count
from jupyter_gpushare.rules.event import LossAnnounced
from jupyter_gpushare.rules.loss import Loss
from tests.broker.service.bench import JOB, SESSION, Bench

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tornado.httputil import HTTPServerRequest

#: Whom nothing of the figures may name.
PRIVATE = ("zoe.private", "my-secret-notebook", "my-secret-key")
TOKEN = "what-prometheus-shows-0123456789"
POLICY = """
[projects.default]
quota = "unlimited"
[projects.team-a]
quota = 1
members = ["*"]
[hosts."*"]
parking_budget = "8GiB"
"""
_WHOLE = msgspec.structs.replace(SESSION, key=PRIVATE[2], name=PRIVATE[1], share="1")


async def identify(request: HTTPServerRequest) -> Caller | None:
    """As a hub knows the service that Prometheus is to it: by its token, and it may read."""
    if request.headers.get("Authorization") != f"Bearer {TOKEN}":
        return None
    return Caller("prometheus", groups=frozenset(), reads_only=True, kind="service")


class Site:
    """The broker, and the ports where it and its hub show their figures."""

    def __init__(self, directory: Path) -> None:
        self.bench = Bench(directory)
        self.bench.settings = replace(self.bench.settings, port=0)
        self.bench.options = {"identify": identify, "clock": SteadyClock()}
        self.hub = HTTPServer(Application([("/hub/metrics", _HubMetrics)]))
        sockets = bind_sockets(0, "127.0.0.1")
        self.hub.add_sockets(sockets)
        self.ports = {"jupyterhub": sockets[0].getsockname()[1]}

    async def start(self) -> None:
        """Start the broker, and let it happen."""
        broker = await self.bench.start()
        self.ports["gpushare"] = int(next(each for each in broker.addresses if "http" in each).rsplit(":", 1)[1])
        await self.bench.client.request("POST", "apply", ApplyRequest(POLICY))

    async def live(self) -> None:
        """A notebook is parked, a job runs on its share, another one waits, one is refused; a loss, starts, GPU-hours."""
        bench, broker = self.bench, self.bench.broker
        session = await bench.parked(_WHOLE)
        await bench.running(JOB)
        assert session.lease is not None
        waiting = bench.hold(msgspec.structs.replace(JOB, key="job-2", name="waits"))
        await asyncio.wait_for(waiting.until(lambda lease: lease.status == "queued"), 60)
        over = msgspec.structs.replace(SESSION, key="over", project="team-a", share="2x1")
        with pytest.raises(BrokerError):
            await asyncio.wait_for(bench.hold(over).granted(), 60)
        with pytest.raises(BrokerError):
            await bench.client.request("PUT", "claims/hub%3Azoe%2F", ClaimRequest("2x1", "team-a"))
        self._session = session.lease.id
        await self.lose()
        broker.metrics.used([UsageHours(0, "default", PRIVATE[0], 1.5, 0.5, 0.25, 0.125)])
        for outcome in Outcome:
            count(outcome)

    async def lose(self) -> None:
        """Something of the notebook's is about to be ended."""
        loss = LossAnnounced(self._session, Loss.OVERRUN_OF_ITS_OWN, PRIVATE[1])
        await self.bench.broker.reconciler.submit([loss])

    async def page(self, job: str = "gpushare") -> str:
        """What one of the two shows to Prometheus."""
        path = {"gpushare": "/services/gpushare/api/v1/metrics", "jupyterhub": "/hub/metrics"}[job]
        headers = {"Authorization": f"Bearer {TOKEN}"}
        answer = await AsyncHTTPClient().fetch(f"http://127.0.0.1:{self.ports[job]}{path}", headers=headers)
        return answer.body.decode()

    async def close(self) -> None:
        """End everything."""
        self.hub.stop()
        await self.hub.close_all_connections()
        await self.bench.close()


class _HubMetrics(RequestHandler):
    """As JupyterHub's own handler: what its process has counted."""

    def get(self) -> None:
        self.set_header("Content-Type", "text/plain; version=0.0.4")
        self.finish(generate_latest(REGISTRY))


@asynccontextmanager
async def lively_site(directory: Path) -> AsyncIterator[Site]:
    """A site to which everything has happened; ended afterwards."""
    site = Site(directory)
    try:
        await site.start()
        await site.live()
        yield site
    finally:
        await site.close()
