"""What parking won, and what it would win where it is only observed, as far as a viewer may see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_gpushare.hub.pages.wording import hours

if TYPE_CHECKING:
    from jupyter_gpushare.broker.hub_wire import ParkingReport, ParkingReportLine
    from jupyter_gpushare.hub.site import Viewer

__all__ = ["Report", "ReportRow", "report_of"]

_DAY_S = 86400


@dataclass(frozen=True, slots=True)
class ReportRow:
    """One project in one pool."""

    project: str
    pool: str
    mode: str
    idle: str
    parks: int


@dataclass(frozen=True, slots=True)
class Report:
    """The sentence, and the rows that a viewer may see."""

    text: str
    rows: list[ReportRow]


def report_of(report: ParkingReport, viewer: Viewer) -> Report:
    """*report* for *viewer*: sums of all, rows of its own projects."""
    rows = [_row(line) for line in report.lines if line.idle > 0 and viewer.sees_project(line.project)]
    return Report(_text(report), rows)


def _row(line: ParkingReportLine) -> ReportRow:
    return ReportRow(line.project, line.pool, line.mode, hours(line.idle), line.parks)


def _text(report: ParkingReport) -> str:
    days = max(1, round((report.until - report.since) / _DAY_S))
    when = "today" if days == 1 else f"in the last {days} days"
    observed = sum(line.idle for line in report.lines if line.mode != "park")
    back = sum({line.project: line.handed_back for line in report.lines}.values())
    said = []
    if observed > 0:
        said.append(f"Parking would have handed back {hours(observed)} of GPU time {when} where it is off or observed.")
    if back > 0:
        said.append(f"Parked notebooks handed back {hours(back)} {when}.")
    return " ".join(said) or f"No notebook was idle for long {when}."
