"""The page on which somebody waits before a server starts: its place in line, and the start when the share is there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jupyter_gpushare.hub.pages.parts import Content
from jupyter_gpushare.hub.pages.wording import about, clock, in_line
from jupyter_gpushare.share import Share, ShareError

if TYPE_CHECKING:
    from jupyter_gpushare.hub.pages.asked import Waiting
    from jupyter_gpushare.hub.pages.parts import Desk

__all__ = ["content"]

_HEADS: Final = {
    "waiting": "Waiting for a GPU share",
    "granted": "Your share is ready",
    "over": "No share became free in time",
    "refused": "This share cannot be had",
    "cancelled": "You wait no more",
    "away": "The GPU shares are not available now",
}


async def content(desk: Desk) -> Content:
    """What the page shows."""
    waiting = desk.asked.waiting
    if waiting is None:
        return Content("Waiting", {"wait": desk.part("wait_nothing")})
    shown = desk.part(
        "wait_state",
        waiting=waiting,
        head=_HEADS[waiting.state],
        means=_means(waiting.share),
        line=_line(waiting),
        until=None if waiting.until is None else clock(waiting.until),
    )
    return Content(_HEADS[waiting.state], {"wait": shown}, {"waiting": waiting})


def _means(text: str) -> str:
    try:
        return Share.parse(text).describe()
    except ShareError:
        return text


def _line(waiting: Waiting) -> str:
    """Where it stands: "2nd in line, about 4 min"."""
    lease = waiting.lease
    if lease is None:
        return ""
    parts = [in_line(lease.place), *([about(lease.estimate_s)] if lease.estimate_s is not None else [])]
    return ", ".join(parts)
