"""Leases as rows of a table, for those who may know whose they are: a project's owners, and admins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_gpushare.hub.pages.anonymity import known_of
from jupyter_gpushare.hub.pages.sessions import look_of, where_of
from jupyter_gpushare.hub.pages.wording import clock, state_of
from jupyter_gpushare.rules.lease import Target

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from markupsafe import Markup

    from jupyter_gpushare.broker.models import View
    from jupyter_gpushare.devices.device import Device
    from jupyter_gpushare.hub.site import Viewer
    from jupyter_gpushare.rules.lease import Lease

__all__ = ["LeaseRow", "LeaseTable", "leases_of"]


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """One lease. *can_be_reclaimed*: whether it has something that an admin could take back."""

    id: str
    name: str
    person: str
    kind: str
    project: str
    share: str
    state: str
    look: str
    since: Markup
    where: str
    can_be_reclaimed: bool


@dataclass(frozen=True, slots=True)
class LeaseTable:
    """The first of those that match, and how many there are of how many."""

    rows: list[LeaseRow]
    matching: int
    all: int


def leases_of(
    leases: Iterable[Lease], view: View, viewer: Viewer, hardware: Mapping[str, Device], *, search: str, most: int
) -> LeaseTable:
    """Those of *leases* that *viewer* may know by name and in which *search* is found; the newest first."""
    known = [lease for lease in leases if known_of(viewer, lease).is_named]
    wanted = search.casefold().strip()
    found = [lease for lease in known if wanted in _searched(lease)] if wanted else known
    found.sort(key=lambda lease: (-lease.submitted, lease.id))
    return LeaseTable([_row(lease, view, hardware) for lease in found[:most]], len(found), len(known))


def _searched(lease: Lease) -> str:
    return f"{lease.name}\n{lease.person}\n{lease.project}\n{lease.status.value}\n{lease.id}".casefold()


def _row(lease: Lease, view: View, hardware: Mapping[str, Device]) -> LeaseRow:
    return LeaseRow(
        id=lease.id,
        name=lease.name,
        person=lease.person,
        kind="notebook server" if lease.is_session else "training job",
        project=lease.project,
        share=str(lease.share),
        state=state_of(view.lease(lease)),
        look=look_of(lease),
        since=clock(lease.since),
        where=where_of(lease, view.books, hardware),
        can_be_reclaimed=lease.is_resident and lease.target is Target.RUNNING and not lease.is_called,
    )
