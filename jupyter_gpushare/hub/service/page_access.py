"""The service's pages and what is posted on them: one table of who may, used by the handlers and walked by a test.

Below the service's prefix:

======================  =====================================================================
``overview?search=``    devices, projects, queue, last day; also what the bare prefix leads to
``sessions``            one's own shares
``project?project=``    one project, for those in it
``admin?search=…``      for admins. The audit's filters: ``verb lease project person reason by because_of``; ``since``
                        and ``until`` (seconds since the epoch, or as ``2026-11-22T09:00``, UTC); ``before`` (a number)
``audit.csv?…``         the same lines of the audit as a file, as many as the filters find
``wait/{server}?…``     before a server starts whose share is not free (`hub.wait_link`)
``picker?…``            what an open spawn page shows, as JSON (`hub.picker_link`); POST: the same, for the hub
``live/{page}?…``       WebSocket: what changes on that page. Its query is the page's own, and ``_xsrf``
``actions/{name}``      POST: a form (`hub.pages.actions`) with ``_xsrf`` and ``next``, the page of ours to go back to
                        (303), which then says what became of it
``wait/{server}``       POST: wait no more; ``for`` and ``sign`` in the query as in the page's own address
``static/{file}``       what the pages load
``oauth_callback``      where the hub sends people who have signed in
======================  =====================================================================

A script that asks for JSON (``Accept: application/json``) is answered an action with ``{"said": text, "is_good":
true}`` and no page. The messages of ``live`` are ``{"fragments": {id: html}}``: the HTML inside the element of each id,
of those that have changed, or the whole ``gpushare-main`` where other elements are there than before; and
``{"go": url}`` where the page is to be left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.access import Role
from jupyter_gpushare.hub.pages.actions import ACTIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["PAGE_ACCESS", "action_route", "may"]

_ANYBODY: Final = frozenset(Role)
_PERSONS: Final = frozenset({Role.PERSON})
_ADMINS: Final = frozenset({Role.ADMIN})
#: Whose an action is. Of whom an ask is, and who may decide on it, the broker's own interface knows.
_WHOSE: Final[Mapping[str, frozenset[Role]]] = {
    "holder": frozenset({Role.OWNER, Role.ADMIN}),
    "member": _PERSONS,
    "asker": _PERSONS,
    "owner": _PERSONS,
    "admin": _ADMINS,
}


def action_route(name: str) -> str:
    """What the action *name* is called in the table."""
    return f"actions/{name}"


#: Page or action, and verb: who may. What is not here nobody may. What each is shown of it, the page decides.
PAGE_ACCESS: Final[Mapping[tuple[str, str], frozenset[Role]]] = {
    ("home", "GET"): _PERSONS,
    ("overview", "GET"): _PERSONS,
    ("sessions", "GET"): _PERSONS,
    ("project", "GET"): _PERSONS,
    ("wait", "GET"): _PERSONS,
    ("wait", "POST"): _PERSONS,
    ("admin", "GET"): _ADMINS,
    ("audit.csv", "GET"): _ADMINS,
    # The hub's signature in the address or form says who may: the page was made for one person, and shows nobody
    # anything new.
    ("picker", "GET"): _ANYBODY,
    ("picker", "POST"): _ANYBODY,
    ("static", "GET"): _ANYBODY,
    ("oauth", "GET"): _ANYBODY,
    **{(action_route(name), "POST"): _WHOSE[action.whose] for name, action in ACTIONS.items()},
}


def may(route: str, verb: str, roles: frozenset[Role]) -> bool:
    """Whether one of *roles* may do *verb* on *route*."""
    return bool(roles & PAGE_ACCESS.get((route, verb), frozenset()))
