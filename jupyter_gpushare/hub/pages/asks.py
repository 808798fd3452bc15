"""Asks for more, as rows: the open ones that a viewer may decide on, its own, and what was decided."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_gpushare.hub.pages.wording import clock

if TYPE_CHECKING:
    from collections.abc import Iterable

    from markupsafe import Markup

    from jupyter_gpushare.broker.hub_wire import AskModel
    from jupyter_gpushare.hub.site import Viewer

__all__ = ["AskRow", "Asks", "asks_of", "may_decide"]

_MOST_DECIDED = 10
_WHAT = {"limit": "up to {amount} GPU for their notebooks", "quota": "a quota of {amount} GPU"}


@dataclass(frozen=True, slots=True)
class AskRow:
    """One ask."""

    number: int
    person: str
    project: str
    wish: str
    why: str
    at: Markup
    state: str
    answer: str


@dataclass(frozen=True, slots=True)
class Asks:
    """What a viewer sees of the asks: *open* are for it to decide on, *own* its own that are open, *done* decided."""

    open: list[AskRow]
    own: list[AskRow]
    done: list[AskRow]


def asks_of(asks: Iterable[AskModel], viewer: Viewer, project: str = "") -> Asks:
    """Those of *asks*, and of *project* if one is named, that *viewer* may see, newest first."""
    seen = [ask for ask in asks if _sees(viewer, ask) and (not project or ask.project == project)]
    seen.sort(key=lambda ask: (-ask.at, -ask.number))
    done = [ask for ask in seen if ask.state != "open"]
    return Asks(
        open=[_row(ask) for ask in seen if ask.state == "open" and may_decide(viewer, ask)],
        own=[_row(ask) for ask in seen if ask.state == "open" and ask.person == viewer.person],
        done=[_row(ask) for ask in done[:_MOST_DECIDED]],
    )


def may_decide(viewer: Viewer, ask: AskModel) -> bool:
    """Whether *viewer* may approve or deny it: a person's limit its project's owners, a quota admins alone."""
    return viewer.is_admin or (ask.what == "limit" and viewer.owns_project(ask.project))


def _sees(viewer: Viewer, ask: AskModel) -> bool:
    return ask.person == viewer.person or viewer.owns_project(ask.project)


def _row(ask: AskModel) -> AskRow:
    wish = _WHAT[ask.what].format(amount=ask.amount)
    by = f" by {ask.decided_by}" if ask.decided_by else ""
    answer = f"{ask.state}{by}" + (f": {ask.answer}" if ask.answer else "")
    return AskRow(ask.number, ask.person, ask.project, wish, ask.why, clock(ask.at), ask.state, answer)
