"""The sentence of a parking report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.session.idle.duration import say_seconds

if TYPE_CHECKING:
    from jupyter_gpushare.session.wire import ParkingMode

__all__ = ["said_of"]


def said_of(mode: ParkingMode, parks: int, handed_back_s: float, refusals: int) -> Message:
    """What was parked and won, or in mode *observe* would have been."""
    if mode == "off":
        return Message("PARKING_OFF", "Parking is off. No notebook is parked by itself.")
    values = {"count": str(parks), "time": say_seconds(handed_back_s), "refused": str(refusals)}
    if mode == "observe":
        return Message("WOULD_HAVE_PARKED", _OBSERVED[bool(parks), bool(refusals)], values)
    return Message("HAS_PARKED", _DONE[bool(parks), bool(refusals)], values)


_OBSERVED = {
    (True, False): "Only observed, nothing was parked. Parks that would have been: {count}; handed back: {time}.",
    (True, True): "Only observed, nothing was parked. Parks that would have been: {count}; handed back: {time}; "
    "not possible: {refused}.",
    (False, False): "Only observed, nothing was parked. No notebook has been idle for long enough so far.",
    (False, True): "Only observed, nothing was parked. Idle notebooks that could not have been parked: {refused}.",
}
_DONE = {
    (True, False): "Parks: {count}; handed back: {time}.",
    (True, True): "Parks: {count}; handed back: {time}; not possible: {refused}.",
    (False, False): "No notebook has been parked so far.",
    (False, True): "No notebook has been parked so far; not possible: {refused}.",
}
