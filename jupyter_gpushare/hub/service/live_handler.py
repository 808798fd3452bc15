"""The WebSocket of one open page."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from tornado.websocket import WebSocketClosedError, WebSocketHandler

from jupyter_gpushare.hub.pages import Asked, PageName
from jupyter_gpushare.hub.service.live_pages import Looking
from jupyter_gpushare.hub.service.page_handler import PageHandler
from jupyter_gpushare.hub.service.pages_shown import asked_of
from jupyter_gpushare.hub.service.wait_handler import wait_of

if TYPE_CHECKING:
    from jupyter_gpushare.hub.service.application import HubService
    from jupyter_gpushare.hub.service.standing import Standing
    from jupyter_gpushare.hub.service.waits import Wait

__all__ = ["LiveHandler"]

#: RFC 6455, 7.4.1.
_GOING_AWAY: Final = 1001
_POLICY: Final = 1008
#: RFC 6455, 5.5: in bytes, and a little less.
_LONGEST_REASON: Final = 120


class LiveHandler(PageHandler, WebSocketHandler):
    """One open page, which is told what changes on it."""

    def initialize(self, service: HubService, **more: Any) -> None:
        """*page*: which."""
        super().initialize(service)
        self.page: PageName = more["page"]
        self.route = self.page.value
        self._looking: Looking | None = None
        self._written: asyncio.Future[None] | None = None
        self._wait: Wait | None = None
        self._asked = Asked()

    async def prepare(self) -> None:
        """As of every page, whose address it has; and nobody may keep too many of them."""
        await super().prepare()
        if self.standing is None:
            return
        self.service.broker.bounds.check_token(self.request, self.caller)
        projects = self.service.broker.books.projects
        self._asked = asked_of(self.page, self.request, self.viewer, projects)
        if self.page is PageName.WAIT:
            server = self.path_kwargs.get("server") or ""
            self._wait = wait_of(self.request, server, self.service.environment.hub_token, self.person.name)

    async def get(self, *_args: Any, **_kwargs: Any) -> None:
        """Become a WebSocket."""
        await WebSocketHandler.get(self)

    def check_origin(self, origin: str) -> bool:
        """That a page of ours asks was seen in `prepare`, by what no other page knows."""
        del origin
        return True

    def get_compression_options(self) -> dict[str, Any]:
        """HTML comes to a tenth of its size (RFC 7692)."""
        return {}

    def open(self, *_args: Any, **_kwargs: Any) -> None:
        """From now on it is told."""
        self.set_nodelay(True)
        xsrf = "" if self.sitting is None else self.sitting.xsrf
        self._looking = Looking(self, self.page, self.person, self._asked, xsrf, self._wait)
        self.service.live.add(self._looking)

    def on_message(self, message: str | bytes) -> None:
        """Nothing is expected."""

    def on_close(self) -> None:
        """The page was left."""
        if self._looking is not None:
            self.service.live.remove(self._looking)

    def send(self, body: bytes) -> None:
        """Send *body*."""
        try:
            self._written = asyncio.ensure_future(self.write_message(body.decode()))
        except WebSocketClosedError:
            return  # `on_close` sees to it
        self._written.add_done_callback(_read)

    def is_behind(self) -> bool:
        """Whether what was sent last is still on its way."""
        return self._written is not None and not self._written.done()

    def end(self, reason: str, *, for_good: bool = True) -> None:
        """Close, and say why: *for_good*, or to come again."""
        self.close(_POLICY if for_good else _GOING_AWAY, reason.encode()[:_LONGEST_REASON].decode(errors="ignore"))

    async def who(self) -> Standing | None:
        """Who sits there, asked of the hub anew."""
        return await self.service.identity.sender_of(self.request)


def _read(written: asyncio.Future[None]) -> None:
    """A write that failed means that the other side is gone, which `on_close` sees to."""
    if not written.cancelled():
        written.exception()
