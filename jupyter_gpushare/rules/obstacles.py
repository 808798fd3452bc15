"""Why a claim that could not be served waits (DESIGN 5, rule 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.rules.displaceable import excess, jobs_above
from jupyter_gpushare.rules.layout import shape_of
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.situation import soon
from jupyter_gpushare.rules.standing import Bound
from jupyter_gpushare.rules.ways import is_inside_quota

if TYPE_CHECKING:
    from collections.abc import Container

    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.situation import Situation

__all__ = ["why_inside", "why_outside"]


def why_outside(situation: Situation, claim: Lease) -> Reason:
    """Why a claim above its project's fair share waits: nothing that it could have is free, nor lent."""
    if claim.grants:
        return _why_not_there(situation, claim)
    if claim.is_session:
        return Reason.WAITING_FOR_DEVICE
    return Reason.WAITING_FOR_QUOTA if situation.place_on_loan(claim) is None else Reason.LOAN_TOO_SHORT


def why_inside(situation: Situation, claim: Lease) -> Reason:
    """Why a claim inside its project's fair share waits although rule 3 stands by it."""
    if claim.grants:
        return _why_not_there(situation, claim)
    if not claim.is_session and situation.place_on_loan(claim) is not None:
        return Reason.LOAN_TOO_SHORT
    alike = (
        claim.is_session,
        shape_of(claim.share, claim.pool),
        (bound := _bound_of(situation, claim)),
        excess(situation, claim, claim.project, bound) > 0 and claim.project,
    )
    if alike not in situation.reasons:
        situation.reasons[alike] = _what_is_in_the_way(situation, claim, bound)
    return situation.reasons[alike]


def _why_not_there(situation: Situation, claim: Lease) -> Reason:
    """Why a parked job is not back on the device that its memory belongs to."""
    is_lent = situation.place_on_loan(claim) is not None
    return Reason.LOAN_TOO_SHORT if is_lent else Reason.WAITING_FOR_SAME_DEVICE


def _bound_of(situation: Situation, claim: Lease) -> Bound:
    return Bound.DESERVED if is_inside_quota(situation, claim) else Bound.FAIR_SHARE


def _what_is_in_the_way(situation: Situation, claim: Lease, bound: Bound) -> Reason:
    rooms, view = situation.rooms, soon(claim)
    fitting, room = rooms.layout.fitting(claim.share, claim.pool), rooms.room(view)
    for site in {rooms.layout.site_of[uuid] for uuid in rooms.foreign if uuid in fitting.needs}:
        there = fitting.sites[site]
        fits = sum(room(uuid) + rooms.foreign.get(uuid, 0) >= fitting.needs[uuid] for uuid in there)
        if fits >= claim.share.count:
            return Reason.BLOCKED_BY_FOREIGN_MEMORY
    free = sum(max(0, room(uuid)) for uuid in rooms.devices(view) if uuid in fitting.needs)
    if fitting.needs and free + _reclaimable(situation, claim, bound, fitting.needs) >= situation.cost(claim):
        return Reason.BLOCKED_BY_FRAGMENTATION
    return Reason.WAITING_FOR_DEVICE


def _reclaimable(situation: Situation, claim: Lease, bound: Bound, devices: Container[str]) -> int:
    """What those above *bound* hold above it on *devices*, were it only in one place."""
    above = 0
    for project, jobs in jobs_above(situation, claim, bound).items():
        held = sum(amount for device, amount in jobs.freed.items() if device in devices)
        above += min(held, excess(situation, claim, project, bound))
    return above
