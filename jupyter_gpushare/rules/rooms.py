"""How much room each device has, for whom, now and once those that are leaving have left.

All amounts are millionths of a GPU: these sums are made for every device in every decision.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, Self

from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.lease import Loan, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from jupyter_gpushare.rules.layout import Layout, Site
    from jupyter_gpushare.rules.lease import Lease

__all__ = ["Part", "Placement", "Rooms", "View"]

# Below zero by more than can come free on any device.
_NO_ROOM: Final = -1_000 * Fraction.PER_GPU


@dataclass(frozen=True, slots=True)
class Part:
    """What a claim gets of one device: *amount*, of which *lent* is on loan."""

    device: str
    amount: int
    lent: int = 0


Placement = tuple[Part, ...]


class View(Enum):
    """Which room counts."""

    #: What a session can have now.
    SESSION = auto()
    #: What a session can have once those that are leaving have left.
    SESSION_SOON = auto()
    #: What a job can have now without a loan.
    OWN = auto()
    #: What a job can have without a loan once those that are leaving have left.
    OWN_SOON = auto()
    #: What a job can have now, loans included.
    WITH_LOANS = auto()


@dataclass(slots=True)
class Rooms:
    """A working copy for one decision: what is given or kept for one claim, the next does not see.

    Attributes:
        layout: which devices take something new; no other has a room.
        own: neither held nor promised: what a session or a job can have for itself. Negative where too much is given.
        own_soon: what of it comes from those that are leaving.
        free: not held; less what is kept for parked sessions that are on their way back.
        free_soon: what of it comes from those that are leaving.
        offers: what parked sessions lend, longest parked first; only where there is something.
        lent: the sum of the offers.
        promises: what may still be promised to sessions, where that differs from `own` (``best-effort``).
        left: what is `own` on each site: how full it is.
        open: the devices where something was `own` when the decision began. Not to be changed.
        foreign: what is foreign, where something is. Not to be changed.
    """

    layout: Layout
    own: dict[str, int] = field(default_factory=dict)
    free: dict[str, int] = field(default_factory=dict)
    offers: dict[str, tuple[Loan, ...]] = field(default_factory=dict)
    lent: dict[str, int] = field(default_factory=dict)
    promises: dict[str, int] = field(default_factory=dict)
    left: dict[Site, int] = field(default_factory=dict)
    own_soon: dict[str, int] = field(default_factory=dict)
    free_soon: dict[str, int] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    foreign: dict[str, int] = field(default_factory=dict)

    def copy(self) -> Self:
        """An independent copy, to try something out."""
        return type(self)(
            self.layout,
            self.own.copy(),
            self.free.copy(),
            self.offers.copy(),
            self.lent.copy(),
            self.promises.copy(),
            self.left.copy(),
            self.own_soon.copy(),
            self.free_soon.copy(),
            self.open,
            self.foreign,
        )

    def without(self, devices: Iterable[str]) -> Self:
        """A copy in which *devices* have no room for anybody."""
        rooms = self.copy()
        for uuid in rooms.own.keys() & set(devices):
            rooms.own[uuid] = rooms.free[uuid] = _NO_ROOM
        return rooms

    def room(self, view: View) -> Callable[[str], int]:
        """How much room a device has, by its UUID."""
        match view:
            case View.SESSION:
                return self._for_session
            case View.SESSION_SOON:
                return self._for_session_soon
            case View.OWN:
                return self._own
            case View.OWN_SOON:
                return self._own_soon
            case View.WITH_LOANS:
                return self._with_loans

    def devices(self, view: View) -> Iterator[str]:
        """All devices that may have room, and perhaps some that have none."""
        more: Iterable[str] = ()
        if view is View.WITH_LOANS:
            more = self.lent
        elif view is View.OWN_SOON:
            more = self.own_soon
        elif view is View.SESSION:
            more = self.promises
        elif view is View.SESSION_SOON:
            more = {**self.own_soon, **self.promises}
        yield from self.open
        for uuid in more:
            if uuid not in self.open:
                yield uuid

    def _for_session(self, device: str) -> int:
        if device in self.promises:
            return min(self.promises[device], self.free.get(device, 0))
        return self.own.get(device, 0)

    def _for_session_soon(self, device: str) -> int:
        if device in self.promises:
            return min(self.promises[device], self.free.get(device, 0) + self.free_soon.get(device, 0))
        return self._own_soon(device)

    def _own(self, device: str) -> int:
        return self.own.get(device, 0)

    def _own_soon(self, device: str) -> int:
        return self.own.get(device, 0) + self.own_soon.get(device, 0)

    def _with_loans(self, device: str) -> int:
        return min(max(0, self.own.get(device, 0)) + self.lent.get(device, 0), self.free.get(device, 0))

    def release(self, lease: Lease, sign: int = 1) -> None:
        """Count on *lease* to leave; with *sign* -1, no more."""
        stays_promised = lease.is_session and lease.status is Status.PARKING
        for device, (amount, lent) in _amounts(lease).items():
            if device in self.own:
                self.free_soon[device] = self.free_soon.get(device, 0) + sign * amount
                own = 0 if stays_promised else amount - lent
                self.own_soon[device] = self.own_soon.get(device, 0) + sign * own

    def keep(self, placement: Placement) -> None:
        """Keep room for a claim that waits: of what comes soon where there is some, for others can use the rest now."""
        for part in placement:
            soon = min(max(0, self.own_soon.get(part.device, 0)), part.amount)
            if soon:
                self.own_soon[part.device] -= soon
            self._give(part.device, part.amount - soon)
            soon = min(max(0, self.free_soon.get(part.device, 0)), part.amount)
            if soon:
                self.free_soon[part.device] -= soon
            self.free[part.device] -= part.amount - soon
            if part.device in self.promises:
                self.promises[part.device] -= part.amount

    def take(self, placement: Placement, *, is_session: bool) -> tuple[Loan, ...]:
        """Give these parts away now; the loans that they stand on."""
        made: list[Loan] = []
        for part in placement:
            self._give(part.device, part.amount - part.lent)
            self.free[part.device] -= part.amount
            if is_session and part.device in self.promises:
                self.promises[part.device] -= part.amount
            if part.lent:
                loans = _choose(self.offers[part.device], part.lent)
                self.offers[part.device] = _without(self.offers[part.device], loans)
                self.lent[part.device] -= part.lent
                made += loans
        return tuple(made)

    def _give(self, device: str, amount: int) -> None:
        self.own[device] -= amount
        self.left[self.layout.site_of[device]] -= amount


def _amounts(lease: Lease) -> dict[str, tuple[int, int]]:
    """What it has of each device, and how much of that is lent."""
    amounts: dict[str, tuple[int, int]] = {}
    for grant in lease.grants:
        amounts[grant.device] = (amounts.get(grant.device, (0, 0))[0] + grant.amount.millionths, 0)
    for loan in lease.loans:
        if loan.device in amounts:
            amount, lent = amounts[loan.device]
            amounts[loan.device] = (amount, lent + loan.amount.millionths)
    return amounts


def _choose(offers: tuple[Loan, ...], amount: int) -> list[Loan]:
    """Loans that come to *amount*: of the fewest lenders; among those, of the longest parked."""
    largest = sorted((offer.amount.millionths for offer in offers), reverse=True)
    most = next(n for n in range(1, len(largest) + 1) if sum(largest[:n]) >= amount)
    chosen: list[Loan] = []
    for place, offer in enumerate(offers):
        there = offer.amount.millionths
        others = sorted((later.amount.millionths for later in offers[place + 1 :]), reverse=True)
        if len(chosen) < most and there + sum(others[: most - len(chosen) - 1]) >= amount:
            chosen.append(Loan(offer.lender, offer.device, Fraction(min(there, amount))))
            amount -= min(there, amount)
        if not amount:
            break
    return chosen


def _without(offers: tuple[Loan, ...], loans: list[Loan]) -> tuple[Loan, ...]:
    gone = {loan.lender: loan.amount for loan in loans}
    left = (Loan(offer.lender, offer.device, offer.amount - gone.get(offer.lender, Fraction.ZERO)) for offer in offers)
    return tuple(offer for offer in left if offer.amount)
