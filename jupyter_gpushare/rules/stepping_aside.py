"""Jobs above their project's quota leave a device to the parked jobs that wait for it, where they fit elsewhere.

A parked job fits only where its memory belongs: on a busy device it would wait for ever while others, which may go
anywhere, take each bit of room that comes. Sessions, and jobs inside their project's quota, go where placement says
(DESIGN 5, rule 4): what they are promised must not come in pieces for the sake of what is left over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.rules.lending import is_too_short
from jupyter_gpushare.rules.placement import with_loans
from jupyter_gpushare.rules.rooms import View

if TYPE_CHECKING:
    from collections.abc import Collection

    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.rooms import Placement
    from jupyter_gpushare.rules.situation import Situation

__all__ = ["is_to_step_aside", "place_on_loan", "step_aside"]


def place_on_loan(situation: Situation, job: Lease) -> Placement | None:
    """Where *job* could begin now with as little on loan as there can be, if that is worth its start."""
    placement = situation.place_on_loan(job)
    return placement if placement is not None and _is_worth_it(situation, job, placement) else None


def is_to_step_aside(situation: Situation, claim: Lease) -> bool:
    """Whether *claim* is a job that is bound to no device, and has more than its project's quota."""
    standing = situation.standing(claim)
    return not claim.is_session and not claim.grants and standing.used + situation.cost(claim) > standing.quota


def step_aside(situation: Situation, job: Lease, found: Placement, awaited: Collection[str]) -> Placement:
    """*found*, or a place like it on none of the *awaited* devices, if there is one."""
    if not any(part.device in awaited for part in found):
        return found
    if not any(part.lent for part in found):
        return situation.place_without(job, awaited, View.OWN) or found
    elsewhere = situation.place_without(job, awaited, View.WITH_LOANS)
    if elsewhere is None or not _is_worth_it(situation, job, elsewhere):
        return found
    return with_loans(situation.rooms, elsewhere)


def _is_worth_it(situation: Situation, job: Lease, placement: Placement) -> bool:
    snapshot = situation.snapshot
    return not is_too_short(job, snapshot.pools[snapshot.devices[placement[0].device].pool])
