"""What a viewer may know of a lease: the one place where the pages decide it (DESIGN 1).

| to | project | whose, and what it is called | why it waits |
|---|---|---|---|
| its owner, the project's owners, admins | yes | yes | yes |
| who may claim in the project | yes | no | yes |
| anybody else | no | no | no |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_gpushare.hub.site import Viewer
    from jupyter_gpushare.rules.lease import Lease

__all__ = ["Known", "known_of"]


@dataclass(frozen=True, slots=True)
class Known:
    """A lease as far as somebody may know it.

    Attributes:
        is_own: whether it is the viewer's.
        is_named: whether it is told whose it is and what it is called.
        project: whose quota it counts against; empty where that is none of the viewer's business.
        person: whose it is; empty if not told.
        name: what people call it; empty if not told.
    """

    is_own: bool
    is_named: bool
    project: str = ""
    person: str = ""
    name: str = ""


def known_of(viewer: Viewer, lease: Lease) -> Known:
    """*lease* as far as *viewer* may know it."""
    is_own = lease.person == viewer.person
    if is_own or viewer.owns_project(lease.project):
        return Known(is_own, is_named=True, project=lease.project, person=lease.person, name=lease.name)
    if viewer.sees_project(lease.project):
        return Known(is_own=False, is_named=False, project=lease.project)
    return Known(is_own=False, is_named=False)
