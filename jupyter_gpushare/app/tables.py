"""Projects, leases and devices as tables: the words and colours of every screen of ours."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

from jupyter_gpushare.app.division import division
from jupyter_gpushare.demo.figures import UNKNOWN, printable
from jupyter_gpushare.quantity import Fraction, Memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jupyter_gpushare.broker.wire import DeviceModel, HostModel, LeaseModel, ProjectModel

__all__ = ["STYLES", "bar", "devices_table", "leases_table", "projects_table"]

#: blue computes for a notebook, indigo is parked, green trains, orange is about to change, grey is others'.
STYLES: Final = {
    "notebook": "blue",
    "training": "green",
    "lent": "green",
    "parked": "blue_violet",
    "others": "bright_black",
    "free": "default",
    "changing": "dark_orange",
    "trouble": "red",
}
#: Each kind has a pattern too, so that colour never stands alone.
PATTERNS: Final = {"notebook": "█", "training": "▓", "lent": "▞", "parked": "▒", "others": "x", "free": "·"}
_CHANGING: Final = frozenset({"granted", "parking", "resuming", "yielding"})
_DAY_S: Final = 86400
_SOMEBODY: Final = "somebody"
_UNTOLD: Final = "Whose shares others' are is told to them, to their project's owners and to admins."


def projects_table(projects: Sequence[ProjectModel]) -> Table:
    """Every project: what it is entitled to, what it has, and what it has used, in GPU-hours."""
    table = _table("Projects (GPUs)", "project")
    for heading in ("quota", "fair share", "used", "by notebooks", "lent to it", "waiting"):
        table.add_column(heading, justify="right")
    for heading in ("held", "handed back", "on loan", "computed"):
        table.add_column(f"{heading}, GPU-h", justify="right")
    for project in sorted(projects, key=lambda each: each.name):
        usage = project.usage
        table.add_row(
            _text(project.name),
            _text(_limited(project)),
            _text(project.fair_share),
            Text(project.allocated, STYLES["training"] if _is_over(project) else ""),
            _text(project.sessions),
            _text(project.lent),
            str(project.queued),
            *(f"{hours:.1f}" for hours in (usage.held, usage.handed_back, usage.lent, usage.computed)),
        )
    return table


def leases_table(leases: Iterable[LeaseModel], now: float | None = None) -> Table:
    """Every lease: those that wait in their order, after those that have something.

    Whose a lease is, or what it is called, may not be told to whoever asks; no cell is left empty for it.
    """
    leases = sorted(leases, key=_order)
    table = _table("Leases", "name")
    if not all(lease.person for lease in leases):
        table.caption, table.caption_justify = _UNTOLD, "left"
    for heading in ("what", "project", "person", "share", "state", "since", "where", "why"):
        table.add_column(heading, overflow="fold")
    for lease in leases:
        is_session = lease.kind == "interactive"
        table.add_row(
            _text(lease.name or ("a notebook" if is_session else "a job")),
            "notebook" if is_session else "training",
            _text(lease.project),
            _text(lease.person or _SOMEBODY),
            _text(lease.share),
            state(lease),
            _since(lease.since, time.time() if now is None else now),
            _text(_where(lease)),
            _text(lease.reason.text if lease.reason is not None else ""),
        )
    return table


def devices_table(devices: Sequence[DeviceModel], hosts: Sequence[HostModel], *, most: int = 100) -> Table:
    """Every device as a bar of shares, by host; beyond *most*, only how many more there are."""
    table = _table("Devices", "host")
    for heading in ("device", "kind", "shares", "free", "notes"):
        table.add_column(heading, justify="right" if heading == "free" else "left")
    ordered = sorted(devices, key=lambda each: (each.host, each.uuid))
    conditions = {host.name: host.condition for host in hosts}
    before = ""
    for device in ordered[:most]:
        host = _text("" if device.host == before else device.host)
        before = device.host
        free = division(device)["free"]
        notes = ", ".join(_notes(device, conditions.get(device.host, "ready")))
        table.add_row(host, _text(device.uuid[:12]), _text(device.kind), bar(device), str(free), _text(notes))
    if len(ordered) > most:
        table.add_row("", Text(f"… and {len(ordered) - most} more"), "", "", "", "")
    return table


def bar(device: DeviceModel, width: int = 20) -> Text:
    """One device: what notebooks and training compute with, what is parked and lent, others', and what is free."""
    text = Text()
    shown, filled = Fraction.ZERO, 0
    for kind, amount in division(device).items():
        shown += amount
        end = min(width, round(width * shown.millionths / Fraction.PER_GPU))
        text.append(PATTERNS[kind] * (end - filled), STYLES[kind])
        filled = end
    return text + Text(PATTERNS["free"] * (width - filled), STYLES["free"])


def state(lease: LeaseModel) -> Text:
    """Where it is, in a word or two."""
    if lease.status == "queued":
        return Text(f"waiting, {lease.place} in line" if lease.place else "waiting", "")
    words = {"missing": "out of contact", "yielding": "giving back"}
    return Text(words.get(lease.status, lease.status), _state_style(lease))


def _state_style(lease: LeaseModel) -> str:
    if lease.status in _CHANGING:
        return STYLES["changing"]
    if lease.status in ("missing", "failed"):
        return STYLES["trouble"]
    if lease.status == "parked":
        return STYLES["parked"]
    return STYLES["notebook" if lease.kind == "interactive" else "training"]


def _order(lease: LeaseModel) -> tuple[int, int, float, str]:
    waits = lease.status == "queued"
    return int(waits), lease.place or 0, lease.submitted, lease.id


def _where(lease: LeaseModel) -> str:
    """What it has where; of a parked one, who uses that now."""
    parts = [f"{grant.amount} of {grant.device[:12]} ({Memory(grant.memory).human})" for grant in lease.grants]
    if lease.lent not in ("", "0"):
        parts.append(f"{lease.lent} of it lent")
    parts += [f"lent to {each.name or _SOMEBODY} of {each.project}" for each in lease.lent_to]
    return ", ".join(parts) or UNKNOWN


def _since(at: float, now: float) -> str:
    style = "%H:%M" if now - at < _DAY_S else "%d %b %H:%M"
    return time.strftime(style, time.localtime(at))


def _limited(project: ProjectModel) -> str:
    return project.quota if project.limit in ("", "unlimited") else f"{project.quota} (at most {project.limit})"


def _is_over(project: ProjectModel) -> bool:
    return Fraction.parse(project.allocated) > Fraction.parse(project.quota)


def _notes(device: DeviceModel, host: str) -> Iterable[str]:
    if device.condition != "ready" or host != "ready":
        yield device.condition if device.condition != "ready" else f"host {host}"
    if device.over_committed:
        yield "over-committed"
    if device.trespassed:
        yield "used by programs of no share"
    if Fraction.parse(device.foreign) > Fraction.ZERO:
        yield f"{device.foreign} taken by others"


def _text(text: str) -> Text:
    """What somebody else wrote: neither the terminal nor the table's own markup obeys it."""
    return Text(printable(text))


def _table(title: str, first: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(first, overflow="fold")
    return table
