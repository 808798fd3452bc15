"""What ``run`` says: one line for each state of its lease, in the words of the sidebar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.training.environment import memory_on

if TYPE_CHECKING:
    from jupyter_gpushare.broker.wire import LeaseModel

__all__ = ["about", "announcement", "ordinal", "state_line", "waiting_line"]

_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_ROUND_S: Final = 5
_SUFFIXES: Final = {1: "st", 2: "nd", 3: "rd"}


def announcement(grace_s: float | None, *, parks: bool) -> str:
    """What a job's owner should know before it starts: how it gives its GPU back."""
    grace = "the pool's grace" if grace_s is None else f"{grace_s:g} s"
    stops = f"it gets SIGTERM, has {grace} to save its work, is ended if it still runs, and starts again later"
    if parks:
        return f"If others need this share back, the job is parked where it offers a safe point; otherwise {stops}."
    return f"If others need this share back, {stops}."


def waiting_line(lease: LeaseModel) -> str:
    """Where a waiting job stands: "Waiting: 2nd in line, about 3 min (no device has room)"."""
    parts = [f"{ordinal(lease.place)} in line"] if lease.place else []
    if lease.estimate_s is not None:
        parts.append(about(lease.estimate_s))
    where = ", ".join(parts)
    why = lease.reason.text.rstrip(". ") if lease.reason is not None else ""
    reason = f" ({why[:1].lower()}{why[1:]})" if why else ""
    kept = "Parked, nothing is lost. " if lease.status == "parked" else ""
    return f"{kept}Waiting: {where}{reason}" if where else f"{kept}Waiting{reason}"


def state_line(lease: LeaseModel) -> str:
    """What happens to the job now; the waiting line while it waits."""
    if lease.status in ("queued", "parked"):
        return waiting_line(lease)
    why = f" ({lease.reason.text})" if lease.reason is not None else ""
    sentences = {
        "granted": f"Starting on {_devices(lease)}",
        "running": f"Running on {_devices(lease)}",
        "parking": f"Parking; nothing is lost{why}",
        "resuming": "Resuming where it was",
        "yielding": f"Giving the GPU back{why}" if lease.target == "running" else "Ending",
        "missing": "The broker counts this job as missing; it comes back by itself",
        "ended": f"Its share is given back{why}",
        "failed": f"Its share is gone{why}",
    }
    return sentences[lease.status]


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th, 21st."""
    is_teen = number // 10 % 10 == 1
    return f"{number}{'th' if is_teen else _SUFFIXES.get(number % 10, 'th')}"


def about(seconds: float) -> str:
    """An estimate as people say it: "about 20 s", "about 3 min", "about 2 h"."""
    if seconds < _MINUTE_S:
        return f"about {max(_ROUND_S, round(seconds / _ROUND_S) * _ROUND_S)} s"
    if seconds < 2 * _HOUR_S:
        return f"about {round(seconds / _MINUTE_S)} min"
    return f"about {round(seconds / _HOUR_S)} h"


def _devices(lease: LeaseModel) -> str:
    parts = [f"{Memory(size).human} of {device[:12]}" for device, size in memory_on(lease).items()]
    lent = ", lent by parked notebooks" if lease.lent not in ("", "0") else ""
    return f"{', '.join(parts)}{lent}"
