"""The pages that people look at: each finds out who looks and what is asked for, and has it made."""

from __future__ import annotations

from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from tornado.web import HTTPError

from jupyter_gpushare.broker.ledger import AUDIT_COLUMNS
from jupyter_gpushare.broker.public_error import bad_request, not_found
from jupyter_gpushare.hub.pages import Asked, PageName
from jupyter_gpushare.hub.service.page_handler import PageHandler
from jupyter_gpushare.hub.site import AuditAsked

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from tornado.httputil import HTTPServerRequest

    from jupyter_gpushare.hub.service.application import HubService
    from jupyter_gpushare.hub.site import Viewer

__all__ = ["HomeHandler", "ShownHandler", "asked_of", "audit_asked"]

_LONGEST: Final = 200
_MOST_LINES: Final = 1 << 62
#: The last year that calendars here know.
_END_OF_TIME: Final = 253402300800.0


class HomeHandler(PageHandler):
    """The bare prefix."""

    route = "home"

    def get(self) -> None:
        """The hub's menu leads here."""
        self.redirect(f"{self.service.environment.prefix}overview")


class ShownHandler(PageHandler):
    """One page, all of it, in the hub's own look."""

    def initialize(self, service: HubService, **more: Any) -> None:
        """*page*: which."""
        super().initialize(service)
        self.page: PageName = more["page"]
        self.route = self.page.value

    async def get(self) -> None:
        """The page as it is now, with what became of the last action on top."""
        viewer = self.viewer
        projects = self.service.broker.books.projects
        asked = asked_of(self.page, self.request, viewer, projects, notice=self.take_notice())
        self.show(await self.service.render(self.page, viewer, self.frame(), asked))


def asked_of(
    page: PageName, request: HTTPServerRequest, viewer: Viewer, projects: Collection[str], **more: Any
) -> Asked:
    """What the address of *page* says, where there are these *projects*.

    Raises:
        PublicError: 400: a field cannot be read; 404: no such project, as far as *viewer* may know.
    """
    project, search = _field(request, "project"), _field(request, "search")
    if page is PageName.PROJECT and project and not (project in projects and viewer.sees_project(project)):
        raise not_found("project", project)
    audit = audit_asked(request) if page is PageName.ADMIN else AuditAsked()
    return Asked(
        project=project if page is PageName.PROJECT else "",
        search=search if page in (PageName.OVERVIEW, PageName.ADMIN) else "",
        audit=audit,
        **more,
    )


def audit_asked(request: HTTPServerRequest, limit: int = 100) -> AuditAsked:
    """Which lines of the audit the address asks for.

    Raises:
        PublicError: 400: a time or a number cannot be read.
    """
    where: Mapping[str, str] = {name: value for name in sorted(AUDIT_COLUMNS) if (value := _field(request, name))}
    before = _field(request, "before")
    if before and not (before.isascii() and before.isdigit() and int(before[:20]) < _MOST_LINES):
        raise bad_request(f"{before[:50]!r} is no line's number; take the one of a line of the audit", "before")
    since, until = _time(request, "since"), _time(request, "until")
    return AuditAsked(where=where, since=since, until=until, before=int(before) if before else None, limit=limit)


def _field(request: HTTPServerRequest, name: str) -> str:
    values = request.query_arguments.get(name, [])
    try:
        text = values[-1].decode() if values else ""
    except UnicodeDecodeError:
        raise HTTPError(HTTPStatus.BAD_REQUEST, "the address is no text") from None
    if len(text) > _LONGEST:
        raise bad_request(f"{len(text)} characters are too many; write at most {_LONGEST}", name)
    return text.strip()


def _time(request: HTTPServerRequest, name: str) -> float | None:
    text = _field(request, name)
    if not text:
        return None
    try:
        at = float(text) if text.replace(".", "", 1).isdigit() else _moment(text)
    except (ValueError, OverflowError):
        at = -1.0
    if not 0 <= at < _END_OF_TIME:
        raise bad_request(f"{text[:50]!r} is no time; write for example 2026-11-22T09:00", name)
    return at


def _moment(text: str) -> float:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
