"""Lines of the audit about one lease."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jupyter_gpushare.rules.change import Change, Entry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_gpushare.rules.change import Verb
    from jupyter_gpushare.rules.lease import Lease

__all__ = ["changed", "entry", "with_why"]


def entry(lease: Lease, verb: Verb, now: float, **more: Any) -> Entry:
    """A line that says *verb* of *lease*, with what it has and why; *more* is as in `Entry`."""
    values: dict[str, Any] = {"amount": lease.amount, "lent": lease.lent, "reason": lease.reason}
    values |= {"because_of": lease.because_of, "devices": lease.devices} | more
    return Entry(at=now, verb=verb, lease=lease.id, project=lease.project, person=lease.person, **values)


def with_why(details: Mapping[str, str], why: str) -> Mapping[str, str]:
    """*details*, and what a person wrote about what it did, if it wrote anything."""
    return {**details, "why": why} if why else details


def changed(after: Lease, verb: Verb, now: float, **more: Any) -> Change:
    """*after* as it is now, with a line that says so."""
    return Change(leases={after.id: after}, audit=(entry(after, verb, now, **more),))
