"""What all pages and actions of the service have in common: who looks, what one may, and errors that are pages."""

from __future__ import annotations

import logging
import uuid
from html import escape
from http.client import responses
from typing import TYPE_CHECKING, Any, Final

import msgspec
from jupyterhub.services.auth import HubOAuthenticated  # type: ignore[import-untyped]
from tornado.web import HTTPError, RequestHandler

from jupyter_gpushare.broker.access import roles_of
from jupyter_gpushare.broker.public_error import PublicError, forbidden, not_found, sendable
from jupyter_gpushare.hub.pages.asked import Notice, PageName
from jupyter_gpushare.hub.service.browser import XSRF_FIELD
from jupyter_gpushare.hub.service.calling import caller_of
from jupyter_gpushare.hub.service.hub_identity import bearer_of
from jupyter_gpushare.hub.service.page_access import PAGE_ACCESS, may
from jupyter_gpushare.hub.service.standing import Level
from jupyter_gpushare.rules.message import Message

if TYPE_CHECKING:
    from jupyter_gpushare.broker.access import Caller, Role
    from jupyter_gpushare.hub.pages import Frame, Page
    from jupyter_gpushare.hub.service.application import HubService
    from jupyter_gpushare.hub.service.browser import Sitting
    from jupyter_gpushare.hub.service.environment import HubEnvironment
    from jupyter_gpushare.hub.service.standing import Standing
    from jupyter_gpushare.hub.site import Viewer
    from jupyter_gpushare.rules.lease import Lease

__all__ = ["OPENER_POLICY", "PageHandler", "settings_of"]

_LOG: Final = logging.getLogger(__name__)
_NOTICE: Final = "gpushare-said"
_SHOWN_WITHIN_S: Final = 60
#: Nobody may look into our pages from another one; nothing is loaded but from here and from the hub.
_POLICY: Final = (
    "frame-ancestors 'none'; object-src 'none'; base-uri 'none'; default-src 'self' {hub} 'unsafe-inline' data:"
)
#: A page of anybody else that opened ours in a window has no hold on it, though it lies on the same domain: the two
#: must send the same (HTML Standard, "Cross-origin opener policies").
OPENER_POLICY: Final = ("Cross-Origin-Opener-Policy", "same-origin")
_HUB: Final = "gpushare_hub"


