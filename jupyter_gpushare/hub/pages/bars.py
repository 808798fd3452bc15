"""Devices as bars of shares: what each part of a device is for now. Anonymous: no name is in a bar."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.hub.pages.wording import gpus
from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.lease import Status
from jupyter_gpushare.rules.snapshot import DeviceBooks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jupyter_gpushare.rules.capacity import GpuDevice
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["WORDS", "Bar", "Part", "Use", "bar_of", "sum_of"]


class Use(StrEnum):
    """What a part of a device is for, in the order in which it is drawn."""

    RUNNING = "run"
    MOVING = "move"
    PARKED = "park"
    LENT = "lent"
    TRAINING = "train"
    FOREIGN = "foreign"
    FREE = "free"


WORDS: Final = {
    Use.RUNNING: "notebook",
    Use.MOVING: "about to change",
    Use.PARKED: "parked, kept for its owner",
    Use.LENT: "lent",
    Use.TRAINING: "training",
    Use.FOREIGN: "programs without a share",
    Use.FREE: "free",
}
_ORDER: Final = {use: place for place, use in enumerate(Use)}
_MOVING: Final = frozenset({Status.PARKING, Status.RESUMING, Status.YIELDING})


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a bar: *width* is in per cent of the bar."""

    use: Use
    millionths: int
    width: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """One device, or several together: *text* says in words what *parts* show."""

    parts: tuple[Part, ...]
    text: str


def bar_of(books: Snapshot, device: GpuDevice) -> Bar:
    """The bar of *device*: a part for each lease and use, widest first, then what is left."""
    there = [books.leases[key] for key in sorted(books.device_books.get(device.uuid, DeviceBooks()).leases)]
    parts = [part for lease in there for part in _parts(lease, device.uuid, there)]
    parts.sort(key=lambda part: (_ORDER[part.use], -part.millionths))
    if device.foreign:
        parts.append(Part(Use.FOREIGN, device.foreign.millionths))
    whole = Fraction.PER_GPU if device.condition != "gone" else 0
    return _drawn(parts, whole)


def sum_of(bars: Sequence[Bar]) -> Bar:
    """Several devices as one bar: one part for each use."""
    sums = dict.fromkeys(Use, 0)
    for bar in bars:
        for part in bar.parts:
            sums[part.use] += part.millionths
    free = sums.pop(Use.FREE)
    parts = [Part(use, amount) for use, amount in sums.items() if amount]
    return _drawn(parts, sum(part.millionths for part in parts) + free)


def _parts(lease: Lease, uuid: str, there: Iterable[Lease]) -> Iterable[Part]:
    amount = sum(grant.amount.millionths for grant in lease.grants if grant.device == uuid)
    if lease.is_resident:
        lent = sum(loan.amount.millionths for loan in lease.loans if loan.device == uuid)
        own = Use.RUNNING if lease.is_session else Use.TRAINING
        is_moving = lease.status in _MOVING or lease.is_called or lease.status is Status.MISSING
        if amount > lent:
            yield Part(Use.MOVING if is_moving else own, amount - lent)
        if lent:
            yield Part(Use.MOVING if is_moving else Use.LENT, lent)
    elif lease.is_promised:
        used = sum(_lent_by(lease, other, uuid) for other in there)
        if amount > used:
            yield Part(Use.PARKED, amount - used)


def _lent_by(lender: Lease, borrower: Lease, uuid: str) -> int:
    if not borrower.is_resident:
        return 0
    return sum(loan.amount.millionths for loan in borrower.loans if loan.lender == lender.id and loan.device == uuid)


def _drawn(parts: Sequence[Part], whole: int) -> Bar:
    """*parts* of *whole*, in millionths of a GPU; what is over-committed is drawn narrower, all in proportion."""
    used = sum(part.millionths for part in parts)
    scale = max(used, whole, 1)
    free = [Part(Use.FREE, whole - used)] if whole > used else []
    shown = tuple(Part(each.use, each.millionths, _width(each.millionths, scale)) for each in (*parts, *free))
    return Bar(shown, _text(shown))


def _width(amount: int, scale: int) -> str:
    return f"{amount * 100 / scale:.2f}".rstrip("0").rstrip(".")


def _text(parts: Iterable[Part]) -> str:
    sums: dict[Use, int] = {}
    for part in parts:
        sums[part.use] = sums.get(part.use, 0) + part.millionths
    return ", ".join(f"{WORDS[use]} {gpus(Fraction(amount))}" for use, amount in sums.items()) or "nothing there"
