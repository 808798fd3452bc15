"""The audit as a file for spreadsheets (RFC 4180), newest first."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.ledger import LedgerError
from jupyter_gpushare.broker.public_error import unavailable
from jupyter_gpushare.hub.service.page_handler import PageHandler
from jupyter_gpushare.hub.service.pages_shown import audit_asked

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_gpushare.broker.ledger import Recorded

__all__ = ["AuditFileHandler", "lines_of"]

_AT_ONCE: Final = 1000
_COLUMNS: Final = (
    "number", "time", "verb", "lease", "project", "person", "devices", "amount", "lent", "reason", "because_of", "by",
    "why", "details",
)  # fmt: skip
#: With these a spreadsheet would begin a formula, which somebody could have written into a name.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


class AuditFileHandler(PageHandler):
    """All lines that the filters find, sent as they are read."""

    route = "audit.csv"

    async def get(self) -> None:
        """The file."""
        asked = audit_asked(self.request, _AT_ONCE)
        first = True
        while True:
            try:
                lines = await self.service.site.audit(asked)
            except LedgerError as error:
                if first:
                    raise unavailable(str(error)) from None
                raise  # the file ends short, and the browser says that it is not whole
            if first:
                self.set_header("Content-Type", "text/csv; charset=utf-8")
                self.set_header("Content-Disposition", 'attachment; filename="gpushare-audit.csv"')
                self.write(_row(_COLUMNS))
                first = False
            self.write(lines_of(lines))
            await self.flush()
            if len(lines) < _AT_ONCE:
                break
            asked = replace(asked, before=lines[-1].number)


def lines_of(lines: Iterable[Recorded]) -> str:
    """*lines* of the audit as lines of the file."""
    return "".join(_row(_cells(line)) for line in lines)


def _cells(line: Recorded) -> list[str]:
    entry = line.entry
    details = {name: value for name, value in entry.details.items() if name != "why"}
    return [
        str(line.number),
        datetime.fromtimestamp(entry.at, UTC).isoformat(timespec="seconds"),
        entry.verb.value,
        entry.lease,
        entry.project,
        entry.person,
        " ".join(entry.devices),
        "" if entry.amount is None else str(entry.amount),
        "" if entry.lent is None else str(entry.lent),
        "" if entry.reason is None else entry.reason.value,
        entry.because_of,
        entry.by,
        entry.details.get("why", ""),
        "; ".join(f"{name}={value}" for name, value in sorted(details.items())),
    ]


def _row(cells: Iterable[str]) -> str:
    text = io.StringIO()
    csv.writer(text).writerow([f"'{cell}" if cell.startswith(_FORMULA) else cell for cell in cells])
    return text.getvalue()
