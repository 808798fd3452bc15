"""The page on which somebody waits before a server starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from jupyter_gpushare.broker.public_error import PublicError, forbidden, not_found
from jupyter_gpushare.hub import sealed
from jupyter_gpushare.hub.pages import Asked, PageName
from jupyter_gpushare.hub.service.page_handler import PageHandler
from jupyter_gpushare.hub.service.waits import Wait
from jupyter_gpushare.hub.wait_link import WaitLink, WaitLinkError

if TYPE_CHECKING:
    from tornado.httputil import HTTPServerRequest

    from jupyter_gpushare.hub.pages import Waiting

__all__ = ["WaitHandler", "wait_of"]

_SEE_OTHER = 303


class WaitHandler(PageHandler):
    """Looking at it waits; a visit after the share was granted goes on to the hub."""

    route = PageName.WAIT.value

    async def get(self, server: str) -> None:
        """Stand in line, and show where; or start the server."""
        wait = wait_of(self.request, server, self.service.environment.hub_token, self.person.name)
        waiting = await self.service.waits.begin(self.person, wait)
        if waiting.state == "granted":
            self.redirect(await self.service.waits.spawn_address(wait.link), status=_SEE_OTHER)
            return
        await self._show(waiting)

    async def post(self, server: str) -> None:
        """Wait no more."""
        wait = wait_of(self.request, server, self.service.environment.hub_token, self.person.name)
        await self._show(await self.service.waits.cancel(self.person, wait))

    async def _show(self, waiting: Waiting) -> None:
        asked = Asked(waiting=waiting)
        is_live = waiting.state in ("waiting", "away")
        self.show(await self.service.render(PageName.WAIT, self.viewer, self.frame(is_live=is_live), asked))


def wait_of(request: HTTPServerRequest, server: str, secret: str, person: str) -> Wait:
    """What the address of a page of *person* says that it waits for.

    Raises:
        PublicError: 403: the hub did not write that address, or wrote it for somebody else or another server.
    """
    body, signature = _query(request, sealed.BODY), _query(request, sealed.SIGNATURE)
    if not body:
        raise not_found("server that waits, called", server)
    try:
        link = WaitLink.read(body, signature, secret, person)
    except WaitLinkError as error:
        raise _wrong_link(str(error)) from None
    if link.server != server:
        raise _wrong_link("This link was made for another server. Choose a share on the spawn page.")
    return Wait(link, urlencode({sealed.BODY: body, sealed.SIGNATURE: signature}))


def _query(request: HTTPServerRequest, name: str) -> str:
    values: list[Any] = request.query_arguments.get(name, [])
    return values[-1].decode("utf-8", "replace") if values else ""


def _wrong_link(text: str) -> PublicError:
    return forbidden("WRONG_LINK", "{problem}", problem=text)
