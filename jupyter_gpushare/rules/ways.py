"""In which way a claim inside its project's fair share comes to its room (DESIGN 5, rules 1 and 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.rules.consolidation import plan_moves
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.reclaim import Plan, plan_reclaim
from jupyter_gpushare.rules.standing import Bound

if TYPE_CHECKING:
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.situation import Situation

__all__ = ["find_way", "is_inside_quota", "plan_around"]


def find_way(situation: Situation, claim: Lease) -> Plan | None:
    """How *claim*, for which there is no room, comes to it; None if in no way. Where nobody leaves, it keeps room.

    In turn: who is above its fair share leaves, now or when its minimum turn is over; jobs are moved. Where neither
    helps, a session inside its project's quota also reclaims training that is inside its project's fair share, as far
    as that is above the project's quota (docs/decisions/0020).
    """
    return (
        plan_around(situation, claim)
        or _later(situation, claim, Bound.FAIR_SHARE)
        or plan_moves(situation, claim)
        or (_wider(situation, claim) if is_inside_quota(situation, claim) else None)
    )


def plan_around(situation: Situation, claim: Lease) -> Plan | None:
    """Whom to call now for *claim*, so that it need not wait for one that ignores its call: nobody can say how long."""
    plan = plan_reclaim(situation, claim)
    if plan is not None or not situation.is_within_limit(claim) or (late := situation.place_late(claim)) is None:
        return plan
    if is_inside_quota(situation, claim) and _later(situation, claim, Bound.FAIR_SHARE) is None:
        plan = plan_reclaim(situation, claim, Bound.DESERVED)
    return plan or Plan((), late)


def is_inside_quota(situation: Situation, claim: Lease) -> bool:
    """Whether *claim* is a session's inside its project's quota."""
    standing = situation.standing(claim)
    return claim.is_session and standing.sessions + situation.cost(claim) <= standing.quota


def _wider(situation: Situation, claim: Lease) -> Plan | None:
    return plan_reclaim(situation, claim, Bound.DESERVED) or _later(situation, claim, Bound.DESERVED)


def _later(situation: Situation, claim: Lease, bound: Bound) -> Plan | None:
    """Once minimum turns are over; until then nobody slips into what is free already."""
    plan = plan_reclaim(situation, claim, bound, whose_turn_is_over=False)
    return None if plan is None else Plan((), plan.placement, reason=Reason.WAITING_FOR_MINIMUM_TURN)
