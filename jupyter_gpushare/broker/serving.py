"""The one server of a broker: its routes, and whatever else is to be answered beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tornado.web import Application

from jupyter_gpushare.broker import (
    admin_handlers,
    audit_handlers,
    claim_handlers,
    handlers,
    past_handlers,
    project_handlers,
    sockets,
)
from jupyter_gpushare.broker.bounds import BoundedServer
from jupyter_gpushare.broker.listening import listen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_gpushare.broker.service import Broker

__all__ = ["ROUTES", "serve"]

_LARGEST_MESSAGE: Final = 256 << 10
# What is decoded fits, even if every character of the longest texts is written as two escapes of six.
_LARGEST_BODY: Final = 3 << 20
_PING_S: Final = 20.0
#: Every route of the broker's own, in the order in which they are looked at.
ROUTES: Final = (
    *handlers.ROUTES,
    *claim_handlers.ROUTES,
    *project_handlers.ROUTES,
    *past_handlers.ROUTES,
    *audit_handlers.ROUTES,
    *admin_handlers.ROUTES,
    *sockets.ROUTES,
)


def serve(broker: Broker, more_routes: Sequence[Any], more_settings: Mapping[str, Any]) -> BoundedServer:
    """Listen where the broker's settings say, and answer.

    Raises:
        OSError: a socket cannot be had; says which.
    """
    ours = [(path, handler, {"broker": broker}) for path, handler in ROUTES]
    settings: dict[str, Any] = {"log_function": broker.metrics.answered, **more_settings}
    application = Application(
        [*more_routes, *ours],
        default_handler_class=handlers.NothingHandler,
        default_handler_args={"broker": broker},
        websocket_ping_interval=_PING_S,
        websocket_ping_timeout=_PING_S,
        websocket_max_message_size=_LARGEST_MESSAGE,
        **settings,
    )
    listening = listen(broker.settings)
    server = BoundedServer(application, max_body_size=_LARGEST_BODY, idle_connection_timeout=3600)
    server.bounds = broker.bounds
    server.add_sockets([each.socket for each in listening])
    broker.addresses = [each.address for each in listening]
    return server
