"""Who may do what: one table for every route and verb, used by the handlers and walked by a test."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.project import Project
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = [
    "ACCESS",
    "HUB_ACCESS",
    "Caller",
    "Role",
    "is_allowed",
    "is_named",
    "is_personal",
    "may_see_project",
    "owns",
    "roles_of",
]


class Role(StrEnum):
    """What a caller is to the thing that is asked about."""

    #: Nobody knows who it is.
    NOBODY = "nobody"
    #: A known person.
    PERSON = "person"
    #: A person who is a member of the lease's project by its name or one of its groups.
    MEMBER = "member"
    #: The person whose lease it is.
    OWNER = "owner"
    #: Owns the project that is asked about, or of the lease that is asked about.
    PROJECT_OWNER = "project_owner"
    #: Shows a token of the lease.
    LEASE = "lease"
    #: Another service of the hub that may read: it sees everything, and nobody's name.
    SERVICE = "service"
    #: The hub itself: it claims for others.
    HUB = "hub"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks.

    Attributes:
        person: the name that leases are kept under.
        uid: the Unix user; over a network the one of that name, None when this machine has none.
        is_admin: whether it may do what admins may.
        lease: the only lease that it may speak for; empty for a person.
        groups: the groups that it is in, as whoever identified it knows; None where nobody said, so that what was
            known before holds.
        reads_only: whether its token allows nothing but to look.
        kind: ``person``; ``service``, another one of the hub's that may read and has no share; ``hub``, which claims
            for others.
    """

    person: str
    uid: int | None = None
    is_admin: bool = False
    lease: str = ""
    groups: frozenset[str] | None = None
    reads_only: bool = False
    kind: Literal["person", "service", "hub"] = "person"


_NO_GROUPS: Final[frozenset[str]] = frozenset()
_ANYBODY: Final = frozenset(Role)
_PERSONS: Final = frozenset({Role.PERSON, Role.ADMIN})
_READERS: Final = _PERSONS | {Role.SERVICE, Role.HUB}
_ADMINS: Final = frozenset({Role.ADMIN})
_NOTHING: Final[frozenset[Role]] = frozenset()
_OWNERS: Final = frozenset({Role.PROJECT_OWNER, Role.ADMIN})
_CLAIMERS: Final = frozenset({Role.PERSON, Role.HUB, Role.ADMIN})
_SEES: Final = frozenset({Role.MEMBER, Role.OWNER, Role.PROJECT_OWNER, Role.LEASE, Role.SERVICE, Role.HUB, Role.ADMIN})
_OWNS: Final = frozenset({Role.OWNER, Role.LEASE, Role.HUB, Role.ADMIN})

#: Route and verb: who may. What is not here nobody may. Lists show each caller what it may see of them, and a claim, a
#: membership or an ask is its person's: others' are for those who may speak for others.
ACCESS: Final[Mapping[tuple[str, str], frozenset[Role]]] = {
    ("broker", "GET"): _READERS | {Role.LEASE},
    ("health", "GET"): _ANYBODY,
    ("metrics", "GET"): _READERS,
    ("document", "GET"): _READERS,
    ("projects", "GET"): _READERS,
    ("members", "GET"): _OWNERS,
    ("member", "PUT"): _OWNERS,
    ("member", "DELETE"): _OWNERS,
    ("limits", "PUT"): _OWNERS,
    ("devices", "GET"): _READERS,
    ("leases", "GET"): _READERS,
    ("lease", "GET"): _SEES,
    ("lease", "DELETE"): _OWNS,
    ("availability", "GET"): _CLAIMERS,
    ("claims", "GET"): frozenset({Role.HUB, Role.ADMIN}),
    ("claim", "PUT"): _CLAIMERS,
    ("claim", "GET"): _CLAIMERS,
    ("claim", "DELETE"): _CLAIMERS,
    ("alive", "POST"): _CLAIMERS,
    ("memberships", "GET"): _CLAIMERS,
    ("asks", "GET"): _PERSONS,
    ("asks", "POST"): _PERSONS,
    ("ask", "POST"): _PERSONS,
    ("day", "GET"): _READERS,
    ("parking-report", "GET"): _READERS,
    ("apply", "POST"): _ADMINS,
    ("audit", "GET"): _PERSONS,
    ("reclaim", "POST"): _ADMINS,
    ("drain", "POST"): _ADMINS,
    ("stop-parking", "POST"): _ADMINS,
    ("holder", "GET"): _PERSONS | {Role.LEASE},
    ("stream", "GET"): _READERS,
}

