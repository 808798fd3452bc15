"""The sentences of culling. Each says what ends, when, what is lost by it, and what keeps it. Made nowhere else."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.session.idle.duration import say_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "NOT_OFFERED",
    "kept",
    "kept_no_longer",
    "kernel_ended",
    "kernel_ends",
    "not_told",
    "server_stops",
]

_SERVER: Final[Mapping[str, str]] = {
    "IDLE": (
        "Nobody has used this server for {idle}. It is stopped at {at}: kernels and their variables end, files stay. "
        "Run a cell or keep it."
    ),
    "PARKED_TOO_LONG": (
        "Your notebooks have been parked and unused for {idle}. The server is stopped at {at}: kernels and their "
        "variables end, files stay. Run a cell or keep it."
    ),
    "TOO_OLD": (
        "This server has run as long as your admin allows. It is stopped at {at}: kernels and their variables end, "
        "files stay. Save what you need; it cannot be kept."
    ),
}
NOT_OFFERED: Final = Message("NOTHING_IS_CULLED", "Nothing here ends by itself: there is nothing to keep it from.")


def server_stops(why: str, at: float, idle_s: float) -> Message:
    """The whole server is stopped *at* then; *why* is the service's own word."""
    template = _SERVER.get(why, _SERVER["IDLE"])
    return Message(f"SERVER_STOPS_{why}", template, {"idle": say_seconds(idle_s), **_clock("at", at)})


def kernel_ends(label: str, at: float, idle_s: float, *, is_parked: bool) -> Message:
    """One kernel is ended *at* then."""
    template = (
        "{notebook} has been parked for {idle}. Its kernel is ended at {at}: its variables are lost, the notebook "
        "stays. Run a cell or keep it."
        if is_parked
        else "{notebook} has held its GPU unused for {idle}. Its kernel is ended at {at}: its variables are lost, the "
        "notebook stays. Run a cell or keep it."
    )
    return Message("KERNEL_ENDS", template, {"notebook": label, "idle": say_seconds(idle_s), **_clock("at", at)})


def kernel_ended(label: str, idle_s: float) -> Message:
    """It was ended."""
    template = (
        "The kernel of {notebook} was ended after {idle} without use, as your admin wants it. Its variables are lost; "
        "the notebook is as it was saved last."
    )
    return Message("KERNEL_ENDED", template, {"notebook": label, "idle": say_seconds(idle_s)})


def kept(until: float) -> Message:
    """Nothing ends by itself until then."""
    return Message("KEPT_FROM_CULLING", "Nothing here ends by itself until {until}.", _clock("until", until))


def kept_no_longer() -> Message:
    """The lock was taken away."""
    return Message(
        "KEPT_NO_LONGER", "No longer kept: what is left unused ends as your admin wants it, after a warning."
    )


def not_told() -> Message:
    """The hub could not be told of a lock."""
    template = (
        "It is kept here, and the hub could not be told yet; that is tried again every few seconds. Look again soon."
    )
    return Message("KEPT_NOT_TOLD", template)


def _clock(name: str, at: float) -> dict[str, str]:
    """A time of day; front ends show the second form in the reader's own time zone."""
    return {name: time.strftime("%H:%M", time.localtime(at)), f"{name}_epoch": f"{at:.0f}"}
