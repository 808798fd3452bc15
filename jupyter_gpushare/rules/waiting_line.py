"""Who comes next: the line of all that wait, for telling people their place in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.rules.queue_order import ProjectLines, claim_order, queue_of
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.situation import Situation, look

if TYPE_CHECKING:
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["line"]


def line(snapshot: Snapshot) -> list[str]:
    """The ids of all waiting claims in the order in which they come, should nothing else happen meanwhile.

    Each is counted as served before the next is chosen, so that projects take turns here as they will.
    """
    situation, queue = look(snapshot, 0.0), queue_of(snapshot)
    planned = [key for key in queue.planned if situation.has_inside(snapshot.leases[key])]
    order = sorted(
        planned, key=lambda key: (snapshot.leases[key].reason is Reason.MOVED, claim_order(snapshot.leases[key]))
    )
    for key in order:
        situation.foresee(snapshot.leases[key])
    rest = _in_turn(situation, [snapshot.leases[key] for key in snapshot.waiting.difference(order)], order)
    _in_turn(situation, rest, order, is_inside=False)
    return order


def _in_turn(situation: Situation, claims: list[Lease], order: list[str], *, is_inside: bool = True) -> list[Lease]:
    """Add *claims* to *order* as they come, those above their fair share left out and returned if *is_inside*."""
    lines, rest = ProjectLines(situation.standings), []
    for claim in claims:
        lines.add(claim.project, claim_order(claim), claim)
    while (claim := lines.pop()) is not None:
        if is_inside and not situation.has_inside(claim):
            rest.append(claim)
            continue
        situation.foresee(claim)
        order.append(claim.id)
    return rest
