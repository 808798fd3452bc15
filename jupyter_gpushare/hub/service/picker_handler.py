"""What an open spawn page asks again and again, and the hub when it makes one: how its shares stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from tornado.web import RequestHandler

from jupyter_gpushare.hub import sealed
from jupyter_gpushare.hub.picker_live import Asked, picture_now, read_link
from jupyter_gpushare.hub.sealed import SealError

if TYPE_CHECKING:
    from jupyter_gpushare.hub.service.application import HubService

__all__ = ["HEADERS", "PickerHandler"]

#: Nothing may be kept. Where users have domains of their own the hub's page is of another origin than we; any page may
#: read an answer, as that takes an address that the hub has signed, and no cookie.
HEADERS: Final = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Access-Control-Allow-Origin": "*",
}
_LONGEST: Final = 200


class PickerHandler(RequestHandler):
    """The hub has signed for whom the page was made: nobody needs to sign in once more."""

    route = "picker"

    def initialize(self, service: HubService) -> None:
        """The service that is asked."""
        self.service = service

    def get(self) -> None:
        """The picture, as JSON, for an open page."""
        self._answer()

    def post(self) -> None:
        """The same for the hub, which tells all that it knows of the person: more than an address holds."""
        self._answer(is_sent=True)

    def _answer(self, *, is_sent: bool = False) -> None:
        self.set_header("Content-Type", "application/json")
        argument = self.get_body_argument if is_sent else self.get_query_argument
        secret = self.service.environment.hub_token
        try:
            link = read_link(argument(sealed.BODY, ""), argument(sealed.SIGNATURE, ""), secret, is_sent=is_sent)
        except SealError as error:
            self.set_status(403)
            self.finish({"said": f"This page's address does not work: {error}."})
            return
        asked = Asked(*(argument(name, "")[:_LONGEST] for name in ("share_project", "share_kind", "share_custom")))
        self.finish(msgspec.json.encode(picture_now(self.service.broker, link, asked)))

    def set_default_headers(self) -> None:
        """Those of every answer."""
        for name, value in HEADERS.items():
            self.set_header(name, value)
        self.clear_header("Server")
