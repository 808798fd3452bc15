"""What must hold after every step of a history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.change import Change
from jupyter_gpushare.rules.demand import demand_of
from jupyter_gpushare.rules.event import HostSeen, Inventory, PolicySet, Returned, Vanished, Wanted
from jupyter_gpushare.rules.invariants import excesses, mistakes
from jupyter_gpushare.rules.lease import Lease, Status, Target
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.reclaim import plan_reclaim
from jupyter_gpushare.rules.situation import Situation, look
from jupyter_gpushare.rules.standing import Bound
from jupyter_gpushare.rules.step import _take_in, step
from jupyter_gpushare.rules.waiting_line import line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_gpushare.rules.event import Event
    from jupyter_gpushare.rules.snapshot import Snapshot
    from tests.rules.worlds import World

__all__ = ["check_step"]

_BY_THE_WORLD = (Inventory, HostSeen, PolicySet, Returned)
# Counting everything anew takes longer than a step does.
_EVERY = 5
_SERVED = (Reason.WAITING_FOR_CALL_BACK, Reason.MOVED)
_STARTS = {(Status.GRANTED, Status.RUNNING), (Status.RESUMING, Status.RUNNING)}


def check_step(world: World, before: Snapshot, after: Snapshot, change: Change, events: Sequence[Event]) -> None:
    """What must hold after every step."""
    found = world.violations
    _no_decision_makes_it_worse(world, before, after, events)
    _epochs_and_leases(world, before, after, change)
    if world.steps % _EVERY == 0:
        if before.with_change(change) != after:
            found.append("the change does not lead from the books before to those after")
        found += map(str, mistakes(after))
        if step(after, [], world.now).change:
            found.append(f"something was left to decide: {step(after, [], world.now).change}")
        _who_deserves_it_is_served(world, after)
    _nobody_parked_is_lost(world, before, after, events)
    if world.is_truth_known:
        _the_books_are_true(world, before, after)


def _the_books_are_true(world: World, before: Snapshot, after: Snapshot) -> None:
    """No device has more on it than it has, and whoever is said to have started has."""
    for uuid in world.first.devices:
        if world.used(uuid) > Fraction.PER_GPU:
            world.violations.append(f"{world.used(uuid)} millionths are really on {uuid}")
    for key, holder in world.holders.items():
        old, new = before.leases.get(key), after.leases.get(key)
        has_started = new is not None and old is not None and (old.status, new.status) in _STARTS
        if has_started and not holder.is_resident and not holder.is_dead:
            world.violations.append(f"{key} is said to have started, and has not")


def _nobody_parked_is_lost(world: World, before: Snapshot, after: Snapshot, events: Sequence[Event]) -> None:
    """A parked notebook ends by its owner's wish, or because it is dead."""
    dead = {event.lease for event in events if isinstance(event, Vanished) and event.is_dead}
    wished = {event.lease for event in events if isinstance(event, Wanted) and event.target is Target.ENDED}
    for key, lease in before.leases.items():
        was_parked = lease.is_session and Status.PARKED in (lease.status, lease.was)
        if was_parked and key not in after.leases and key not in dead | wished and lease.target is not Target.ENDED:
            world.violations.append(f"{key} was parked, and is lost")


def _no_decision_makes_it_worse(world: World, before: Snapshot, after: Snapshot, events: Sequence[Event]) -> None:
    """Compared with the books after the events alone, and those with the books before unless the world made it worse."""
    there = list(excesses(after))
    if not there:
        return
    known = {(each.invariant, each.of): each.excess for each in excesses(before)}
    if any(isinstance(event, _BY_THE_WORLD) for event in events):
        taken = before
        for event in events:
            taken, _ = _take_in(taken, Change(), event, world.now)
        known = {(each.invariant, each.of): each.excess for each in excesses(taken)}
    for each in there:
        if each.excess > known.get((each.invariant, each.of), 0):
            world.violations.append(f"a decision made it worse: {each}")


def _epochs_and_leases(world: World, before: Snapshot, after: Snapshot, change: Change) -> None:
    for key, lease in before.leases.items():
        later = after.leases.get(key)
        if later is None and not (key in change.leases and change.leases[key].is_over):
            world.violations.append(f"{key} has vanished")
        if later is not None and later.epoch < lease.epoch:
            world.violations.append(f"the epoch of {key} went back")
        if later is not None and _begins(lease, later) and later.epoch == lease.epoch:
            world.violations.append(f"{key} may start with an epoch of before")


def _begins(lease: Lease, later: Lease) -> bool:
    is_new = later.status is not lease.status and lease.status is not Status.MISSING
    return is_new and later.status in (Status.GRANTED, Status.RESUMING)


def _who_deserves_it_is_served(world: World, after: Snapshot) -> None:
    """I5, of the claim that is first in line: inside its fair share it neither fits nor finds whom to reclaim."""
    first = next((after.leases[key] for key in line(after)), None)
    if first is None or first.grants or first.not_before > world.now or first.reason in _SERVED:
        return
    if any(_leaves(after.leases[key]) for key in after.unsettled):
        # What leaves counts for nobody else yet, and may want to come back before others.
        return
    situation = look(after, world.now)
    if not situation.has_inside(first) or not situation.is_within_limit(first) or _is_over_quota(after, first):
        return
    if situation.place_now(first) is not None or _finds_whom_to_reclaim(situation, first):
        world.violations.append(f"I5: {first.id} could be served, and is not: {first.reason}")


def _finds_whom_to_reclaim(situation: Situation, claim: Lease) -> bool:
    """Above their fair share; for a session, which the caller knows to be inside its quota, above min(quota, demand)."""
    if plan_reclaim(situation, claim) is not None:
        return True
    # While it is only for a minimum turn that nobody above its fair share goes, nobody inside its own does.
    is_soon = not claim.is_session or plan_reclaim(situation, claim, whose_turn_is_over=False) is not None
    return not is_soon and plan_reclaim(situation, claim, Bound.DESERVED) is not None


def _leaves(lease: Lease) -> bool:
    is_leaving = lease.target is Target.ENDED or lease.status in (Status.PARKING, Status.YIELDING)
    return lease.is_resident and (is_leaving or lease.is_called)


def _is_over_quota(snapshot: Snapshot, claim: Lease) -> bool:
    """Whether a quota that shrank after it was admitted keeps a session waiting."""
    books, project = snapshot.project_books[claim.project], snapshot.projects[claim.project]
    return claim.is_session and books.sessions + demand_of(claim, snapshot.devices) > project.quota
