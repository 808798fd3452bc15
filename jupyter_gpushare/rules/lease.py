"""One recorded claim: where it is, where it should be, and what it stands on (DESIGN 6)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Self

from jupyter_gpushare.quantity import Fraction, Memory
from jupyter_gpushare.rules.reason import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from jupyter_gpushare.share import Share

__all__ = ["CALLS", "RESIDENT", "Grant", "Hold", "Kind", "Lease", "Loan", "Status", "Target"]


class Kind(StrEnum):
    """Who holds it."""

    #: One notebook server. Never taken by another project.
    INTERACTIVE = "interactive"
    #: A job of `jupyter gpushare run`. May go over quota, may be reclaimed.
    TRAINING = "training"


class Status(StrEnum):
    """Where a lease is. Only the reconciler writes it."""

    #: Waits for capacity. A job that had yielded waits here too.
    QUEUED = "queued"
    #: Has its devices; its holder has not said yet that it runs.
    GRANTED = "granted"
    RUNNING = "running"
    #: Its holder moves its GPU state to host memory; ends when the release is attested.
    PARKING = "parking"
    #: Nothing of it is on a device. A session keeps its promise there; a job keeps none and waits for its devices.
    PARKED = "parked"
    #: May restore, with this epoch: the broker has made room.
    RESUMING = "resuming"
    #: Gives up its capacity, to wait again or, with target ended, for good; ends when the release is attested.
    YIELDING = "yielding"
    #: Its holder has vanished. What it held stays quarantined until the device shows it free.
    MISSING = "missing"
    ENDED = "ended"
    FAILED = "failed"


class Target(StrEnum):
    """Where a lease should be. Requests, timers, heartbeats and admins write it."""

    RUNNING = "running"
    PARKED = "parked"
    ENDED = "ended"


#: Something of it may be on its devices: its requests count there (invariant I1).
RESIDENT: Final = frozenset(
    {Status.GRANTED, Status.RUNNING, Status.PARKING, Status.RESUMING, Status.YIELDING, Status.MISSING}
)
_OVER: Final = frozenset({Status.ENDED, Status.FAILED})
#: For these a lease is called upon to give up what it has: on one that is granted, resuming or running, it is to yield
#: as soon as its host takes another copy or save.
CALLS: Final = frozenset({Reason.CALLED_BACK, Reason.RECLAIMED, Reason.MOVED, Reason.DRAINED, Reason.DEVICE_GONE})
_CALLABLE: Final = frozenset({Status.GRANTED, Status.RESUMING, Status.RUNNING})


@dataclass(frozen=True, slots=True)
class Grant:
    """A part of one device that a lease may use, or is promised while it is parked."""

    device: str
    amount: Fraction


@dataclass(frozen=True, slots=True)
class Loan:
    """How much of a borrower's grant on *device* is promised to the parked session *lender*."""

    lender: str
    device: str
    amount: Fraction


@dataclass(frozen=True, slots=True)
class Hold:
    """How a claim is kept that nobody is connected for: *until* when, and whether its server *is_starting* already."""

    until: float
    is_starting: bool = False


