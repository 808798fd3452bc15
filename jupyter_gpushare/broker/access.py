"""Who may do what: one table for every route and verb, used by the handlers and walked by a test."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.rules.project import EVERYBODY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.project import Project
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["ACCESS", "Caller", "Role", "is_allowed", "is_named", "may_see_project", "roles_of"]


class Role(StrEnum):
    """What a caller is to the thing that is asked about."""

    #: Nobody knows who it is.
    NOBODY = "nobody"
    #: A known person.
    PERSON = "person"
    #: A person who is named as a member of the lease's project.
    MEMBER = "member"
    #: The person whose lease it is.
    OWNER = "owner"
    #: Shows a token of the lease.
    LEASE = "lease"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks.

    Attributes:
        person: the name that leases are kept under.
        uid: the Unix user; over a network the one of that name, None when this machine has none.
        is_admin: whether it may do what admins may.
        lease: the only lease that it may speak for; empty for a person.
    """

    person: str
    uid: int | None = None
    is_admin: bool = False
    lease: str = ""


_ANYBODY: Final = frozenset(Role)
_PERSONS: Final = frozenset({Role.PERSON, Role.ADMIN})
_ADMINS: Final = frozenset({Role.ADMIN})
_SEES: Final = frozenset({Role.MEMBER, Role.OWNER, Role.LEASE, Role.ADMIN})
_OWNS: Final = frozenset({Role.OWNER, Role.LEASE, Role.ADMIN})

#: Route and verb: who may. What is not here nobody may. Lists show each caller what it may see of them.
ACCESS: Final[Mapping[tuple[str, str], frozenset[Role]]] = {
    ("broker", "GET"): _PERSONS | {Role.LEASE},
    ("health", "GET"): _ANYBODY,
    ("metrics", "GET"): _PERSONS,
    ("document", "GET"): _PERSONS,
    ("projects", "GET"): _PERSONS,
    ("devices", "GET"): _PERSONS,
    ("leases", "GET"): _PERSONS,
    ("lease", "GET"): _SEES,
    ("lease", "DELETE"): _OWNS,
    ("availability", "GET"): _PERSONS,
    ("apply", "POST"): _ADMINS,
    ("audit", "GET"): _PERSONS,
    ("reclaim", "POST"): _ADMINS,
    ("drain", "POST"): _ADMINS,
    ("stop-parking", "POST"): _ADMINS,
    ("holder", "GET"): _PERSONS | {Role.LEASE},
    ("stream", "GET"): _PERSONS,
}


def is_allowed(route: str, verb: str, roles: frozenset[Role]) -> bool:
    """Whether one of *roles* may do *verb* on *route*."""
    return bool(roles & ACCESS.get((route, "GET" if verb == "HEAD" else verb), frozenset()))


def roles_of(caller: Caller | None, snapshot: Snapshot, lease: Lease | None = None) -> frozenset[Role]:
    """What *caller* is to *lease*, or without one, at all."""
    if caller is None:
        return frozenset({Role.NOBODY})
    if caller.lease:
        return frozenset({Role.LEASE}) if lease is None or lease.id == caller.lease else frozenset()
    roles = {Role.PERSON}
    if caller.is_admin:
        roles.add(Role.ADMIN)
    if lease is not None and lease.person == caller.person:
        roles.add(Role.OWNER)
    if lease is not None and _is_listed(snapshot.projects.get(lease.project), caller.person):
        roles.add(Role.MEMBER)
    return frozenset(roles)


def is_named(caller: Caller, lease: Lease) -> bool:
    """Whether *caller* is told what *lease* is called: a notebook's name is its owner's business."""
    return caller.is_admin or caller.person == lease.person or not lease.is_session


def may_see_project(caller: Caller, project: Project) -> bool:
    """Whether *caller* is told how *project* stands."""
    return caller.is_admin or project.has(caller.person)


def _is_listed(project: Project | None, person: str) -> bool:
    """A project for everybody makes nobody a colleague: what others run there is their own business."""
    return project is not None and person in project.members and person != EVERYBODY
