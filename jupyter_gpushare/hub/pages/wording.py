"""Numbers and times in the words of all our surfaces: a dash for what is not known, never 0 for it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from markupsafe import Markup, escape

from jupyter_gpushare.quantity import Fraction, Memory

if TYPE_CHECKING:
    from jupyter_gpushare.broker.wire import LeaseModel

__all__ = [
    "UNKNOWN",
    "about",
    "clock",
    "gpus",
    "hours",
    "in_line",
    "memory",
    "number_of",
    "per_cent",
    "plain",
    "state_of",
]

UNKNOWN: Final = "\N{EN DASH}"
_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86400
_FEW: Final = 10
_LITTLE_H: Final = 0.1
_PLACES: Final = 2


def gpus(amount: Fraction) -> str:
    """An amount of GPUs in use: at least one decimal, at most two."""
    if amount.is_unlimited:
        return UNKNOWN
    text = f"{amount.gpus:.{_PLACES}f}"
    return text.removesuffix("0")


def plain(amount: Fraction) -> str:
    """An amount of GPUs that somebody has set: as it is written, or a dash where nothing bounds it."""
    return UNKNOWN if amount.is_unlimited else str(amount)


def memory(size: int | None) -> str:
    """Bytes in GB with one decimal."""
    return UNKNOWN if size is None else Memory(size).human


def hours(amount: float) -> str:
    """GPU-hours. A little is not nothing."""
    if 0 < amount < _LITTLE_H:
        return f"< {_LITTLE_H} h"
    return f"{amount:.1f} h" if 0 < amount < _FEW else f"{amount:,.0f} h"


def per_cent(share: float | None) -> str:
    """A part of one, in per cent."""
    return UNKNOWN if share is None else f"{share * 100:.0f} %"


def about(seconds: float | None) -> str:
    """How long something takes, no more exactly than anybody can know; empty while nobody can."""
    if seconds is None:
        return ""
    if seconds < _MINUTE_S:
        return f"about {max(5, -(-int(seconds) // 5) * 5)} s"
    if seconds < _HOUR_S:
        return f"about {round(seconds / _MINUTE_S)} min"
    return f"about {round(seconds / _HOUR_S)} h"


def in_line(place: int | None) -> str:
    """A place in line: "2nd in line"."""
    if place is None:
        return "in line"
    teens = place % 100 in {11, 12, 13}
    ending = "th" if teens else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place}{ending} in line"


def number_of(count: int, one: str, many: str = "") -> str:
    """A count with its word: "1 notebook", "3 notebooks"."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def clock(at: float | None) -> Markup:
    """A moment: in UTC from here, in the reader's own time as soon as the page's script has seen it."""
    try:
        moment = None if at is None else datetime.fromtimestamp(at, UTC)
    except (ValueError, OverflowError, OSError):
        moment = None
    if moment is None:
        return escape(UNKNOWN)
    return Markup('<time datetime="{}">{}</time>').format(
        moment.strftime("%Y-%m-%dT%H:%M:%SZ"), moment.strftime("%-d %b %H:%M UTC")
    )


_STATES: Final = {
    "queued": "Waiting",
    "granted": "Reserved: its server starts",
    "running": "Running",
    "parking": "Parking: its GPU state moves to host memory",
    "parked": "Parked",
    "resuming": "Resuming",
    "yielding": "Leaving the GPU",
    "missing": "Lost contact: what it has is kept for it",
    "ended": "Ended",
    "failed": "Failed",
}


def state_of(lease: LeaseModel) -> str:
    """Where *lease* is, in a few words with what is true of it now. Its reason is told beside it."""
    if lease.status == "parked" and lease.target == "running":
        return _joined("Waiting to come back", lease)
    if lease.status == "parked":
        return f"Parked: {memory(lease.host_memory)} safe in host memory" if lease.host_memory else "Parked"
    if lease.status == "queued":
        return _joined("Waiting", lease)
    if lease.target == "ended" and lease.status not in {"ended", "failed"}:
        return "Ending"
    return _STATES[lease.status]


def _joined(head: str, lease: LeaseModel) -> str:
    parts = [] if lease.place is None else [in_line(lease.place)]
    parts += [about(lease.estimate_s)] if lease.estimate_s is not None else []
    return f"{head}: {', '.join(parts)}" if parts else head
