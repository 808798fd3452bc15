"""The admins' page: quotas, reclaiming, draining, the one switch, and the audit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.hub.pages.asks import asks_of
from jupyter_gpushare.hub.pages.audit_rows import VERBS, filters_of, page_of
from jupyter_gpushare.hub.pages.device_rows import hosts
from jupyter_gpushare.hub.pages.lease_rows import leases_of
from jupyter_gpushare.hub.pages.parts import Content
from jupyter_gpushare.hub.pages.wording import gpus, plain
from jupyter_gpushare.rules.snapshot import ProjectBooks

if TYPE_CHECKING:
    from jupyter_gpushare.hub.pages.parts import Desk
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["DrainRow", "QuotaRow", "content"]

_MOST: Final = 50


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """One project's bounds."""

    name: str
    quota: str
    weight: str
    limit: str
    used: str
    members: str
    owners: str


@dataclass(frozen=True, slots=True)
class DrainRow:
    """A host, or a device of one (*uuid*), that can be emptied or taken into use again."""

    host: str
    uuid: str
    name: str
    condition: str
    leases: int


async def content(desk: Desk) -> Content:
    """What the admins' page shows."""
    site, asked = desk.site, desk.asked
    if not desk.viewer.is_admin:
        return Content("Admin", {}, {"is_allowed": False})
    books = site.books
    asks = await desk.told(site.asks())
    lines = await desk.told(site.kept(f"lines of {asked.audit!r}", lambda: site.audit(asked.audit)))
    table = leases_of(books.leases.values(), site.view, desk.viewer, site.hardware, search=asked.search, most=_MOST)
    fragments = {
        "switch": desk.part("switch", is_stopped=books.is_parking_stopped),
        "asks": desk.part("asks", asks=None if asks is None else asks_of(asks, desk.viewer), project="", is_owner=True),
        "quotas": desk.part("quotas", rows=_quotas(books), is_fixed=site.source == "file"),
        "leases": desk.part("lease_table", table=table, can_reclaim=True, shows_project=True),
        "drains": desk.part("drains", groups=_drains(desk)),
        "audit": desk.part("audit", page=None if lines is None else page_of(lines, asked.audit)),
    }
    values: dict[str, Any] = {
        "is_allowed": True,
        "is_stopped": books.is_parking_stopped,
        "filters": filters_of(asked.audit),
        "verbs": VERBS,
        "is_fixed": site.source == "file",
    }
    return Content("Admin", fragments, values)


def _quotas(books: Snapshot) -> list[QuotaRow]:
    return [
        QuotaRow(
            name,
            plain(project.quota),
            plain(project.over_quota_weight),
            plain(project.limit),
            gpus(books.project_books.get(name, ProjectBooks()).counted),
            ", ".join(sorted(project.members)),
            ", ".join(sorted(project.owners)),
        )
        for name, project in sorted(books.projects.items())
    ]


def _drains(desk: Desk) -> list[tuple[DrainRow, list[DrainRow]]]:
    """Each host with its devices."""
    books, known = desk.site.books, desk.site.hardware
    by_id = {device.uuid: device for device in books.devices.values()}
    found = []
    for group in hosts(books, known, {}):
        devices = [by_id[row.uuid] for row in group.rows]
        rows = [
            DrainRow(
                group.name, device.uuid, f"{row.name} · {device.kind}", device.condition, _leases_on(books, device.uuid)
            )
            for row, device in zip(group.rows, devices, strict=True)
        ]
        host = books.hosts.get(group.name)
        condition = "ready" if host is None else host.condition
        found.append((DrainRow(group.name, "", group.name, condition, sum(row.leases for row in rows)), rows))
    return found


def _leases_on(books: Snapshot, uuid: str) -> int:
    there = books.device_books.get(uuid)
    return 0 if there is None else len(there.leases)
