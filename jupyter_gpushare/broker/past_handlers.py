"""The routes about the past: what the GPUs did in the last day, and what parking would have won."""

from __future__ import annotations

import msgspec

from jupyter_gpushare.broker.access import may_see_project
from jupyter_gpushare.broker.handlers import API, BrokerHandler
from jupyter_gpushare.broker.ledger import LedgerError
from jupyter_gpushare.broker.past import LONGEST_DAY_H, LONGEST_REPORT_D
from jupyter_gpushare.broker.public_error import unavailable

__all__ = ["ROUTES"]


class DayHandler(BrokerHandler):
    """The last day."""

    route = "day"

    async def get(self) -> None:
        """Of all devices together."""
        hours = self.number("hours", 24, 1, LONGEST_DAY_H)
        try:
            self.answer(await self.broker.past.day(hours))
        except LedgerError as error:
            raise unavailable(str(error)) from None


class ParkingReportHandler(BrokerHandler):
    """What parking would have won."""

    route = "parking-report"

    async def get(self) -> None:
        """In projects that the asker may see."""
        days = self.number("days", 7, 1, LONGEST_REPORT_D)
        try:
            report = await self.broker.past.report(days)
        except LedgerError as error:
            raise unavailable(str(error)) from None
        projects, asker = self.broker.books.projects, self.person
        lines = [
            line
            for line in report.lines
            if asker.is_admin or (line.project in projects and may_see_project(asker, projects[line.project]))
        ]
        self.answer(msgspec.structs.replace(report, lines=lines))


ROUTES = [(rf"{API}/day", DayHandler), (rf"{API}/parking-report", ParkingReportHandler)]
