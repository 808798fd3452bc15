"""How it is with parking a notebook, in the words of the card: possible or why not, when, and kept until when."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.notebook.duration import spoken
from jupyter_gpushare.quantity import Memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_gpushare.notebook.view import KernelView, Parking, Policy

__all__ = [
    "MOVED_STATUSES",
    "decided_by",
    "parking_notes",
    "parking_words",
    "policy_words",
    "refusal_notes",
    "seconds_words",
    "time_of_day",
]

#: While it is so, the notebook's GPU state is not on its device, or not wholly.
MOVED_STATUSES: Final = frozenset({"parking", "parked", "waiting", "resuming"})
#: Refusals that pass by themselves need no explanation.
_PASSING: Final = {"CELL_RUNNING": "after the cell", "NOTHING_HELD": "nothing to park"}
_WORTH_TELLING_S: Final = 60.0
_DECIDERS: Final = {
    "configuration": "as this server is configured",
    "kernel_spec": "as its kernel's spec says",
    "notebook": "as the notebook's metadata says",
    "owner": "as you chose",
}


def parking_words(parking: Parking) -> str:
    """The row's figures in words: what would happen now, and when it happens by itself."""
    return " · ".join([_now(parking), *_by_itself(parking)])


def parking_notes(view: KernelView) -> Iterator[str]:
    """The sentences: why it cannot be parked and what to do, what is not guaranteed, what was handed back."""
    if view.kernel.parking is not None:
        yield from refusal_notes(view.kernel.parking)
    if view.handed_back_s >= _WORTH_TELLING_S:
        yield f"Handed back today: {spoken(view.handed_back_s)} of GPU time."


def refusal_notes(parking: Parking) -> Iterator[str]:
    """Why it cannot be parked and what to do about it, or what is not guaranteed if it is."""
    if parking.refusal is not None and not _is_passing(parking):
        remedy = f" {parking.remedy.text}" if parking.remedy is not None else ""
        yield f"Cannot park: {parking.refusal.text}{remedy}"
    if parking.caution is not None:
        yield parking.caution.text


def policy_words(policy: Policy) -> str:
    """When it is parked by itself."""
    if policy.idle_timeout_s is None:
        return "never by itself"
    return f"by itself after {spoken(policy.idle_timeout_s)} idle"


def decided_by(policy: Policy) -> str:
    """Who decided the policy."""
    if policy.pool:
        return f"as pool {policy.pool} sets it"
    return _DECIDERS.get(policy.source, policy.source)


def time_of_day(at: float) -> str:
    """A time as the clock on the wall shows it, "14:02"."""
    return time.strftime("%H:%M", time.localtime(at))


def _now(parking: Parking) -> str:
    if parking.status == "asked":
        return "when this cell has ended"
    if parking.status in MOVED_STATUSES:
        return f"{parking.status} since {time_of_day(parking.since)}"
    if parking.refusal is not None:
        return _PASSING.get(parking.refusal.code, "not possible now")
    if parking.memory is None:
        return "possible"
    seconds = f" in about {seconds_words(parking.expected_s)} s" if parking.expected_s is not None else ""
    return f"possible: {Memory(parking.memory).human}{seconds}"


def _by_itself(parking: Parking) -> Iterator[str]:
    if parking.kept_until is not None:
        yield f"kept until {time_of_day(parking.kept_until)}"
    elif parking.parks_at is not None:
        yield f"by itself at {time_of_day(parking.parks_at)}"
    elif parking.policy is not None and parking.status == "running" and _is_passing(parking):
        yield policy_words(parking.policy)


def _is_passing(parking: Parking) -> bool:
    """Whether nothing but the moment speaks against parking it."""
    return parking.refusal is None or parking.refusal.code in _PASSING


def seconds_words(seconds: float) -> str:
    """As the server writes them: whole from ten on, one decimal below."""
    return f"{seconds:.0f}" if seconds >= 10 else f"{max(seconds, 0.1):.1f}"  # noqa: PLR2004
