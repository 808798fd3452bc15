"""The service as a whole: a broker in mode *hub*, and around it the pages, the people and the hub."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from jupyter_gpushare.broker import hub_wire
from jupyter_gpushare.broker.access import roles_of
from jupyter_gpushare.broker.handlers import DOCUMENT, DocumentHandler
from jupyter_gpushare.broker.service import Broker
from jupyter_gpushare.hub.culling.hub_servers import HubServers
from jupyter_gpushare.hub.culling.service import CullingService
from jupyter_gpushare.hub.news import NewsService
from jupyter_gpushare.hub.pages import Frame, Templates, render
from jupyter_gpushare.hub.service import beginning
from jupyter_gpushare.hub.service.calling import HUB, caller_of
from jupyter_gpushare.hub.service.described import described
from jupyter_gpushare.hub.service.hub_identity import HubIdentity, bearer_of
from jupyter_gpushare.hub.service.hub_rest import HubRest
from jupyter_gpushare.hub.service.live_pages import LivePages
from jupyter_gpushare.hub.service.own_interface import OwnInterface, OwnTokens
from jupyter_gpushare.hub.service.page_access import may
from jupyter_gpushare.hub.service.page_handler import settings_of
from jupyter_gpushare.hub.service.reconciliation import Reconciliation
from jupyter_gpushare.hub.service.routes import routes_of
from jupyter_gpushare.hub.service.secret import cookie_secret
from jupyter_gpushare.hub.service.signing_in import hub_auth_of
from jupyter_gpushare.hub.service.standing import Level
from jupyter_gpushare.hub.service.waits import Waits
from jupyter_gpushare.hub.site import Site

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tornado.httputil import HTTPServerRequest

    from jupyter_gpushare.broker.access import Caller
    from jupyter_gpushare.broker.settings import Settings
    from jupyter_gpushare.hub.pages import Asked, Page, PageName
    from jupyter_gpushare.hub.service.browser import Sitting
    from jupyter_gpushare.hub.service.environment import HubEnvironment
    from jupyter_gpushare.hub.service.standing import Standing
    from jupyter_gpushare.hub.site import Viewer

__all__ = ["HubService"]

_ADMIN_UI: Final = frozenset({"admin-ui"})


class HubService:
    """One service. For one event loop; `start`, then `stop`.

    Args:
        environment: where the hub is.
        settings: how the broker is run.
        template_paths: where the hub's admin keeps templates of its own.
        options: more for the broker, for tests.

    Attributes:
        broker: decides.
        site: what pages look at.
        identity: knows people by the hub's word.
        interface: asks the broker as somebody.
        live: the open pages.
        culling: what becomes of servers that nobody uses.
        news: tells others what happens, where the admin wants it.
    """

    def __init__(
        self, environment: HubEnvironment, settings: Settings, template_paths: Sequence[str] = (), **options: Any
    ) -> None:
        self.environment = environment
        self.hub = HubRest.of(environment.api_url, environment.api_token, settings.environ)
        self.hub_auth = hub_auth_of(environment)
        self.templates = Templates(template_paths)
        self.own_tokens = OwnTokens()
        self.interface = OwnInterface(self.own_tokens, self._address)
        secret = cookie_secret(settings.state)
        self.broker = Broker(
            settings,
            identify=self.identify,
            routes=self._routes,
            application=settings_of(environment, secret),
            **options,
        )
        self.identity = HubIdentity(
            hub=self.hub,
            service=environment.name,
            cookie=self.hub_auth.cookie_name,
            secret=secret,
            hub_token=environment.hub_token,
            admins=lambda: self.broker.configured.now.admins,
        )
        self.culling = CullingService(self.broker, HubServers(environment.api_url, environment.api_token, self.hub.tls))
        witnesses = self.culling.witnesses
        self.news = NewsService(self.broker, is_kept=witnesses.is_kept, parks_at=witnesses.parks_at)
        self.site = Site(self.broker)
        self.waits = Waits(environment, self.hub, self.interface, self.broker.view)
        self.live = LivePages(self)
        self.reconciliation = Reconciliation(
            self.hub,
            lambda: self.broker.books,
            self.broker.clock.now,
            end=self._end_claim,
            keep=self._keep_claim,
            is_connected=lambda lease: self.broker.holders.connection_of(lease) is not None,
        )

    async def start(self) -> None:
        """Start the broker, then everything that asks it.

        Raises:
            LedgerError, ConfigurationError, OSError: as `Broker.start`.
        """
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self.stop)
            await self.broker.start()
            self.live.start()
            self.reconciliation.start()
            self.culling.start()
            self.news.start()
            undo.pop_all()

    async def stop(self) -> None:
        """Stop all of it."""
        await self.news.stop()
        await self.culling.stop()
        await self.reconciliation.stop()
        await self.live.stop()
        await self.broker.stop()
        self.interface.close()
        self.hub.close()

    async def identify(self, request: HTTPServerRequest) -> Caller | None:
        """Who sent *request* to the broker: the hub's hooks, a page of ours, or whom the hub knows.

        Raises:
            PublicError: 403 and 503 as for `HubIdentity.sender_of`.
        """
        if self.identity.is_hub(request):
            return HUB
        standing = self.own_tokens.standing_of(bearer_of(request))
        if standing is None:
            standing = await self.identity.sender_of(request)
        return None if standing is None else caller_of(standing)

    async def render(self, page: PageName, viewer: Viewer, frame: Frame, asked: Asked) -> Page:
        """*page* as it is now."""
        return await render(page, viewer, self.site, frame=frame, asked=asked, templates=self.templates)

    def viewer_of(self, standing: Standing) -> Viewer:
        """*standing*, who looks at a page."""
        is_admin = standing.level is Level.ADMINISTER
        return self.site.viewer(standing.name, standing.groups, is_admin=is_admin)

    def may_look(self, page: PageName, standing: Standing) -> bool:
        """Whether *standing* may look at *page* at all."""
        return may(page.value, "GET", roles_of(caller_of(standing), self.broker.books))

    def frame(self, standing: Standing | None, sitting: Sitting | None, *, is_live: bool) -> Frame:
        """What surrounds a page."""
        return self.frame_of(standing, "" if sitting is None else sitting.xsrf, is_live=is_live)

    def frame_of(self, standing: Standing | None, xsrf: str, *, is_live: bool = True) -> Frame:
        """What surrounds a page whose forms carry *xsrf*."""
        environment = self.environment
        return Frame(
            user="" if standing is None else standing.name,
            xsrf=xsrf,
            prefix=environment.prefix,
            hub_prefix=environment.hub_url,
            base_url=environment.base_url,
            scopes=_ADMIN_UI if standing is not None and standing.is_hub_admin else frozenset(),
            is_live=is_live,
            template_vars=environment.template_vars,
        )

    async def ask_as_hub(self, verb: str, path: str, body: Any = None) -> bytes:
        """Ask the broker as the hub's own hooks do.

        Raises:
            PublicError: it refused.
        """
        return await self.interface.ask_with(self.environment.hub_token, verb, path, body)

    async def _end_claim(self, person: str, key: str) -> None:
        await self.ask_as_hub("DELETE", f"claims/{quote(key, safe='')}?person={quote(person, safe='')}")

    async def _keep_claim(self, person: str, key: str, for_s: float) -> None:
        request = hub_wire.AliveRequest(person=person, for_s=for_s, is_running=True)
        await self.ask_as_hub("POST", f"claims/{quote(key, safe='')}/alive", request)

    def _routes(self, broker: Broker) -> Sequence[Any]:
        beginning.end()  # from the next line on the broker listens here itself
        document = (DOCUMENT, DocumentHandler, {"broker": broker, "described": described})
        return [*routes_of(self), *self.culling.routes(), document]

    def _address(self) -> str:
        return next(each for each in self.broker.addresses if each.startswith("http"))
