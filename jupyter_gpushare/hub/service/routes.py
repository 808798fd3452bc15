"""Every address of the service besides the broker's own interface (`page_access` says what is there and for whom)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tornado.routing import Matcher, Rule

from jupyter_gpushare.hub.pages import STATIC, PageName
from jupyter_gpushare.hub.pages.actions import ACTIONS
from jupyter_gpushare.hub.picker_link import PICKER_PATH
from jupyter_gpushare.hub.service.actions_posted import ActionHandler
from jupyter_gpushare.hub.service.audit_file import AuditFileHandler
from jupyter_gpushare.hub.service.live_handler import LiveHandler
from jupyter_gpushare.hub.service.pages_shown import HomeHandler, ShownHandler
from jupyter_gpushare.hub.service.picker_handler import PickerHandler
from jupyter_gpushare.hub.service.signing_in import AssetHandler, SignedInHandler
from jupyter_gpushare.hub.service.wait_handler import WaitHandler
from jupyter_gpushare.hub.wait_link import WAIT_PATH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tornado.httputil import HTTPServerRequest

    from jupyter_gpushare.hub.service.application import HubService

__all__ = ["PREFIX", "routes_of"]

#: Below which everything is, whatever is above the hub.
PREFIX: Final = "/services/gpushare/"
_PLAIN: Final = (PageName.SESSIONS, PageName.OVERVIEW, PageName.PROJECT, PageName.ADMIN)


def routes_of(service: HubService) -> Sequence[Any]:
    """Tornado's rules."""
    prefix, ours = PREFIX, {"service": service}
    wait = rf"{prefix}{WAIT_PATH}(?P<server>[^/]{{0,200}})"
    live = rf"{prefix}live/"
    return [
        Rule(_Below(service.environment.prefix), object),
        (rf"{prefix}?", HomeHandler, ours),
        *((rf"{prefix}{page.value}", ShownHandler, {**ours, "page": page}) for page in _PLAIN),
        *((rf"{live}{page.value}", LiveHandler, {**ours, "page": page}) for page in _PLAIN),
        *((rf"{prefix}actions/{name}", ActionHandler, {**ours, "name": name}) for name in ACTIONS),
        (rf"{prefix}audit\.csv", AuditFileHandler, ours),
        (rf"{prefix}{PICKER_PATH}", PickerHandler, ours),
        (wait, WaitHandler, ours),
        (rf"{live}{WAIT_PATH}(?P<server>[^/]{{0,200}})", LiveHandler, {**ours, "page": PageName.WAIT}),
        (rf"{prefix}static/(.*)", AssetHandler, {"path": str(STATIC)}),
        (rf"{prefix}oauth_callback", SignedInHandler, ours),
    ]


class _Below(Matcher):
    """Matches nothing: every request below *prefix*, wherever the hub has put it, is one below ours from here on."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def match(self, request: HTTPServerRequest) -> None:
        """Take what is above us off the path that the other rules look at; the address itself stays as it was sent."""
        path = request.path or ""
        if self._prefix != PREFIX and (path.startswith(self._prefix) or path == self._prefix[:-1]):
            request.path = f"{PREFIX}{path[len(self._prefix) :]}"
