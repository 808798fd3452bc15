"""What no ledger keeps, whatever stands behind it: the same refusals in memory and in every database."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.ledger import AUDIT_COLUMNS, ConflictError
from jupyter_gpushare.quantity import Quantity
from jupyter_gpushare.rules.lease import Hold

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from jupyter_gpushare.broker.ledger import UsageHours
    from jupyter_gpushare.broker.ledger_records import Ask, Idle, Membership, Moment
    from jupyter_gpushare.rules.change import Change, Entry
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.pace import Pace

__all__ = [
    "check_ask",
    "check_change",
    "check_columns",
    "check_memberships",
    "check_paces",
    "check_past",
    "check_usage",
]

#: Databases hold whole numbers of 64 bits with a sign.
_CEILING: Final = 1 << 63
_USES: Final = ("held", "handed_back", "lent", "computed")


def check_change(change: Change) -> None:
    """Look at all of *change* before any of it is kept.

    Raises:
        ConflictError: names the record and the field that cannot be kept.
    """
    for name, record in _records(change):
        _check_record(f"{type(record).__name__} {name!r}", record)
    for lease in change.leases.values():
        _check_parts(lease)
    for entry in change.audit:
        _check_entry(entry)


def check_usage(usage: Iterable[UsageHours]) -> None:
    """Raise ConflictError if one of these says something else than hours."""
    for each in usage:
        _check_record(f"usage of {each.person!r}", each)
        for name in _USES:
            if getattr(each, name) < 0:
                raise ConflictError(f"usage of {each.person!r}: {name} is below zero")


def check_paces(paces: Mapping[str, Pace]) -> None:
    """Raise ConflictError if one of these is no pace of a host."""
    for host, pace in paces.items():
        if problem := _text_problem(host):
            raise ConflictError(f"the pace of host {host!r}: its name {problem}")
        _check_record(f"the pace of host {host!r}", pace)
        if min(pace.out_bytes_per_s, pace.in_bytes_per_s) <= 0 or min(pace.out_fixed_s, pace.in_fixed_s) < 0:
            raise ConflictError(f"the pace of host {host!r}: nothing is moved in no time, nor in less")


def check_memberships(memberships: Mapping[str, Membership]) -> None:
    """Raise ConflictError if a name among these cannot be kept."""
    for person, each in memberships.items():
        if problem := _text_problem(person):
            raise ConflictError(f"the groups of {person!r}: the name {problem}")
        _check_record(f"the groups of {person!r}", each)


def check_ask(ask: Ask) -> None:
    """Raise ConflictError if this cannot be kept."""
    _check_record(f"an ask of {ask.person!r}", ask)


def check_past(records: Iterable[Moment | Idle]) -> None:
    """Raise ConflictError if one of these is no part of a past."""
    for each in records:
        what = f"a record of {type(each).__name__.lower()}"
        _check_record(what, each)
        for name in each.__dataclass_fields__:
            value = getattr(each, name)
            if isinstance(value, float) and value < 0:
                raise ConflictError(f"{what}: {name} is below zero")


def check_columns(where: Mapping[str, str]) -> None:
    """Raise ValueError if the audit cannot be searched by one of these."""
    if strangers := sorted(set(where) - AUDIT_COLUMNS):
        raise ValueError(f"the audit has no {', '.join(strangers)}; there are {', '.join(sorted(AUDIT_COLUMNS))}")


def _records(change: Change) -> Iterator[tuple[str, object]]:
    for records in (change.leases, change.projects, change.pools, change.hosts, change.devices):
        for name, record in records.items():
            if record is not None:
                yield name, record


def _check_record(what: str, record: object) -> None:
    for name in record.__dataclass_fields__:  # type: ignore[attr-defined]  # all of them are dataclasses
        problem = _problem(getattr(record, name))
        if problem:
            raise ConflictError(f"{what}: {name} {problem}")


def _problem(value: object) -> str:
    """What speaks against keeping *value*; empty if nothing does."""
    parts = _parts_of(value)
    if parts:
        return next(filter(None, map(_problem, parts)), "")
    if isinstance(value, str):
        return _text_problem(value)
    if isinstance(value, float):
        return "" if math.isfinite(value) else f"is {value}, and no number"
    if isinstance(value, int):
        return "" if 0 <= value < _CEILING else f"is {value}, below zero or more than a database holds"
    if isinstance(value, Quantity):
        return "" if value >= type(value).ZERO else f"is {value}, below zero"
    return ""


def _parts_of(value: object) -> tuple[object, ...]:
    """What *value* consists of, if it is one of many parts."""
    if isinstance(value, frozenset):
        return tuple(value)
    if isinstance(value, dict):
        return (*value, *value.values())
    return (value.until,) if isinstance(value, Hold) else ()


def _text_problem(text: str) -> str:
    if "\0" in text:
        return "has a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "has half of a character"
    return ""


def _check_parts(lease: Lease) -> None:
    what = f"lease {lease.id!r}"
    for part in (*lease.grants, *lease.bursts, *lease.loans, *lease.burst_loans):
        _check_record(f"{what}, {type(part).__name__}", part)
    for parts in (lease.grants, lease.bursts):
        if len({part.device for part in parts}) != len(parts):
            raise ConflictError(f"{what}: two grants of it are on one device")


def _check_entry(entry: Entry) -> None:
    what = f"audit entry {entry.verb.value!r}"
    _check_record(what, entry)
    for text in (*entry.devices, *entry.details, *entry.details.values()):
        if problem := _text_problem(text):
            raise ConflictError(f"{what}: a detail {problem}")
