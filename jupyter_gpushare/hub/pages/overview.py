"""The overview: what there is, what it is used for, how teams stand, who waits, and how the day went."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.hub.pages.bars import WORDS, Use
from jupyter_gpushare.hub.pages.day_picture import HEIGHT, WIDTH, picture_of
from jupyter_gpushare.hub.pages.device_rows import HostGroup, hosts, is_folded, matching
from jupyter_gpushare.hub.pages.parking_report import report_of
from jupyter_gpushare.hub.pages.parts import Content
from jupyter_gpushare.hub.pages.queue import queue_of
from jupyter_gpushare.hub.pages.standings import rows_of, total_hours
from jupyter_gpushare.hub.pages.wording import UNKNOWN, gpus, hours, number_of, per_cent
from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.fair_share import capacity
from jupyter_gpushare.rules.lease import Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_gpushare.broker.ledger import UsageHours
    from jupyter_gpushare.broker.models import View
    from jupyter_gpushare.hub.pages.parts import Desk
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["content"]

_WEEK: Final = 7
_HTML: Final = "HTML of "


async def content(desk: Desk) -> Content:
    """What the overview shows."""
    site = desk.site
    used = await desk.told(site.hours(_WEEK))
    day = await desk.told(_day(desk))
    report = await desk.told(site.report(_WEEK))
    groups = matching(_groups(desk), desk.asked.search)
    fragments = {
        "subline": site.once("overview subline", lambda view: desk.part("subline", said=_subline(view.books))),
        "figures": desk.part("figures", figures=_figures(desk, used)),
        **_device_fragments(desk, groups),
        "standings": desk.part(
            "standings", rows=rows_of(site.books, used or {}, desk.viewer), is_known=used is not None
        ),
        "queue": desk.part("queue", queue=queue_of(site.view, desk.viewer)),
        "day": desk.part("day_unknown") if day is None else day,
        "report": desk.part("report", report=None if report is None else report_of(report, desk.viewer)),
    }
    values = {"groups": groups, "is_folded": is_folded(_groups(desk)), "legend": _legend(site.books), "days": _WEEK}
    return Content("Overview", fragments, values)


async def _day(desk: Desk) -> str:
    """The picture of the day: the same for all who look, and drawn once for all of them."""

    async def draw() -> str:
        return desk.part("day", picture=picture_of(await desk.site.day()), width=WIDTH, height=HEIGHT)

    return await desk.site.kept("picture of the day", draw)


def _groups(desk: Desk) -> list[HostGroup]:
    return desk.site.once("hosts", lambda view: hosts(view.books, desk.site.hardware, desk.site.busy, desk.site.again))


def _device_fragments(desk: Desk, groups: Sequence[HostGroup]) -> dict[str, str]:
    """A fragment for each host and device: the same for all who look, and written once for all."""
    written: dict[str, str] = desk.site.once("overview devices", lambda _: _written(desk))
    wanted = [identifier for group in groups for identifier in (group.id, *(row.id for row in group.rows))]
    return {identifier: written[identifier] for identifier in wanted if identifier in written}


def _written(desk: Desk) -> dict[str, str]:
    groups = _groups(desk)
    folded, again = is_folded(groups), desk.site.again
    found: dict[str, str] = {}
    for group in groups:
        if folded:
            found[group.id] = desk.part("host_row", group=group)
        for row in group.rows:
            name = row.name if folded else f"{group.name} · {row.name}"
            found[row.id] = again(
                f"{_HTML}{row.uuid}", (row,), partial(desk.part, "device_row", row=row, name=name), name
            )
    again.keep_only(_HTML, {f"{_HTML}{row.uuid}" for group in groups for row in group.rows})
    return found


def _subline(books: Snapshot) -> str:
    sessions = sum(lease.is_session for lease in books.leases.values())
    parts = [
        number_of(len(books.devices), "device"),
        number_of(len(books.projects), "project"),
        number_of(sessions, "notebook server"),
        number_of(len(books.leases) - sessions, "training job"),
    ]
    return " · ".join(parts)


def _figures(desk: Desk, used: Mapping[str, UsageHours] | None) -> list[tuple[str, str]]:
    """The large numbers on top, with what each is."""
    amounts = desk.site.once("overview amounts", _amounts)
    busy = desk.site.busy
    computing = per_cent(sum(busy.values()) / len(busy)) if busy else per_cent(None)
    handed_back = UNKNOWN if used is None else hours(total_hours(used.values())[0])
    return [
        (amounts["allocated"], "GPUs allocated"),
        (computing, "computing now" if busy else "computing now: not measured"),
        (amounts["parked"], "notebook servers parked"),
        (handed_back, "GPU time handed back this week"),
    ]


def _amounts(view: View) -> Mapping[str, str]:
    books = view.books
    there = [books.device_books[uuid] for uuid in books.device_books if uuid in books.devices]
    held = Fraction.total([*(each.held for each in there), *(each.parked - each.lent for each in there)])
    parked = sum(lease.is_session and lease.status is Status.PARKED for lease in books.leases.values())
    whole = Fraction(capacity(books))
    return {"allocated": f"{gpus(held)} / {str(whole) if whole else '0'}", "parked": f"{parked:,}"}


def _legend(books: Snapshot) -> list[tuple[str, str]]:
    """What the bars' colours are called; where sessions may borrow too, lent is not only lent to training."""
    is_to_training = all(pool.resume == "guaranteed" for pool in books.pools.values())
    words = {**WORDS, Use.LENT: "lent to training"} if is_to_training else WORDS
    return [(use.value, words[use]) for use in Use]
