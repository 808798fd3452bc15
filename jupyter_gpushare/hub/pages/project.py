"""One project's page: how it stands; for its owners its people, their notebooks and what they ask for, too."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from jupyter_gpushare.hub.pages.asks import asks_of
from jupyter_gpushare.hub.pages.lease_rows import leases_of
from jupyter_gpushare.hub.pages.parts import Content, Link
from jupyter_gpushare.hub.pages.standings import rows_of
from jupyter_gpushare.hub.pages.wording import UNKNOWN, gpus, plain
from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.snapshot import ProjectBooks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_gpushare.broker.hub_wire import MemberModel, MembersAnswer
    from jupyter_gpushare.hub.pages.parts import Desk
    from jupyter_gpushare.hub.site import Viewer
    from jupyter_gpushare.rules.project import Project

__all__ = ["MemberRow", "content"]

_DAYS: Final = 7
_MOST: Final = 100
_VIA: Final = {"": "named in the configuration", "owner": "added by an owner"}


@dataclass(frozen=True, slots=True)
class MemberRow:
    """One person of the project: GPUs that their notebooks have, of how many, and by what they are a member.

    Whom an owner has added, an owner can take out again.
    """

    person: str
    use: str
    limit: str
    own_limit: str
    via: str
    is_owner: bool
    is_added: bool


async def content(desk: Desk) -> Content:
    """What a project's page shows."""
    viewer, books = desk.viewer, desk.site.books
    names = sorted(name for name in books.projects if viewer.sees_project(name))
    chosen = desk.asked.project or next(iter(sorted(viewer.owned) or names), "")
    if chosen not in names:
        # One that the viewer does not see, and one that there is not, read alike.
        return Content("Project", {}, {"project": None, "asked_for": chosen, "tabs": _tabs(desk, names, "")})
    project, is_owner = books.projects[chosen], viewer.owns_project(chosen)
    used = await desk.told(desk.site.hours(_DAYS))
    asks = await desk.told(desk.site.asks())
    rows = [row for row in rows_of(books, used or {}, viewer) if row.name == chosen]
    fragments = {
        "standing": desk.part("standings", rows=rows, is_known=used is not None),
        "limits": desk.part("limits", facts=_facts(project, viewer)),
        "asks": desk.part(
            "asks", asks=None if asks is None else asks_of(asks, viewer, chosen), project=chosen, is_owner=is_owner
        ),
    }
    if is_owner:
        people = desk.site.members(chosen)
        fragments["people"] = desk.part("people", people=people, rows=_members(people), project=chosen)
        ids = books.project_books.get(chosen, ProjectBooks()).leases
        table = leases_of(
            [books.leases[key] for key in ids], desk.site.view, viewer, desk.site.hardware, search="", most=_MOST
        )
        fragments["leases"] = desk.part("lease_table", table=table, can_reclaim=False, shows_project=False)
    values: dict[str, Any] = {
        "project": project,
        "is_owner": is_owner,
        "wishes": _wishes(project, viewer),
        "tabs": _tabs(desk, names, chosen),
        "days": _DAYS,
    }
    return Content(chosen, fragments, values)


def _tabs(desk: Desk, names: Sequence[str], chosen: str) -> list[Link]:
    if len(names) < 2 and chosen:  # noqa: PLR2004  # one alone needs no choice
        return []
    return [Link(name, name, f"{desk.frame.prefix}project?project={quote(name, safe='')}") for name in names]


def _facts(project: Project, viewer: Viewer) -> list[tuple[str, str]]:
    """What the project is entitled to, with what is the viewer's own part of it."""
    bounds = [
        ("Always its own when it wants them", _bound(project.quota)),
        ("Weight for what others leave", plain(project.over_quota_weight)),
        ("Never more than", _bound(project.limit)),
        ("For one person's notebooks", _bound(project.person_limit)),
    ]
    own = project.limits.get(viewer.person)
    return [*bounds, *([("For your notebooks", _bound(own))] if own is not None else [])]


def _wishes(project: Project, viewer: Viewer) -> list[tuple[str, str]]:
    """What a member can ask more of: what is bounded. With the words for it."""
    bounded = [
        ("limit", "my notebooks", project.limit_of(viewer.person)),
        ("quota", "the whole project", project.quota),
    ]
    # An admin who is no member has nothing to ask for.
    is_in = project.has(viewer.person) or project.is_for(viewer.groups)
    return [(what, word) for what, word, amount in bounded if is_in and not amount.is_unlimited]


def _bound(amount: Fraction) -> str:
    return "no bound" if amount.is_unlimited else f"{amount} GPU"


def _members(people: MembersAnswer) -> list[MemberRow]:
    return [_member(each) for each in people.members]


def _member(each: MemberModel) -> MemberRow:
    limit = "" if each.limit == str(Fraction.UNLIMITED) else each.limit
    return MemberRow(
        person=each.person,
        use=gpus(Fraction.parse(each.sessions)),
        limit=limit or UNKNOWN,
        own_limit=limit if each.is_own_limit else "",
        via=_VIA.get(each.via, each.via),
        is_owner=each.is_owner,
        is_added=each.via == "owner",
    )
