"""The one entrance: events go in, the next books and what changed come out. No I/O, no clock, replayable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.rules import event as events_of
from jupyter_gpushare.rules.best_effort import take_turns
from jupyter_gpushare.rules.bursts import settle_bursts
from jupyter_gpushare.rules.change import Change
from jupyter_gpushare.rules.claims import serve_claims
from jupyter_gpushare.rules.deadlines import ask_again, outage_over
from jupyter_gpushare.rules.drain import drained, leave_gone
from jupyter_gpushare.rules.ending import end_leases
from jupyter_gpushare.rules.holding import held, let_go
from jupyter_gpushare.rules.host_memory import using
from jupyter_gpushare.rules.inventory import host_seen, inventory, policy_set
from jupyter_gpushare.rules.looking import look_again
from jupyter_gpushare.rules.missing import returned, vanished
from jupyter_gpushare.rules.over_commitment import marked
from jupyter_gpushare.rules.parking_requests import begin_parks
from jupyter_gpushare.rules.people import groups_known, member_set, quota_set
from jupyter_gpushare.rules.reports import attested, could_not, loss_announced, running
from jupyter_gpushare.rules.resuming import resume_sessions
from jupyter_gpushare.rules.share_changes import change_share
from jupyter_gpushare.rules.stepping_back import step_back
from jupyter_gpushare.rules.wishes import busy_or_idle, over_use, parkable, reclaimed, submitted, switch_parking, wanted
from jupyter_gpushare.rules.yielding import begin_yields

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from jupyter_gpushare.rules.event import Event
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["DECISIONS", "Step", "step"]

#: What each event does to the books.
_EFFECTS: Final[Mapping[type, Callable[[Snapshot, Any, float], Change]]] = {
    events_of.Submitted: submitted,
    events_of.Held: held,
    events_of.LetGo: let_go,
    events_of.Wanted: wanted,
    events_of.Running: running,
    events_of.Idle: busy_or_idle,
    events_of.OverUse: over_use,
    events_of.Using: using,
    events_of.Parkable: parkable,
    events_of.ShareChanged: change_share,
    events_of.CouldNot: could_not,
    events_of.Attested: attested,
    events_of.LossAnnounced: loss_announced,
    events_of.Vanished: vanished,
    events_of.Returned: returned,
    events_of.Reclaimed: reclaimed,
    events_of.Inventory: inventory,
    events_of.HostSeen: host_seen,
    events_of.Drained: drained,
    events_of.PolicySet: policy_set,
    events_of.GroupsKnown: groups_known,
    events_of.MemberSet: member_set,
    events_of.QuotaSet: quota_set,
    events_of.ParkingSwitched: switch_parking,
    events_of.OutageOver: outage_over,
    events_of.TimePassed: lambda _snapshot, _event, _now: Change(),
}
#: What is decided, in turn, until nobody has anything more to decide: who leaves, who comes back, who yields and parks,
#: who comes. Claims come late, because they are the dearest to look at and all the others alter what they find.
DECISIONS: Final[tuple[Callable[[Snapshot, float], Change], ...]] = (
    end_leases,
    leave_gone,
    step_back,
    resume_sessions,
    begin_yields,
    begin_parks,
    ask_again,
    take_turns,
    serve_claims,
)
# Each decision moves some lease on; far more of them than leases have statuses mean that two undo each other.
_MOST_DECISIONS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Step:
    """The books after it; what changed, to be kept before anything is said or done about it.

    *look_again* is the earliest time at which time alone may change something; None when it cannot.
    """

    snapshot: Snapshot
    change: Change
    look_again: float | None


def step(snapshot: Snapshot, events: Iterable[Event], now: float) -> Step:
    """Take in *events*, one after the other, and decide until there is nothing left to decide.

    Events of the past are harmless: one that is repeated, stale (its epoch is over) or about an unknown lease changes
    nothing but, where somebody may want to know, the audit.

    Raises:
        RuntimeError: two decisions undo each other for ever: a mistake in the rules. Nothing is changed.
    """
    before = snapshot
    snapshot, change = _take_all_in(snapshot, tuple(events), now)
    snapshot, change = _settle(before, *_decide(snapshot, change, now), now)
    return Step(snapshot, change, look_again(snapshot, now))


def _settle(before: Snapshot, snapshot: Snapshot, change: Change, now: float) -> tuple[Snapshot, Change]:
    """Let bursts grow and shrink, last of all.

    A burst counts in what its host may have to take in, so who was to park there may have to save itself instead.
    """
    for _ in range(_MOST_DECISIONS):
        made = settle_bursts(snapshot, _touched(before, snapshot, change), now)
        if not made:
            return snapshot, change
        snapshot, change = _decide(snapshot.with_change(made), change.then(made), now)
    raise RuntimeError("the rules come to no end: bursts and decisions undo each other")


def _touched(before: Snapshot, after: Snapshot, change: Change) -> set[str]:
    """The devices on which *change* altered something that bursts depend on."""
    if change.pools or change.hosts or change.is_parking_stopped is not None:
        return set(after.devices)
    touched = set(change.devices)
    for key in change.leases:
        for books in (before, after):
            lease = books.leases.get(key)
            if lease is not None:
                touched.update(lease.devices)
    return touched


def _take_all_in(snapshot: Snapshot, events: Sequence[Event], now: float) -> tuple[Snapshot, Change]:
    change = Change()
    if len(events) > 1:
        snapshot = snapshot.opened()
    for event in events:
        snapshot, change = _take_in(snapshot, change, event, now)
    return snapshot.closed(), change


def _take_in(snapshot: Snapshot, change: Change, event: Event, now: float) -> tuple[Snapshot, Change]:
    made = _EFFECTS[type(event)](snapshot, event, now)
    if not made:
        return snapshot, change
    after = snapshot.with_change(made)
    return after, change.then(made).then(Change(audit=marked(snapshot, after, made, now)))


def _decide(snapshot: Snapshot, change: Change, now: float) -> tuple[Snapshot, Change]:
    """Decide in turn until all, one after the other, have nothing to add."""
    quiet = 0
    for number in range(_MOST_DECISIONS):
        made = DECISIONS[number % len(DECISIONS)](snapshot, now)
        if made:
            snapshot, change, quiet = snapshot.with_change(made), change.then(made), 0
        else:
            quiet += 1
        if quiet >= len(DECISIONS):
            return snapshot, change
    raise RuntimeError(f"the rules come to no end; among the last that changed are {sorted(change.leases)[:5]}")
