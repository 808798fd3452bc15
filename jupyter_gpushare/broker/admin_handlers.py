"""The routes for admins."""

from __future__ import annotations

from jupyter_gpushare.broker.admin_wire import ApplyRequest, DrainRequest, ReclaimRequest, StopParkingRequest
from jupyter_gpushare.broker.handlers import API, BrokerHandler
from jupyter_gpushare.broker.public_error import bad_request, not_found, printable
from jupyter_gpushare.rules.event import Drained, ParkingSwitched, Reclaimed

__all__ = ["ROUTES"]


class ApplyHandler(BrokerHandler):
    """Projects, pools and hosts as an admin wants them."""

    route = "apply"

    async def post(self) -> None:
        """Put a gpushare.toml in force, or only say what it would change."""
        request = self.read(ApplyRequest)
        self.answer(await self.broker.governing.apply(request, self.submit, self.person.person))


class ReclaimHandler(BrokerHandler):
    """Taking back what one lease has."""

    route = "reclaim"

    async def post(self) -> None:
        """A session is parked, a job yields and waits again. Nothing is ended."""
        request = self.read(ReclaimRequest)
        if request.lease not in self.broker.books.leases:
            raise not_found("lease", request.lease)
        holds = self.broker.desk.holds(request.lease)
        await self.submit(Reclaimed(request.lease, self.person.person, holds, printable(request.why)))
        lease = self.broker.books.leases.get(request.lease)
        if lease is None:
            raise not_found("lease", request.lease)
        self.answer(self.broker.view().lease(lease), status=202)


class DrainHandler(BrokerHandler):
    """Emptying a device or a host."""

    route = "drain"

    async def post(self) -> None:
        """It takes nothing new; with *evacuate*, jobs there yield too."""
        request = self.read(DrainRequest)
        books = self.broker.books
        if bool(request.device) == bool(request.host):
            raise bad_request("name a device or a host, and not both", "device")
        if request.device and request.device not in books.devices:
            raise not_found("device", request.device)
        if request.host and request.host not in books.hosts:
            raise not_found("host", request.host)
        await self.submit(
            Drained(
                request.device,
                request.host,
                self.person.person,
                undo=request.undo,
                evacuate=request.evacuate,
                why=printable(request.why),
            )
        )
        self.answer(self.broker.view().devices())


class StopParkingHandler(BrokerHandler):
    """The one switch."""

    route = "stop-parking"

    async def post(self) -> None:
        """Park nobody any more and bring everybody back in order, or begin again."""
        request = self.read(StopParkingRequest)
        await self.submit(ParkingSwitched(request.stop, by=self.person.person, why=printable(request.why)))
        self.answer(self.broker.model())


ROUTES = [
    (rf"{API}/apply", ApplyHandler),
    (rf"{API}/admin/reclaim", ReclaimHandler),
    (rf"{API}/admin/drain", DrainHandler),
    (rf"{API}/admin/stop-parking", StopParkingHandler),
]