#: The same for whom a hub names. Figures name every project, which a hub's people need not know of.
HUB_ACCESS: Final[Mapping[tuple[str, str], frozenset[Role]]] = {
    **ACCESS,
    ("metrics", "GET"): frozenset({Role.SERVICE, Role.HUB, Role.ADMIN}),
}


def is_allowed(route: str, verb: str, roles: frozenset[Role], caller: Caller | None = None) -> bool:
    """Whether one of *roles*, which are those of *caller*, may do *verb* on *route*."""
    table = ACCESS if caller is None or caller.groups is None else HUB_ACCESS
    return bool(roles & table.get((route, "GET" if verb == "HEAD" else verb), frozenset()))


def roles_of(
    caller: Caller | None, snapshot: Snapshot, lease: Lease | None = None, project: Project | None = None
) -> frozenset[Role]:
    """What *caller* is to *lease* or *project*, or without one, at all."""
    if caller is None:
        return frozenset({Role.NOBODY})
    if caller.lease:
        is_about_it = project is None and (lease is None or lease.id == caller.lease)
        return frozenset({Role.LEASE}) if is_about_it else frozenset()
    admin = _ADMINS if caller.is_admin else _NOTHING
    if caller.kind != "person":
        return admin | {Role.SERVICE if caller.kind == "service" else Role.HUB}
    roles = {Role.PERSON, *admin}
    whose = snapshot.projects.get(lease.project) if lease is not None else project
    if lease is not None and lease.person == caller.person:
        roles.add(Role.OWNER)
    if whose is not None and (whose.owners or lease is not None):
        # Asked of thousands at once: most projects have no owners.
        if lease is not None and _is_listed(caller, whose):
            roles.add(Role.MEMBER)
        if owns(caller, whose):
            roles.add(Role.PROJECT_OWNER)
    return frozenset(roles)


def owns(caller: Caller, project: Project | None) -> bool:
    """Whether *caller* looks after *project*."""
    if project is None or not project.owners:
        return False
    is_person = caller.kind == "person" and not caller.lease
    return is_person and project.is_owned_by(caller.person, caller.groups or _NO_GROUPS)


def is_named(caller: Caller, lease: Lease, project: Project | None = None) -> bool:
    """Whether *caller* is told what *lease* is called: a notebook's name is its owner's business.

    *project* is the lease's, whose owners are told too.
    """
    return not lease.is_session or _knows(caller, lease) or owns(caller, project)


def is_personal(caller: Caller, lease: Lease, project: Project | None = None) -> bool:
    """Whether *caller* is told whose *lease* is. A hub's users need not know each other; a machine's do."""
    is_known = caller.kind == "person" and caller.groups is None
    return is_known or _knows(caller, lease) or owns(caller, project)


def may_see_project(caller: Caller, project: Project) -> bool:
    """Whether *caller* is told how *project* stands."""
    if caller.is_admin or caller.kind != "person":
        return True
    groups = caller.groups or _NO_GROUPS
    return project.has(caller.person) or project.is_for(groups) or owns(caller, project)


def _knows(caller: Caller, lease: Lease) -> bool:
    if caller.is_admin or caller.kind == "hub":
        return True
    return caller.kind == "person" and caller.person == lease.person


def _is_listed(caller: Caller, project: Project) -> bool:
    """A project for everybody makes nobody a colleague: what others run there is their own business."""
    return project.is_listed(caller.person) or (bool(caller.groups) and project.is_for(caller.groups or _NO_GROUPS))
