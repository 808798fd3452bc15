"""A site that stands still: real books and a real ledger in memory behind the pages, and no broker that changes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_gpushare.broker import hub_wire
from jupyter_gpushare.broker.ledger import LedgerError, Span
from jupyter_gpushare.broker.memory_ledger import MemoryBooks, MemoryLedger
from jupyter_gpushare.broker.models import View
from jupyter_gpushare.hub.pages import Asked, Frame, Page, PageName, render
from jupyter_gpushare.hub.site import Again, AuditAsked, Site
from jupyter_gpushare.rules.change import Change

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_gpushare.broker.ledger import Recorded, UsageHours
    from jupyter_gpushare.devices.device import Device
    from jupyter_gpushare.hub.site import Viewer
    from jupyter_gpushare.rules.change import Entry
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["FRAME", "StillSite", "page_of"]

FRAME = Frame(user="ana", xsrf="the-token-of-our-forms")


class StillSite(Site):
    """The same books at the same time, for as long as one looks.

    Args:
        books: what there is.
        now: seconds since the epoch.
        audit: lines, oldest first.
        used: GPU-hours.
        is_away: the ledger answers nothing.
    """

    def __init__(
        self,
        books: Snapshot,
        now: float,
        *,
        audit: Sequence[Entry] = (),
        used: Sequence[UsageHours] = (),
        day: hub_wire.DayAnswer | None = None,
        report: hub_wire.ParkingReport | None = None,
        asks: Sequence[hub_wire.AskModel] = (),
        people: Mapping[str, hub_wire.MembersAnswer] | None = None,
        hardware: Mapping[str, Device] | None = None,
        busy: Mapping[str, float] | None = None,
        source: str = "api",
        is_away: bool = False,
    ) -> None:
        self._still = View(books, now)
        self._ledger = MemoryLedger(MemoryBooks())
        self._ledger.take_over("here")
        self._ledger.commit(Change(audit=tuple(audit)))
        self._ledger.add_usage(used)
        self._day = day or hub_wire.DayAnswer(300.0, [])
        self._report = report or hub_wire.ParkingReport(now - 7 * 86400, now, [])
        self._asks = asks
        self._people = people or {}
        self._hardware = hardware or {}
        self._busy = busy or {}
        self._source = source
        self._is_away = is_away
        self._made = None
        self._kept: dict[str, tuple[float, Any]] = {}
        self.again = Again()

    @property
    def view(self) -> View:
        return self._still

    @property
    def books(self) -> Snapshot:
        return self._still.books

    @property
    def now(self) -> float:
        return self._still.now

    @property
    def trouble(self) -> str:
        return "The database is gone." if self._is_away else ""

    @property
    def hardware(self) -> Mapping[str, Device]:
        return self._hardware

    @property
    def busy(self) -> Mapping[str, float]:
        return self._busy

    @property
    def source(self) -> str:
        return self._source

    @property
    def is_simulated(self) -> bool:
        return True

    async def hours(self, days: int) -> Mapping[str, UsageHours]:
        self._look()
        found = self._ledger.usage_of_projects(since=self.now - days * 86400, until=self.now + 1)
        return {each.project: each for each in found}

    async def audit(self, asked: AuditAsked) -> Sequence[Recorded]:
        self._look()
        span = Span(newest_first=True, before=asked.before, since=asked.since, until=asked.until)
        return self._ledger.audit(limit=asked.limit, where=asked.where, span=span)

    async def day(self) -> hub_wire.DayAnswer:
        self._look()
        return self._day

    async def report(self, days: int) -> hub_wire.ParkingReport:
        assert days
        self._look()
        return self._report

    async def asks(self) -> Sequence[hub_wire.AskModel]:
        self._look()
        return self._asks

    def members(self, project: str) -> hub_wire.MembersAnswer:
        return self._people.get(project) or hub_wire.MembersAnswer(project, ["*"], [], [])

    def _look(self) -> None:
        if self._is_away:
            raise LedgerError("the database is gone")


async def page_of(name: PageName | str, viewer: Viewer, site: Site, **asked: Any) -> Page:
    """The page for *viewer*."""
    return await render(PageName(name), viewer, site, frame=FRAME, asked=Asked(**asked))