def _sum_of(parts: tuple[Grant, ...] | tuple[Loan, ...]) -> Fraction:
    """All of *parts*. Asked for at every turn, and most holders have a part of one device."""
    if len(parts) == 1:
        return parts[0].amount
    return Fraction(sum([part.amount.millionths for part in parts])) if parts else Fraction.ZERO


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """One holder's claim and what has become of it. Immutable: a transition makes a new one.

    Attributes:
        id: unique for ever.
        kind: a session or a job.
        project: whose quota it counts against.
        person: who asked.
        name: what people call it.
        key: the holder's own name for it: the same person's same key means the same lease.
        share: what is asked for.
        pool: in which pool; any when empty.
        submitted: when it was first asked for, seconds since the epoch; being reclaimed does not change it.
        status: where it is; *since* when.
        target: where it should be.
        epoch: the fencing epoch; grows with every grant and resume, and when a holder could not do what was asked. One
            with an older epoch must not start, restore or park.
        grants: what it has on each of its devices, all on one host; empty while it waits. A parked session keeps them,
            as its promise; a parked job keeps them too, to know where its state belongs, and has no claim on them.
        loans: which part of its grants belongs to parked sessions. The rest counts for its project.
        bursts: memory above the request that it may use now; each is called back at any time.
        burst_loans: which part of the bursts is promised to others.
        is_parkable: whether it can be parked: a session that may be, a job that offers safe points.
        host_memory: booked for its parked copy on the host of its grants.
        spread_group: leases of one group are kept apart where there is a choice (placement ``spread``).
        grace_s: what it gets to save itself; None leaves it to the pool.
        start_cost_s: what its start and its park cost, in seconds of computing.
        turn_began: when it got what it has; the minimum turn counts from here.
        turns_lost: how often it was called back or reclaimed.
        most_turns_lost: after how many it ends with a failure; None never.
        not_before: back-off: not granted earlier than this.
        reason: why it waits, was refused, failed or yields.
        because_of: the lease for which it yields.
        deadline: until when its holder must have done what the status says.
        was: the status before it was missing.
        wanted_since: of a parked session: since when it is wanted back, which is its place among those; None while it
            is not.
        idle_since: since when the holder has evidence that it computes nothing; None while it does, or where that
            cannot be told.
        uses: what the devices showed that it holds while it runs, about; None where they have not. Not kept for long:
            a ledger forgets it, and the next look at the devices tells it anew.
        hold: of a claim whose holder has never been there: how it is kept without; None from its first hello on.
    """

    id: str
    kind: Kind
    project: str
    person: str
    name: str
    share: Share
    submitted: float
    since: float
    key: str = ""
    pool: str = ""
    status: Status = Status.QUEUED
    target: Target = Target.RUNNING
    epoch: int = 0
    grants: tuple[Grant, ...] = ()
    loans: tuple[Loan, ...] = ()
    bursts: tuple[Grant, ...] = ()
    burst_loans: tuple[Loan, ...] = ()
    is_parkable: bool = False
    host_memory: Memory = Memory.ZERO
    spread_group: str = ""
    grace_s: float | None = None
    start_cost_s: float = 0.0
    turn_began: float = 0.0
    turns_lost: int = 0
    most_turns_lost: int | None = None
    not_before: float = 0.0
    reason: Reason | None = None
    because_of: str = ""
    deadline: float | None = None
    was: Status | None = None
    wanted_since: float | None = None
    idle_since: float | None = None
    uses: Memory | None = None
    hold: Hold | None = None

    @property
    def is_session(self) -> bool:
        """Whether a notebook server holds it."""
        return self.kind is Kind.INTERACTIVE

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is left."""
        return self.status in _OVER

    @property
    def is_resident(self) -> bool:
        """Whether something of it may be on its devices. A missing one that was parked or waited is not."""
        if self.status is Status.MISSING:
            return self.was in RESIDENT
        return self.status in RESIDENT

    @property
    def is_waiting(self) -> bool:
        """Whether it wants capacity and has none: a queued claim, a parked job that is to run."""
        if self.target is not Target.RUNNING:
            return False
        return self.status is Status.QUEUED or (self.status is Status.PARKED and not self.is_session)

    @property
    def is_promised(self) -> bool:
        """Whether its grants are kept for it also while nothing of it is there: an admitted session's."""
        return self.is_session and bool(self.grants) and not self.is_over

    @property
    def is_called(self) -> bool:
        """Whether it is to yield and has not begun to."""
        return self.reason in CALLS and self.status in _CALLABLE

    @property
    def can_be_called(self) -> bool:
        """Whether it has something that it can be called upon to give up, and has not been."""
        return self.status in _CALLABLE and self.target is Target.RUNNING and not self.is_called

    @property
    def is_unsettled(self) -> bool:
        """Whether it is on its way somewhere. A settled one, or a claim that waits, changes by events alone."""
        if self.status is Status.RUNNING:
            return self.target is not Target.RUNNING or self.is_called
        if self.status is Status.PARKED:
            return self.target is Target.ENDED or (self.is_session and self.target is Target.RUNNING)
        if self.status is Status.QUEUED:
            return self.target is Target.ENDED
        return not self.is_over

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices it has, is promised, or is parked from."""
        return tuple(grant.device for grant in self.grants)

    @property
    def amount(self) -> Fraction:
        """All that it has of its devices, in GPUs."""
        return _sum_of(self.grants)

    @property
    def lent(self) -> Fraction:
        """The part of `amount` that is lent to it."""
        return _sum_of(self.loans)

    def evolve(self, **changes: Any) -> Self:
        """A copy with these *changes*.

        As `dataclasses.replace`, in a third of the time: every decision makes several.

        Raises:
            KeyError: names a field that a lease does not have.
        """
        made = object.__new__(type(self))
        for set_one, value in zip(_SETTERS.values(), _VALUES(self), strict=True):
            set_one(made, value)
        for name, value in changes.items():
            _SETTERS[name](made, value)
        return made

    def enter(self, status: Status, now: float, **changes: Any) -> Self:
        """A copy in *status* since *now*; entering the status it is in keeps since when."""
        since = self.since if status is self.status else now
        return self.evolve(status=status, since=since, **changes)


_NAMES: Final = tuple(each.name for each in fields(Lease))
_VALUES: Final = attrgetter(*_NAMES)
_SETTERS: Final[Mapping[str, Callable[[Lease, Any], None]]] = {name: getattr(Lease, name).__set__ for name in _NAMES}
