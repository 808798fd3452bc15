"""Leases end: at once where nothing of them is on a device, else as soon as that is attested."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.audit import entry
from jupyter_gpushare.rules.change import Change, Verb
from jupyter_gpushare.rules.copies import deadline_of
from jupyter_gpushare.rules.lease import Lease, Status, Target
from jupyter_gpushare.rules.lending import borrowers, loans_kept

if TYPE_CHECKING:
    from jupyter_gpushare.rules.reason import Reason
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["end", "end_leases"]


def end_leases(snapshot: Snapshot, now: float) -> Change:
    """Those whose target is ended end, or begin to give up what they have, for good."""
    change = Change()
    for key in sorted(snapshot.unsettled):
        lease = snapshot.leases[key]
        if lease.target is not Target.ENDED or lease.status is Status.YIELDING:
            continue
        made = Change()
        if not lease.is_resident:
            made = end(snapshot, lease, now)
        elif lease.status is not Status.MISSING:
            after = lease.enter(Status.YIELDING, now, reason=None, because_of="", bursts=(), burst_loans=())
            made = Change(leases={key: deadline_of(snapshot, after, now)})
        snapshot, change = snapshot.with_change(made), change.then(made)
    return change


def end(
    snapshot: Snapshot,
    lease: Lease,
    now: float,
    *,
    reason: Reason | None = None,
    failed: bool = False,
    by: str = "rules",
) -> Change:
    """Nothing of *lease* is left. Who borrowed from it keeps that: it is promised to nobody now."""
    status, verb = (Status.FAILED, Verb.FAILED) if failed else (Status.ENDED, Verb.ENDED)
    after = lease.enter(
        status,
        now,
        target=Target.ENDED,
        reason=reason,
        grants=(),
        loans=(),
        bursts=(),
        burst_loans=(),
        host_memory=Memory.ZERO,
        deadline=None,
        wanted_since=None,
        was=None,
    )
    lent = {each.id: loans_kept(each, lease.id) for each in borrowers(snapshot, lease)} if lease.is_session else {}
    line = entry(after, verb, now, devices=lease.devices, amount=lease.amount, lent=lease.lent, by=by)
    return Change(leases={**lent, lease.id: after}, audit=(line,))
