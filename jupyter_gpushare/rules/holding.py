"""Claims that are held before anybody is connected: a hub reserves a share for a server that it is about to start."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.rules.change import Change
from jupyter_gpushare.rules.ending import end
from jupyter_gpushare.rules.reason import Reason

if TYPE_CHECKING:
    from jupyter_gpushare.rules.event import Held, LetGo
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["held", "let_go", "let_go_now"]


def held(snapshot: Snapshot, event: Held, now: float) -> Change:  # noqa: ARG001  # every event is taken in so
    """It is held until another time, or by its holder's connection from now on. Whoever is connected stays so."""
    lease = snapshot.leases.get(event.lease)
    if lease is None or lease.hold is None or lease.hold == event.hold:
        return Change()
    return Change(leases={lease.id: lease.evolve(hold=event.hold)})


def let_go(snapshot: Snapshot, event: LetGo, now: float) -> Change:
    """Nobody came for it in time, or nobody is to come any more. One that its holder has joined stays."""
    lease = snapshot.leases.get(event.lease)
    if lease is None or lease.hold is None:
        return Change()
    if event.by:
        return let_go_now(snapshot, lease, now, by=event.by)
    if lease.hold.until > now:
        return Change()
    return let_go_now(snapshot, lease, now, by="rules", reason=Reason.NOT_TAKEN_UP)


def let_go_now(snapshot: Snapshot, lease: Lease, now: float, *, by: str, reason: Reason | None = None) -> Change:
    """End it at once. No holder lets go for it: what its server may still have on a device counts as foreign."""
    return end(snapshot, lease.evolve(hold=None), now, reason=reason, by=by)
