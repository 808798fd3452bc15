"""Serves waiting claims: grants, refuses, makes room, and says why the rest waits (DESIGN 5, rules 1-4)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.admission import could_ever_be_held, is_known, over_limits, refusal
from jupyter_gpushare.rules.audit import entry
from jupyter_gpushare.rules.change import Change, Entry, Verb
from jupyter_gpushare.rules.copies import Slots, host_of
from jupyter_gpushare.rules.lease import Grant, Lease, Status, Target
from jupyter_gpushare.rules.obstacles import why_inside, why_outside
from jupyter_gpushare.rules.queue_order import Line, ProjectLines, claim_order, queue_of
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.resuming import resume
from jupyter_gpushare.rules.rooms import View
from jupyter_gpushare.rules.situation import Situation, look
from jupyter_gpushare.rules.stepping_aside import is_to_step_aside, place_on_loan, step_aside
from jupyter_gpushare.rules.ways import find_way, plan_around
from jupyter_gpushare.rules.yielding import call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from jupyter_gpushare.rules.queue_order import Queue
    from jupyter_gpushare.rules.reclaim import Plan
    from jupyter_gpushare.rules.resting import Group, Resting
    from jupyter_gpushare.rules.rooms import Placement
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["serve_claims"]

#: A claim that waits for one of these says nothing about others like it; after any other reason none of them fits.
_OF_ITS_OWN: Final = frozenset(
    {
        None,
        Reason.WAITING_FOR_CALL_BACK,
        Reason.WAITING_FOR_BACK_OFF,
        Reason.WAITING_FOR_COPIES,
        Reason.EXCEEDS_PERSON_LIMIT,
        Reason.NOT_A_MEMBER,
        Reason.MOVED,
    }
)


def serve_claims(snapshot: Snapshot, now: float) -> Change:
    """Everything that is to be done about waiting claims now; nothing when they wait as they are to.

    First those for which room is being made already, so that nobody else takes it; then those inside their project's
    fair share, which reclaim what does not fit; then, on what is left over, the rest.
    """
    if not snapshot.waiting:
        return Change()
    situation, queue = look(snapshot, now), queue_of(snapshot)
    service = _Service(situation, queue, Slots(snapshot, now))
    service.refuse()
    service.serve_planned()
    service.serve_inside()
    service.serve_rest()
    queue.rest(service.stay_away)
    return service.change()


@dataclass(slots=True)
class _Service:
    """One round. What it gives to one claim, the next finds taken."""

    situation: Situation
    queue: Queue
    slots: Slots
    audit: list[Entry] = field(default_factory=list)
    served: set[str] = field(default_factory=set)
    rest: list[Line] = field(default_factory=list)
    resting: dict[str, Resting] = field(default_factory=dict)
    stay_away: list[Group] = field(default_factory=list)
    leaving_for: dict[str, list[Lease]] = field(default_factory=dict)
    new_sessions: defaultdict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))

    def change(self) -> Change:
        """All that it came to."""
        return Change(leases=self.situation.leases, audit=tuple(self.audit))

    # Who is refused

    def refuse(self) -> None:
        """Refuse new claims that can never be served. What was admitted once waits, whatever changes."""
        if not self.queue.fresh:
            return
        waiting: defaultdict[tuple[str, str], int] = defaultdict(int)
        known = {key for ids in self.queue.sessions() for _, key in ids} - self.queue.fresh
        for lease in self._leases(known):
            self._count_session(lease, waiting)
        for lease in sorted(self._leases(self.queue.fresh), key=claim_order):
            if lease.epoch == 0 and (reason := self._refusal(lease, waiting)) is not None:
                self._fail(lease, reason)
            else:
                self._count_session(lease, waiting)

    def _leases(self, ids: set[str] | frozenset[str]) -> Iterator[Lease]:
        return (self.situation.snapshot.leases[key] for key in ids)

    def _count_session(self, lease: Lease, waiting: defaultdict[tuple[str, str], int]) -> None:
        if lease.is_session:
            cost = self.situation.cost(lease)
            waiting[lease.project, ""] += cost
            waiting[lease.project, lease.person] += cost

    def _refusal(self, lease: Lease, waiting: defaultdict[tuple[str, str], int]) -> Reason | None:
        snapshot, layout = self.situation.snapshot, self.situation.rooms.layout
        cost = Fraction(self.situation.cost(lease))
        leaving = [each for each in self.situation.leavers if each.project == lease.project and each.is_promised]
        together = waiting[lease.project, ""] - _sum(leaving)
        person = waiting[lease.project, lease.person] - _sum(each for each in leaving if each.person == lease.person)
        reason = refusal(snapshot, lease, cost, (Fraction(together), Fraction(person)))
        is_hopeless = not layout.fitting(lease.share, lease.pool).sites and not could_ever_be_held(snapshot, lease)
        return Reason.NO_SUCH_DEVICE if reason is None and is_hopeless else reason

    def _fail(self, lease: Lease, reason: Reason) -> None:
        after = lease.enter(Status.FAILED, self.situation.now, reason=reason)
        self.situation.leases[lease.id] = after
        self.served.add(lease.id)
        self.audit.append(entry(after, Verb.REFUSED, self.situation.now))

    # Who is served, in which order

    def serve_planned(self) -> None:
        """Go on with what was decided before: the largest first, as it is the hardest to place anew."""
        if not self.queue.planned and not self.situation.leavers:
            return
        for lease in self.situation.leavers:
            self.leaving_for.setdefault(lease.because_of, []).append(lease)
        snapshot = self.situation.snapshot
        for lease in sorted(self._leases(self.queue.planned - self.served), key=self._size):
            if lease.reason is Reason.WAITING_FOR_CALL_BACK and self.situation.has_inside(lease):
                self._go_on(lease)
        moved = [lease for lease in self.situation.leavers if lease.reason is Reason.MOVED]
        moved += [snapshot.leases[key] for key in self.queue.planned if snapshot.leases[key].reason is Reason.MOVED]
        for lease in sorted(moved, key=self._size):
            if lease.id not in snapshot.waiting:
                self._foresee(lease)
            elif lease.id not in self.served:
                self._go_on(lease)

    def _size(self, lease: Lease) -> tuple[int, float, str]:
        return -self.situation.cost(lease), lease.submitted, lease.id

    def _go_on(self, lease: Lease) -> None:
        if (obstacle := self._obstacle(lease)) is not None:
            self._explain(lease, obstacle)
        elif (placement := self.situation.place_now(lease)) is not None:
            self._grant(lease, placement)
        elif (placement := self._where_room_is_made(lease) or self.situation.place_soon(lease)) is not None:
            self._keep(lease, placement)
        elif not self._goes_around(lease):
            return
        self.served.add(lease.id)

    def _goes_around(self, lease: Lease) -> bool:
        """Somebody in its way ignores the call: another one is called, or at least nobody slips into what there is."""
        situation = self.situation
        if not situation.ignoring:
            return False
        if lease.reason is Reason.WAITING_FOR_CALL_BACK and (plan := plan_around(situation, lease)) is not None:
            self._make_room(lease, plan)
        elif (placement := situation.place_late(lease)) is not None:
            self._keep(lease, placement)
        else:
            return False
        return True

    def _where_room_is_made(self, lease: Lease) -> Placement | None:
        """Its place where others leave for it: the same as when that was decided, and soon found."""
        site_of = self.situation.rooms.layout.site_of
        devices = (uuid for each in self.leaving_for.get(lease.id, ()) for uuid in each.devices)
        sites = dict.fromkeys(site_of[uuid] for uuid in devices if uuid in site_of)
        return self.situation.place_soon(lease, list(sites)) if sites else None

    def _foresee(self, lease: Lease) -> None:
        """Keep room for a job that has yet to leave where it is."""
        again = lease.evolve(grants=(), loans=())
        placement = self.situation.place_soon(again) or self.situation.place_late(again)
        if placement is not None and not lease.is_parkable and lease.target is Target.RUNNING:
            self.situation.rooms.keep(placement)
            self.situation.standing(lease).add(_size_of(placement))

    def serve_inside(self) -> None:
        """Serve claims inside their project's fair share; what is beyond it is left for `serve_rest`."""
        lines = ProjectLines(self.situation.standings)
        self.resting = {name: resting for name, resting in self.queue.resting.items() if resting}
        for group, ids in self.queue.awake.items():
            self._add(lines, Line(group, ids))
        for lease in self.situation.leavers:
            if lease.reason is Reason.RECLAIMED and not lease.is_session:
                lines.add(lease.project, claim_order(lease), lease)
        while (each := self._wake_inside(lines).pop()) is not None:
            if isinstance(each, Lease):
                self._foresee_deserved(each)
            elif self.situation.has_inside(self._first(each)):
                self._serve(each, lines, self._serve_one_inside)
            else:
                self.rest.append(each)

    def _wake_inside(self, lines: ProjectLines) -> ProjectLines:
        """Add what rests to *lines* where it may be inside its project's fair share after all."""
        for name, resting in list(self.resting.items()):
            if self.situation.standings[name].has_inside(resting.least, is_session=False):
                self._wake(lines, self.resting.pop(name).groups)
        return lines

    def _wake_on_room(self, lines: ProjectLines) -> None:
        """Add what rests to *lines* where a device has room."""
        rooms = self.situation.rooms
        for resting in self.resting.values():
            self._wake(lines, resting.on(rooms.open | rooms.lent.keys()))

    def _wake(self, lines: ProjectLines, groups: Iterable[Group]) -> None:
        for group in groups:
            self._add(lines, Line(group, self.queue.groups[group]))

    def serve_rest(self) -> None:
        """Serve claims above their project's fair share, with what nobody else can use."""
        lines = ProjectLines(self.situation.standings)
        self._wake_on_room(lines)
        for line in self.rest:
            if self._stays_away(line):
                self.stay_away.append(line.group)
            else:
                self._add(lines, line)
        while (each := lines.pop()) is not None:
            self._serve(each, lines, self._serve_one_outside)

    def _stays_away(self, line: Line) -> bool:
        """Whether these are parked jobs that all know that they wait for their device, and will this time, too.

        Most jobs that are parked are so in most rounds, and while the rest is served no device gets more room.
        """
        lease, situation = self._first(line), self.situation
        is_told = lease.reason is Reason.WAITING_FOR_SAME_DEVICE and len(self.queue.reasons[line.group]) == 1
        if not lease.grants or not is_told:
            return False
        is_free_to_wait = situation.standing(lease).has_no_limit and self._obstacle(lease) is None
        return is_free_to_wait and situation.place(lease, View.WITH_LOANS) is None

    def _add(self, lines: ProjectLines, line: Line) -> None:
        while line.first < len(line.ids) and line.ids[line.first][1] in self.served:
            line.first += 1
        if line.first < len(line.ids):
            lease = self._first(line)
            lines.add(lease.project, claim_order(lease), line)

    def _first(self, line: Line) -> Lease:
        return self.situation.snapshot.leases[line.ids[line.first][1]]

    def _serve(self, line: Line, lines: ProjectLines, serve: Callable[[Lease], Reason | None]) -> None:
        lease = self._first(line)
        reason = self._obstacle(lease) or serve(lease)
        self._explain(lease, reason)
        self.served.add(lease.id)
        if reason in _OF_ITS_OWN:
            self._add(lines, line)
            return
        self._explain_alike(line, reason)

    def _explain_alike(self, line: Line, reason: Reason | None) -> None:
        """All that are behind the first wait for the same *reason*, or for something of their own."""
        others = (ids for known, ids in self.queue.reasons[line.group].items() if known is not reason)
        for key in sorted(chain.from_iterable(others)):
            if key not in self.served:
                other = self.situation.snapshot.leases[key]
                self._explain(other, self._obstacle(other) or reason)

    def _foresee_deserved(self, lease: Lease) -> None:
        standing = self.situation.standing(lease)
        if standing.used < standing.deserved:
            self._foresee(lease)

    # What becomes of one claim

    def _obstacle(self, lease: Lease) -> Reason | None:
        """What keeps this very claim waiting, whatever is free."""
        situation = self.situation
        if lease.not_before > situation.now and lease.reason is not Reason.MOVED:
            return Reason.WAITING_FOR_BACK_OFF
        if (unknown := is_known(situation.snapshot, lease)) is not None:
            return unknown
        if not lease.is_session:
            return None if situation.is_within_limit(lease) else Reason.EXCEEDS_PROJECT_LIMIT
        project = situation.snapshot.projects[lease.project]
        new = (self.new_sessions[lease.project, ""], self.new_sessions[lease.project, lease.person])
        cost = situation.cost(lease)
        reason = over_limits(
            situation.snapshot, lease, project, Fraction(cost), waiting=(Fraction(new[0]), Fraction(new[1]))
        )
        is_over_soon = situation.standing(lease).sessions + cost > project.quota.millionths
        if reason is Reason.EXCEEDS_PROJECT_QUOTA and not is_over_soon:
            return Reason.WAITING_FOR_DEVICE
        return reason

    def _serve_one_inside(self, lease: Lease) -> Reason | None:
        situation = self.situation
        if situation.is_within_limit(lease):
            if self._begin(lease):
                return None if lease.id in situation.leases else Reason.WAITING_FOR_COPIES
            if (placement := situation.place_soon(lease)) is not None:
                return self._keep(lease, placement)
        plan = find_way(situation, lease)
        return why_inside(situation, lease) if plan is None else self._make_room(lease, plan)

    def _serve_one_outside(self, lease: Lease) -> Reason | None:
        if self._begin(lease):
            return None if lease.id in self.situation.leases else Reason.WAITING_FOR_COPIES
        return why_outside(self.situation, lease)

    def _begin(self, lease: Lease) -> bool:
        """Give it what is free now, or lent; a job above its project's quota goes out of others' way."""
        placement = self.situation.place_now(lease)
        if placement is None and not lease.is_session:
            placement = place_on_loan(self.situation, lease)
        if placement is None:
            return False
        if is_to_step_aside(self.situation, lease):
            placement = step_aside(self.situation, lease, placement, self._awaited())
        self._grant(lease, placement)
        return True

    def _awaited(self) -> set[str]:
        """The devices of parked jobs that would go on, had they room: what they were told may be out of date."""
        leases, given = self.situation.snapshot.leases, self.situation.leases
        told = (leases[key] for key in self.queue.awaited() if key not in given)
        return {uuid for lease in told if self._obstacle(lease) is None for uuid in lease.devices}

    def _keep(self, lease: Lease, placement: Placement) -> Reason:
        self.situation.rooms.keep(placement)
        self.situation.standing(lease).add(_size_of(placement), is_session=lease.is_session)
        return Reason.WAITING_FOR_CALL_BACK

    def _make_room(self, lease: Lease, plan: Plan) -> Reason:
        """Call those that are in the way. They begin to yield as their hosts can take it."""
        for reason, leases in ((Reason.RECLAIMED, plan.reclaimed), (Reason.MOVED, plan.moved)):
            for each in leases:
                self.situation.release(each)
                self.situation.standing(each).add(-each.amount.millionths, lent=-each.lent.millionths)
                self.situation.leases[each.id] = call(each, reason, lease.id)
        self._keep(lease, plan.placement)
        for each in sorted(plan.moved, key=self._size):
            self._foresee(each)
        return plan.reason

    def _grant(self, lease: Lease, placement: Placement) -> None:
        """Give it *placement*; a parked job waits with it while its host copies for others."""
        situation = self.situation
        loans = situation.rooms.take(placement, is_session=lease.is_session)
        lent = sum(part.lent for part in placement)
        situation.standing(lease).add(_size_of(placement), lent=lent, is_session=lease.is_session)
        if lease.is_session:
            self.new_sessions[lease.project, ""] += _size_of(placement)
            self.new_sessions[lease.project, lease.person] += _size_of(placement)
        if lease.status is Status.PARKED and not self._takes_slots(lease):
            return
        grants = tuple(Grant(part.device, Fraction(part.amount)) for part in placement)
        given = lease.evolve(grants=grants, loans=loans, turn_began=situation.now, reason=None, because_of="")
        after, verb = self._begun(given)
        situation.leases[lease.id] = after
        self.audit.append(entry(after, verb, situation.now))

    def _begun(self, given: Lease) -> tuple[Lease, Verb]:
        if given.status is Status.PARKED:
            return resume(self.situation.snapshot, given, self.situation.now), Verb.RESUMING
        # What an earlier program of it held says nothing about the one that starts now.
        begun = given.enter(Status.GRANTED, self.situation.now, epoch=given.epoch + 1, deadline=None, uses=None)
        return begun, Verb.GRANTED

    def _takes_slots(self, lease: Lease) -> bool:
        host, devices, slots = host_of(self.situation.snapshot, lease), lease.devices, self.slots
        return slots.has_tokens(devices) and slots.take_copy(host) and slots.take_tokens(devices)

    def _explain(self, lease: Lease, reason: Reason | None) -> None:
        if reason is not None and reason is not lease.reason:
            self.situation.leases[lease.id] = lease.evolve(reason=reason)


def _size_of(placement: Placement) -> int:
    return sum(part.amount for part in placement)


def _sum(leases: Iterator[Lease] | list[Lease]) -> int:
    return sum(lease.amount.millionths for lease in leases)
