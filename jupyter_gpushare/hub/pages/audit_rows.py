"""Lines of the audit as rows, newest first, and the filters that were asked for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode

from jupyter_gpushare.hub.pages.wording import clock, gpus
from jupyter_gpushare.rules.change import Verb

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from markupsafe import Markup

    from jupyter_gpushare.broker.ledger import Recorded
    from jupyter_gpushare.hub.site import AuditAsked

__all__ = ["FILTERS", "VERBS", "AuditPage", "AuditRow", "Filter", "filters_of", "page_of"]

VERBS: Final = tuple(verb.value for verb in Verb)
#: What can be filtered by, in the order of the form: the field's name and the word for it.
FILTERS: Final = (
    ("person", "person"),
    ("project", "project"),
    ("verb", "what happened"),
    ("reason", "reason"),
    ("by", "by"),
    ("lease", "lease"),
    ("since", "from (UTC)"),
    ("until", "until (UTC)"),
)


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One line."""

    number: int
    at: Markup
    verb: str
    project: str
    person: str
    lease: str
    amount: str
    reason: str
    by: str
    why: str
    details: str


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Some lines, and where more are: queries that begin with ``?``, *older* empty on the last page."""

    rows: list[AuditRow]
    older: str
    newest: str
    csv: str


@dataclass(frozen=True, slots=True)
class Filter:
    """One field of the form, with what is in it."""

    name: str
    word: str
    value: str


def filters_of(asked: AuditAsked) -> list[Filter]:
    """The form's fields."""
    said = {**asked.where, "since": _minute(asked.since), "until": _minute(asked.until)}
    return [Filter(name, word, said.get(name, "")) for name, word in FILTERS]


def page_of(lines: Sequence[Recorded], asked: AuditAsked) -> AuditPage:
    """*lines* as *asked* for, newest first."""
    query = {each.name: each.value for each in filters_of(asked) if each.value}
    is_full = len(lines) >= asked.limit
    older = _query({**query, "before": str(lines[-1].number)}) if is_full and lines else ""
    newest = _query(query) if asked.before is not None else ""
    return AuditPage([_row(line) for line in lines], older, newest, _query(query))


def _query(fields: Mapping[str, str]) -> str:
    return f"?{urlencode(fields)}"


def _minute(at: float | None) -> str:
    """As a browser's field for a date and a time wants it."""
    return "" if at is None else datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M")


def _row(line: Recorded) -> AuditRow:
    entry = line.entry
    details = dict(entry.details)
    why = details.pop("why", "")
    return AuditRow(
        number=line.number,
        at=clock(entry.at),
        verb=entry.verb.value.replace("_", " "),
        project=entry.project,
        person=entry.person,
        lease=entry.lease,
        amount="" if entry.amount is None else gpus(entry.amount),
        reason="" if entry.reason is None else entry.reason.value,
        by=entry.by,
        why=why,
        details=_said(details.items()),
    )


def _said(details: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in details)
