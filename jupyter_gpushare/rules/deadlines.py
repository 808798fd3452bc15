"""Holders that do not do in time what is asked are asked again. Nothing is freed for it: only the device tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jupyter_gpushare.rules.audit import entry
from jupyter_gpushare.rules.change import Change, Verb
from jupyter_gpushare.rules.copies import deadline_of
from jupyter_gpushare.rules.lease import Status

if TYPE_CHECKING:
    from jupyter_gpushare.rules.event import OutageOver
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["ask_again", "outage_over"]

_VERBS: Final = {
    Status.PARKING: Verb.ASKED_TO_PARK,
    Status.YIELDING: Verb.CALLED_BACK,
    Status.RESUMING: Verb.RESUMING,
}


def ask_again(snapshot: Snapshot, now: float) -> Change:
    """Prolong the deadlines that are over by as much as there was at first, with a line in the audit for each."""
    change = Change()
    for key in sorted(snapshot.unsettled):
        lease = snapshot.leases[key]
        verb = _VERBS.get(lease.status)
        if verb is None or lease.deadline is None or lease.deadline > now:
            continue
        after = deadline_of(snapshot, lease, now)
        if after.deadline is not None and after.deadline > now:
            line = entry(after, verb, now, details={"again": "its deadline is over"})
            change = change.then(Change(leases={key: after}, audit=(line,)))
    return change


def outage_over(snapshot: Snapshot, event: OutageOver, now: float) -> Change:
    """The time in which nothing could be told is not of the time that somebody has for what it is asked.

    Else one that has not heard yet counts at once as one that ignores what it hears. Where nobody knows how long it
    was, all begins anew; where it is known, many short outages give nobody more time than they took.
    """
    asked = [lease for key in snapshot.unsettled if (lease := snapshot.leases[key]).deadline is not None]
    lost_s = now if event.lasted_s is None else event.lasted_s
    moved = [lease.evolve(since=min(now, lease.since + lost_s)) for lease in asked]
    return Change(leases={lease.id: deadline_of(snapshot, lease, lease.since) for lease in moved})
