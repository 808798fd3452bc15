"""Who waits, in line, as far as a viewer may know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.hub.pages.anonymity import known_of
from jupyter_gpushare.hub.pages.wording import about, clock
from jupyter_gpushare.rules.resuming import waiting_sessions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markupsafe import Markup

    from jupyter_gpushare.broker.models import View
    from jupyter_gpushare.hub.site import Viewer
    from jupyter_gpushare.rules.lease import Lease

__all__ = ["Line", "Queue", "QueueRow", "queue_of"]

#: So many of those are shown whose project is the viewer's business, and so many others.
_MOST: Final = 20
_MOST_OTHERS: Final = 5


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One that waits. *why* is empty for whom it is none of their business."""

    place: int
    who: str
    is_own: bool
    project: str
    share: str
    since: Markup
    why: str
    estimate: str


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its first, the viewer's own wherever they are, and how many more there are."""

    text: str
    rows: list[QueueRow]
    more: int


@dataclass(frozen=True, slots=True)
class Queue:
    """The lines in which somebody waits."""

    groups: list[Line]


def queue_of(view: View, viewer: Viewer) -> Queue:
    """The parked sessions that are wanted back, and the claims that wait, each in their order."""
    books = view.books
    lines = (
        ("Parked, and coming back", waiting_sessions(books)),
        (
            "In line for a GPU",
            sorted((books.leases[key] for key in books.waiting), key=lambda each: _place(view, each)),
        ),
    )
    return Queue([_line(text, leases, view, viewer) for text, leases in lines if leases])


def _place(view: View, lease: Lease) -> tuple[int, float, str]:
    return view.places.get(lease.id, 1 << 30), lease.submitted, lease.id


def _line(text: str, leases: Sequence[Lease], view: View, viewer: Viewer) -> Line:
    shown: list[Lease] = []
    others = 0
    for lease in leases:
        if known_of(viewer, lease).project:
            is_shown = len(shown) < _MOST or lease.person == viewer.person
        else:
            others += 1
            is_shown = others <= _MOST_OTHERS
        if is_shown:
            shown.append(lease)
    return Line(text, [_row(lease, view, viewer) for lease in shown], len(leases) - len(shown))


def _row(lease: Lease, view: View, viewer: Viewer) -> QueueRow:
    known, model = known_of(viewer, lease), view.lease(lease)
    kind = "notebook server" if lease.is_session else "training job"
    if known.is_own:
        who = f"{known.name} (yours)"
    elif known.is_named:
        who = f"{known.name} of {known.person}"
    else:
        who = f"a {kind}"
    # A sentence about a project is for those who see the project.
    why = model.reason.text if known.project and model.reason is not None else ""
    return QueueRow(
        model.place or 0,
        who,
        known.is_own,
        known.project,
        str(lease.share),
        clock(lease.submitted),
        why,
        about(model.estimate_s),
    )
