"""Signing in by the hub (OAuth 2, as JupyterHub's own services do it), and the files that pages load."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jupyterhub.services.auth import (  # type: ignore[import-untyped]
    HubOAuth,
    HubOAuthCallbackHandler,
)
from tornado.web import StaticFileHandler

from jupyter_gpushare.broker.public_error import PublicError
from jupyter_gpushare.hub.service.page_handler import OPENER_POLICY

if TYPE_CHECKING:
    from jupyter_gpushare.hub.service.application import HubService
    from jupyter_gpushare.hub.service.environment import HubEnvironment

__all__ = ["AssetHandler", "SignedInHandler", "hub_auth_of"]

_KEPT_S = 86400 * 365


def hub_auth_of(environment: HubEnvironment) -> Any:
    """JupyterHub's own part of signing in."""
    return HubOAuth(
        api_url=environment.api_url,
        api_token=environment.api_token,
        base_url=environment.prefix,
        hub_host=environment.host,
        hub_prefix=environment.hub_prefix,
        oauth_client_id=environment.client_id,
    )


class SignedInHandler(HubOAuthCallbackHandler):  # type: ignore[misc]  # JupyterHub has no types
    """Where the hub sends people back to, with a code that is exchanged for a token."""

    route = "oauth"

    def initialize(self, service: HubService) -> None:
        """The service that is asked."""
        self.service = service
        self.hub_auth = service.hub_auth

    async def prepare(self) -> None:
        """Find out who has signed in already: an old address of this page, as of a second click, leads them on.

        JupyterHub's own way asks the hub in a thread, with an event loop that nobody closes.
        """
        self.current_user = None
        sitting = self.service.identity.sitting(self.request)
        if sitting is not None:
            with suppress(PublicError):  # nobody, as far as this page is concerned
                self.current_user = await self.service.identity.person_at(sitting)

    def set_default_headers(self) -> None:
        """An address with a code in it must be kept by nobody."""
        self.set_header("Cache-Control", "no-store")
        self.set_header(*OPENER_POLICY)
        self.set_header("Referrer-Policy", "no-referrer")
        self.clear_header("Server")


class AssetHandler(StaticFileHandler):
    """A file that pages load: the same for everybody, and another address for another content."""

    route = "static"

    def set_extra_headers(self, path: str) -> None:
        """It may be kept as long as its address is the same."""
        del path
        kept = f"public, max-age={_KEPT_S}, immutable" if self.get_query_argument("v", "") else "no-cache"
        self.set_header("Cache-Control", kept)
        self.set_header("X-Content-Type-Options", "nosniff")
        self.clear_header("Server")
