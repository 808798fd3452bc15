"""The route of the audit: who got, lost, parked and lent what, and why; page by page, by people, projects and time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.audit_wire import AuditAnswer
from jupyter_gpushare.broker.handlers import API, BrokerHandler
from jupyter_gpushare.broker.ledger import AUDIT_COLUMNS, LedgerError, Span
from jupyter_gpushare.broker.models import audit_model
from jupyter_gpushare.broker.public_error import bad_request, unavailable

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["ROUTES"]

_MOST_LINES: Final = 1000
_ORDERS: Final = ("oldest", "newest")
_MOST: Final = 1 << 62


class AuditHandler(BrokerHandler):
    """The audit."""

    route = "audit"

    async def get(self) -> None:
        """A page: an admin's of everybody; an owner's of a project of its own that it asks for; else of the asker."""
        where = {name: value for name in sorted(AUDIT_COLUMNS) if (value := self.get_query_argument(name, ""))}
        projects = self._bound_to(where)
        after = self.number("after", 0, 0, _MOST)
        limit = self.number("limit", 100, 1, _MOST_LINES)
        span = self._span()
        try:
            lines = await self.broker.ask_ledger(
                lambda ledger: ledger.audit(after=after, limit=limit, where=where, span=span, projects=projects)
            )
        except LedgerError as error:
            raise unavailable(str(error)) from None
        self.answer(AuditAnswer([audit_model(line) for line in lines]))

    def _bound_to(self, where: dict[str, str]) -> Collection[str] | None:
        """Bind *where* to what the asker may read; the projects that it may read all of, if it is bound to them."""
        asker = self.person
        if asker.is_admin:
            return None
        books = self.broker.books
        groups = asker.groups or frozenset()
        owned = {name for name, each in books.projects.items() if each.is_owned_by(asker.person, groups)}
        if owned and where.get("project") in owned:
            return owned
        where["person"] = asker.person
        return None

    def _span(self) -> Span:
        order = self.get_query_argument("order", "oldest")
        if order not in _ORDERS:
            raise bad_request(f"{order[:50]!r} is no order; write {' or '.join(_ORDERS)}", "order")
        before = self.number("before", 0, 0, _MOST) or None
        return Span(order == "newest", before, self._time("since"), self._time("until"))

    def _time(self, name: str) -> float | None:
        text = self.get_query_argument(name, "", strip=False)
        if not text:
            return None
        try:
            at = float(text)
        except ValueError:
            at = math.nan
        if not math.isfinite(at):
            raise bad_request(f"{text[:50]!r} is no time; write seconds since the epoch, such as 1767225600", name)
        return at


ROUTES = [(rf"{API}/audit", AuditHandler)]