class PageHandler(HubOAuthenticated, RequestHandler):  # type: ignore[misc]  # JupyterHub has no types
    """A page or an action.

    Attributes:
        route: its name in the table of who may do what.
        needs_nobody: whether it is there for people who have not signed in, too.
    """

    route = ""
    needs_nobody = False

    def initialize(self, service: HubService, **_more: Any) -> None:
        """The service that is asked."""
        self.service = service
        self.hub_auth = service.hub_auth
        self.standing: Standing | None = None
        self.sitting: Sitting | None = None

    async def prepare(self) -> None:
        """Find out who looks. Who has not signed in is sent to the hub, and comes back."""
        if self.needs_nobody:
            return
        self._check_verb()
        self.sitting = self.service.identity.sitting(self.request)
        self.standing = await self.service.identity.sender_of(self.request)
        if self.standing is None:
            self._send_to_sign_in()
            return
        if self.standing.is_service:
            raise forbidden("NO_PERSON", "These pages are for people; a service reads the API below api/v1.")
        # Who looks at the page on which one waits stands in line by that.
        is_act = self._verb != "GET" or self.route == PageName.WAIT
        if is_act and self.standing.level < Level.ACT:
            template = "This token may only look; to act it needs the scope custom:gpushare:write."
            raise forbidden("READS_ONLY", template)
        if not may(self.route, self._verb, self.roles_here()):
            raise forbidden()

    def roles_here(self) -> frozenset[Role]:
        """What the viewer is to what is asked about: without a lease, or an answer of a subclass, what it is at all."""
        return roles_of(self.caller, self.service.broker.books) | self.more_roles()

    def more_roles(self) -> frozenset[Role]:
        """What it is to the thing that this page or action is about."""
        return frozenset()

    @property
    def person(self) -> Standing:
        """Who looks."""
        if self.standing is None:
            raise HTTPError(401)
        return self.standing

    @property
    def caller(self) -> Caller:
        """Who looks, for the broker."""
        return caller_of(self.person)

    @property
    def viewer(self) -> Viewer:
        """Who looks, for the pages."""
        person = self.person
        return self.service.site.viewer(person.name, person.groups, is_admin=person.level is Level.ADMINISTER)

    def lease_of(self, lease_id: str) -> Lease:
        """The lease. One that the viewer may do nothing with here does not exist for it.

        Raises:
            PublicError: 404.
        """
        books = self.service.broker.books
        lease = books.leases.get(lease_id)
        if lease is None or not may(self.route, self._verb, roles_of(self.caller, books, lease)):
            raise not_found("lease", lease_id)
        return lease

    def frame(self, *, is_live: bool = True) -> Frame:
        """What surrounds the page."""
        return self.service.frame(self.standing, self.sitting, is_live=is_live)

    def show(self, page: Page) -> None:
        """Finish with *page*. What its forms carry is in a cookie too, where a program that reads no pages looks.

        No script may read it: one on the same domain can call its own page by our path, and would be shown our cookies.
        """
        cookie = self.get_cookie(XSRF_FIELD)
        if self.sitting is not None and cookie != self.sitting.xsrf:
            self.set_cookie(XSRF_FIELD, self.sitting.xsrf, **self._cookie_kept())
        self.set_header("Content-Type", "text/html; charset=UTF-8")
        self.finish(page.html)

    def leave_notice(self, notice: Notice) -> None:
        """Have *notice* shown by the next page: kept in the browser, signed, and for a moment."""
        body = msgspec.json.encode(notice).decode()
        self.set_secure_cookie(_NOTICE, body, expires_days=None, max_age=_SHOWN_WITHIN_S, **self._cookie_kept())

    def take_notice(self) -> Notice | None:
        """What the last action left to be said. It is said once."""
        body = self.get_secure_cookie(_NOTICE, max_age_days=1)
        if body is None:
            return None
        self.clear_cookie(_NOTICE, path=self.service.environment.prefix)
        try:
            return msgspec.json.decode(body, type=Notice)
        except msgspec.DecodeError:
            return None  # of another version

    def _cookie_kept(self) -> dict[str, Any]:
        return {"path": self.service.environment.prefix, "httponly": True, "samesite": "Lax"}

    @property
    def wants_json(self) -> bool:
        """Whether a script asks, which shows the answer itself."""
        return "application/json" in self.request.headers.get("Accept", "")

    @property
    def _verb(self) -> str:
        return self.request.method or ""

    def _check_verb(self) -> None:
        if (self.route, self._verb) not in PAGE_ACCESS:
            raise HTTPError(405)

    def _send_to_sign_in(self) -> None:
        is_visit = self._verb == "GET" and self.request.headers.get("Upgrade", "").lower() != "websocket"
        if not is_visit or self.wants_json or bearer_of(self.request):
            raise PublicError(
                401, Message("NOT_SIGNED_IN", "The hub does not know who you are; open the page again and sign in.")
            )
        self.redirect(self.get_login_url())

    def set_default_headers(self) -> None:
        """Nothing here may be kept by anything in between, shown inside another page, or held by who opened it."""
        self.set_header("Cache-Control", "no-store")
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Content-Security-Policy", _POLICY.format(hub=self.settings.get(_HUB, "")))
        self.set_header(*OPENER_POLICY)
        self.set_header("Referrer-Policy", "same-origin")
        self.clear_header("Server")

    def check_xsrf_cookie(self) -> None:
        """Who sends this was found out in `prepare`, and that a page of ours did."""

    def send_error(self, status_code: int = 500, **kwargs: Any) -> None:
        """Give a public error its own status."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        super().send_error(error.status if isinstance(error, PublicError) else status_code, **kwargs)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """A page that says why; what is not meant for people stays in the log, under the id that they see."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        message = error.message if isinstance(error, PublicError) else _hidden(error, status_code, self.request.uri)
        if self.wants_json:
            self.finish({"said": message.text, "is_good": False, "code": message.code})
            return
        self.set_header("Content-Type", "text/html; charset=UTF-8")
        title = responses.get(status_code, "Error")
        main = f"<h1>{escape(title)}</h1><p>{escape(message.text)}</p>"
        main += f'<p><a class="btn btn-primary" href="{escape(self.service.environment.prefix)}">GPU shares</a></p>'
        if self.standing is None:
            # Without a person the hub's own frame would show somebody else's menu, or none.
            self.finish(f"<!DOCTYPE html><html lang=en><title>{escape(title)}</title><body>{main}")
        else:
            frame = self.frame(is_live=False)
            self.finish(self.service.templates.page(frame, title=title, page="error", main=main))

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """An error for people is no fault; any other is logged with its id when it is answered."""


def settings_of(environment: HubEnvironment, secret: bytes) -> dict[str, Any]:
    """What pages need of tornado's application: the *secret* by which cookies are signed, and where the hub is."""
    return {"cookie_secret": secret.decode(), _HUB: environment.host}


def _hidden(error: BaseException | None, status: int, uri: str | None) -> Message:
    if isinstance(error, HTTPError) and status < 500:  # noqa: PLR2004  # a mistake of the asker's
        text = sendable((error.log_message or "").rstrip(".")) or responses.get(status, "no reason was given")
        return Message("HTTP_ERROR", "The service refused this: {text}.", {"text": text})
    key = uuid.uuid4().hex[:12]
    _LOG.error("Error %s at %s", key, (uri or "").partition("?")[0][:200], exc_info=error)
    return Message("INTERNAL_ERROR", "Something failed inside the service; its log says what under {id}.", {"id": key})
