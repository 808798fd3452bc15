"""Puts culling into a session: what it looks at, and what it may do."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from jupyter_gpushare.broker.client import BROKER, BrokerClient, Endpoint, NotAnEndpointError
from jupyter_gpushare.session.culling.bounded import Bounded
from jupyter_gpushare.session.culling.session import CullingHost, CullingSession, Service
from jupyter_gpushare.session.culling.touches import Touches
from jupyter_gpushare.session.culling.use import Surroundings, Use
from jupyter_gpushare.session.idle.policy import Idle
from jupyter_gpushare.session.lease.session import CLAIM

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from msgspec import UnsetType

    from jupyter_gpushare.rules.loss import Loss
    from jupyter_gpushare.session.idle.policy import Judgement
    from jupyter_gpushare.session.lease.agreement import Agreement
    from jupyter_gpushare.session.parking.settings import ParkingSettings
    from jupyter_gpushare.session.session import Session

__all__ = ["assemble", "bounded", "without_share"]

_HUBS_TOKEN: Final = "JUPYTERHUB_API_TOKEN"  # noqa: S105  # the variable's name


def bounded(session: Session) -> Agreement:
    """The session's agreement on its share, with the timeout that culling sets."""
    return Bounded(session.lease, lambda: session.culling.park_after_s, lambda: _pool(session))


def assemble(
    session: Session,
    server: Any,
    settings: ParkingSettings,
    *,
    reports: Mapping[str, int],
    announce: Callable[[Loss, Sequence[str], str], None],
    changed: Callable[[], None],
    log: logging.Logger,
) -> CullingSession:
    """The culling of *session*, which has been built but for this.

    Args:
        session: the session.
        server: the Jupyter Server.
        settings: what the admin decided about parking: how long something may be kept holds here, too.
        reports: bytes that kernels counted themselves, by kernel id.
        announce: called with each loss before it happens.
        changed: called when people should see something new.
        log: where trouble goes.
    """
    touches = Touches(server.web_app.settings, server.event_logger, log=log)
    touches.install()
    kernels, parking = session.kernels, session.parking
    use = Use(
        Surroundings(
            kernels=kernels,
            parking=parking.parkings.of,
            held=parking.held,
            reports=reports,
            roots=lambda: list(kernels.roots()),
            server_pid=os.getpid(),
            touched=lambda: touches.last,
            clock=time.time,
        )
    )
    host = CullingHost(
        service=lambda: _service(session, os.environ),
        kernels=kernels.all,
        end=kernels.end,
        parking_kept=parking.keeps.until,
        parks_at=lambda: _parks_at(parking.watch.judgement(kernel.id) for kernel in kernels.all()),
        started=time.time(),
        announce=announce,
        tell_broker=lambda loss, what: _tell_broker(session, loss, what),
        tell=lambda message: parking.notices.add("loss", message),
        changed=changed,
        clock=time.time,
    )
    return CullingSession(host, use, keep_limit_s=settings.keep_limit_s, log=log)


def _service(session: Session, environ: Mapping[str, str]) -> Service | None:
    """The hub's service; a broker that is no hub's culls nobody."""
    joining = session.lease.joining
    holding, client = joining.holding, joining.client
    if client is not None and holding is not None and holding.connected and holding.lease is not None:
        is_hubs = holding.broker is not None and holding.broker.mode == "hub"
        return Service(client, lease=holding.lease.id) if is_hubs else None
    return without_share(environ)


def without_share(environ: Mapping[str, str]) -> Service | None:
    """A server that a hub started without a GPU: it has no lease, and may be left idle like any other."""
    server, address, token = (environ.get(name, "") for name in (CLAIM, BROKER, _HUBS_TOKEN))
    if not (server and token) or not address.startswith(("http://", "https://")):
        return None
    try:
        return Service(BrokerClient(Endpoint.parse(address, token)), server=server)
    except NotAnEndpointError:
        return None  # the lease's own side says what is wrong with it


def _parks_at(judged: Iterable[Judgement | None]) -> float | UnsetType | None:
    """When the last of the kernels that hold something is parked; unset where none does: then the pool's time holds."""
    times = [each.parks_at if isinstance(each, Idle) else None for each in judged if each is not None]
    known = [each for each in times if each is not None]
    if not times:
        return UNSET
    return max(known) if len(known) == len(times) else None


def _tell_broker(session: Session, loss: str, what: str) -> None:
    holding = session.lease.joining.holding
    if holding is not None:
        holding.announce(loss, what)


def _pool(session: Session) -> str:
    holding = session.lease.joining.holding
    lease = None if holding is None else holding.lease
    return lease.pool if lease is not None and lease.pool else "default"
