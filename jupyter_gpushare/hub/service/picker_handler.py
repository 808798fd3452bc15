"""What an open spawn page asks again and again: how its shares stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from tornado.web import RequestHandler

from jupyter_gpushare.hub import sealed
from jupyter_gpushare.hub.picker_live import Asked, picture_now, read_link
from jupyter_gpushare.hub.sealed import SealError

if TYPE_CHECKING:
    from jupyter_gpushare.hub.service.application import HubService

__all__ = ["PickerHandler"]

_LONGEST = 200


class PickerHandler(RequestHandler):
    """The hub has signed for whom the page was made: nobody needs to sign in once more."""

    route = "picker"

    def initialize(self, service: HubService) -> None:
        """The service that is asked."""
        self.service = service

    def get(self) -> None:
        """The picture, as JSON."""
        self.set_header("Content-Type", "application/json")
        argument = self.get_query_argument
        secret = self.service.environment.hub_token
        try:
            link = read_link(argument(sealed.BODY, ""), argument(sealed.SIGNATURE, ""), secret)
        except SealError as error:
            self.set_status(403)
            self.finish({"said": f"This page's address does not work: {error}."})
            return
        asked = Asked(*(argument(name, "")[:_LONGEST] for name in ("share_project", "share_kind", "share_custom")))
        self.finish(msgspec.json.encode(picture_now(self.service.broker, link, asked)))

    def set_default_headers(self) -> None:
        """Nothing here may be kept."""
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.clear_header("Server")
