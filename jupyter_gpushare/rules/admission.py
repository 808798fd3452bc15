"""What is refused at once, because waiting would not help (DESIGN 5, rules 1 and 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.demand import demand_of, share_cost
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.snapshot import ProjectBooks

if TYPE_CHECKING:
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.project import Project
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["could_ever_be_held", "in_line", "is_known", "over_limits", "refusal", "values_of"]

_MOST_NAMES: Final = 20
#: For these a claim is refused that would have fitted, had nobody asked before it.
_COUNTED_TOGETHER: Final = (Reason.EXCEEDS_PROJECT_QUOTA, Reason.EXCEEDS_PERSON_LIMIT)


def refusal(
    snapshot: Snapshot,
    lease: Lease,
    cost: Fraction,
    waiting: tuple[Fraction, Fraction] = (Fraction.ZERO, Fraction.ZERO),
) -> Reason | None:
    """Why *lease*, which would cost *cost* GPUs, can never be served as things are; None if it may wait.

    *waiting* is what sessions that wait already would have, of its project and of its person: they are counted as if
    they had been served.
    """
    if (reason := is_known(snapshot, lease)) is not None:
        return reason
    project = snapshot.projects[lease.project]
    if cost > project.limit:
        return Reason.EXCEEDS_PROJECT_LIMIT
    return over_limits(snapshot, lease, project, cost, waiting=waiting) if lease.is_session else None


def is_known(snapshot: Snapshot, lease: Lease) -> Reason | None:
    """Why nobody like *lease* may claim here: no such project, no member of it, no such pool."""
    project = snapshot.projects.get(lease.project)
    if project is None:
        return Reason.NO_SUCH_PROJECT
    if not project.has(lease.person):
        return Reason.NOT_A_MEMBER
    if lease.pool and lease.pool not in snapshot.pools:
        return Reason.NO_SUCH_POOL
    return None


def over_limits(
    snapshot: Snapshot,
    lease: Lease,
    project: Project,
    cost: Fraction,
    *,
    waiting: tuple[Fraction, Fraction] = (Fraction.ZERO, Fraction.ZERO),
) -> Reason | None:
    """Which bound on sessions *cost* more would break: its project's quota (invariant I3), or its person's limit.

    *waiting* comes on top of what is admitted: of the project, and of the person.
    """
    books = snapshot.project_books.get(lease.project, ProjectBooks())
    if books.sessions + waiting[0] + cost > project.quota:
        return Reason.EXCEEDS_PROJECT_QUOTA
    if books.persons.get(lease.person, Fraction.ZERO) + waiting[1] + cost > project.limit_of(lease.person):
        return Reason.EXCEEDS_PERSON_LIMIT
    return None


def in_line(snapshot: Snapshot, project: str, person: str) -> tuple[Fraction, Fraction]:
    """What sessions that wait would have: all those of *project*, and those of *person* among them."""
    books = snapshot.project_books.get(project, ProjectBooks())
    if not books.waiting:
        return Fraction.ZERO, Fraction.ZERO
    costs: dict[tuple[object, str], Fraction] = {}
    together, mine = Fraction.ZERO, Fraction.ZERO
    for lease in (snapshot.leases[key] for key in books.leases & snapshot.waiting):
        if not lease.is_session:
            continue
        alike = lease.share, lease.pool
        if alike not in costs:  # many ask for the same, and a share in GiB is looked up on every device
            costs[alike] = demand_of(lease, snapshot.devices)
        together += costs[alike]
        if lease.person == person:
            mine += costs[alike]
    return together, mine


def could_ever_be_held(snapshot: Snapshot, lease: Lease) -> bool:
    """Whether some host has the devices for it, were they all empty; if none is known yet, perhaps.

    One that is drained or gone may come back.
    """
    by_host: dict[tuple[str, str], int] = {}
    for device in snapshot.devices.values():
        is_kind = lease.share.kind in ("", device.kind) and lease.pool in ("", device.pool)
        if is_kind and share_cost(lease.share, device.usable) <= Fraction.ONE:
            by_host[device.host, device.pool] = by_host.get((device.host, device.pool), 0) + 1
    return not snapshot.devices or max(by_host.values(), default=0) >= lease.share.count


def values_of(snapshot: Snapshot, lease: Lease) -> dict[str, str]:
    """Every value that a sentence of `reason.explain` about *lease* may name.

    What those in line ask for is taken from a claim that comes after them; from one that is among them it is not.
    """
    project = snapshot.projects.get(lease.project)
    books = snapshot.project_books.get(lease.project, ProjectBooks())
    is_personal = lease.reason is Reason.EXCEEDS_PERSON_LIMIT
    used = books.persons.get(lease.person, Fraction.ZERO) if is_personal else books.sessions
    if lease.reason in _COUNTED_TOGETHER and lease.id not in snapshot.leases:
        together, mine = in_line(snapshot, lease.project, lease.person)
        used += mine if is_personal else together
    limit = Fraction.UNLIMITED if project is None else project.limit_of(lease.person) if is_personal else project.limit
    return {
        "project": lease.project,
        "projects": _names_for(snapshot, lease.person) if lease.reason is Reason.NO_SUCH_PROJECT else "",
        "quota": str(Fraction.ZERO if project is None else project.quota),
        "used": str(used),
        "limit": str(limit),
        "share": lease.share.describe(),
        "pool": lease.pool,
    }


def _names_for(snapshot: Snapshot, person: str) -> str:
    """The projects that *person* may ask for, the first few of them."""
    names = sorted(name for name, project in snapshot.projects.items() if project.has(person))
    rest = [f"and {len(names) - _MOST_NAMES} more"] if len(names) > _MOST_NAMES else []
    return ", ".join(names[:_MOST_NAMES] + rest) or "none yet"
