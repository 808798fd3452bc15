"""What the broker answers who reads its audit."""

from __future__ import annotations

import msgspec

from jupyter_gpushare.broker.wire import Amount  # decoded

__all__ = ["AuditAnswer", "AuditEntryModel"]


class AuditEntryModel(msgspec.Struct, frozen=True):
    """One line of the audit. *number* grows; a page is asked for after a number. *why* is what *by* wrote about it."""

    number: int
    at: float
    verb: str
    lease: str
    project: str
    person: str
    devices: list[str]
    amount: Amount
    lent: Amount
    reason: str
    because_of: str
    by: str
    details: dict[str, str]
    why: str = ""


class AuditAnswer(msgspec.Struct, frozen=True):
    """A page of the audit, in the order that was asked for."""

    entries: list[AuditEntryModel]
