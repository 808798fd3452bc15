"""Who is in which project, and with which limit of its own: what hubs tell and owners decide while the file stays."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from jupyter_gpushare.rules.change import Change, Entry, Verb
from jupyter_gpushare.rules.project import GROUP

if TYPE_CHECKING:
    from jupyter_gpushare.quantity import Fraction
    from jupyter_gpushare.rules.event import GroupsKnown, MemberSet, QuotaSet
    from jupyter_gpushare.rules.project import Project
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["as_people_left_it", "groups_known", "member_set", "quota_set"]


def groups_known(snapshot: Snapshot, event: GroupsKnown, now: float) -> Change:  # noqa: ARG001  # every event is taken in so
    """A person's groups are these now: what it may claim from now on. Nothing is taken from what it has."""
    changes: dict[str, Project | None] = {}
    for name, project in snapshot.projects.items():
        if project.is_for(event.groups) != (event.person in project.joined):
            changes[name] = replace(project, joined=project.joined ^ {event.person})
    return Change(projects=changes)


def member_set(snapshot: Snapshot, event: MemberSet, now: float) -> Change:
    """An owner makes a person a member or takes that back, or gives it a limit of its own."""
    project = snapshot.projects.get(event.project)
    if project is None:
        return Change()
    after = project
    if event.is_member is not None:
        after = replace(after, added=after.added | {event.person} if event.is_member else after.added - {event.person})
    if event.limit is not None or event.drops_limit:
        after = replace(after, limits=_with_limit(after, event.person, event.limit))
    details = {"project": project.name}
    if event.is_member is not None:
        details["member"] = "added" if event.is_member else "removed"
    if after.limits != project.limits:
        details["limit"] = str(after.limit_of(event.person))
    return _noted(project, after, now, person=event.person, by=event.by, why=event.why, details=details)


def quota_set(snapshot: Snapshot, event: QuotaSet, now: float) -> Change:
    """An admin sets a project's quota, where no file does. What is smaller than what is in use takes nothing away."""
    project = snapshot.projects.get(event.project)
    if project is None:
        return Change()
    after = replace(project, quota=event.quota, set_quota=event.quota, limit=max(project.limit, event.quota))
    details = {"project": project.name, "quota": str(event.quota)}
    return _noted(project, after, now, by=event.by, why=event.why, details=details)


def as_people_left_it(old: Project | None, new: Project, *, keeps_quota: bool) -> Project:
    """*new*, as the admin's file says, with what people did to *old* since; its groups are looked at anew."""
    if old is None:
        return new
    kept = replace(new, added=old.added, limits=old.limits, joined=old.joined if _has_groups(new) else frozenset())
    if keeps_quota and old.set_quota is not None:
        return replace(kept, quota=old.set_quota, set_quota=old.set_quota, limit=max(new.limit, old.set_quota))
    return kept


def _has_groups(project: Project) -> bool:
    return any(name.startswith(GROUP) for name in project.members)


def _with_limit(project: Project, person: str, limit: Fraction | None) -> dict[str, Fraction]:
    others = {name: amount for name, amount in project.limits.items() if name != person}
    return others if limit is None else {**others, person: limit}


def _noted(
    before: Project, after: Project, now: float, *, by: str, why: str, details: dict[str, str], person: str = ""
) -> Change:
    if after == before:
        return Change()
    if why:
        details = {**details, "why": why}
    line = Entry(now, Verb.POLICY_SET, project=after.name, person=person, by=by, details=details)
    return Change(projects={after.name: after}, audit=(line,))
