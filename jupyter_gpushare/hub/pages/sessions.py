"""My shares: one's own sessions and jobs, what can be done with them, what was before, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.hub.pages.history import Story, stories_of
from jupyter_gpushare.hub.pages.parts import Content
from jupyter_gpushare.hub.pages.wording import UNKNOWN, clock, hours, memory, state_of
from jupyter_gpushare.hub.site import AuditAsked
from jupyter_gpushare.rules.lease import Status, Target

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from markupsafe import Markup

    from jupyter_gpushare.broker.models import View
    from jupyter_gpushare.broker.wire import LeaseModel, LentModel
    from jupyter_gpushare.devices.device import Device
    from jupyter_gpushare.hub.pages.parts import Desk
    from jupyter_gpushare.hub.site import Site, Viewer
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["Card", "PastRow", "content", "look_of", "where_of"]

_DAYS: Final = 30
_DAY_S: Final = 86400
#: How old what is told of the past may be.
_HISTORY_S: Final = 5.0
#: Lines of the audit that the history is told by: one's own of some weeks.
_LINES: Final = 1000
_MOST_PAST: Final = 25
_MOST_OWN: Final = 100
_RELEASE: Final = {
    True: "Its GPU state moves to host memory; nothing is lost, and your next cell brings it back.",
    False: "The job saves its work, leaves the GPU and waits again.",
}
_END: Final = {
    True: (
        "Its place on the GPU is no longer kept for you. The notebook server goes on, its GPU state moves to host "
        "memory, and the next cell that needs a GPU asks for a share anew, which may have to wait."
    ),
    False: "Stops the job for good; what it has not saved is lost.",
}
_ENDED_BY: Final = {"": "ended", "HOLDER_GONE": "its process ended"}


@dataclass(frozen=True, slots=True)
class Card:
    """One of one's own leases.

    Attributes:
        look: which colour: a `bars.Use`, or ``wait``.
        where: its devices, in words.
        lent_to: who uses what it lends; a sentence, empty for nobody.
        actions: what can be done, the likely one first: ``release``, ``resume``, ``stay`` parked, ``cancel``,
            ``end``.
        advice: why something cannot be done; empty for nothing.
        release_note: what releasing does.
        end_note: what ending does.
    """

    id: str
    name: str
    kind: str
    project: str
    share: str
    means: str
    state: str
    look: str
    since: Markup
    reason: str
    where: str
    memory: str
    lent_to: str
    held: str
    handed_back: str
    actions: tuple[str, ...]
    advice: str
    release_note: str
    end_note: str


@dataclass(frozen=True, slots=True)
class PastRow:
    """One lease that is over."""

    began: Markup
    ended: Markup
    project: str
    share: str
    held: str
    handed_back: str
    parks: int
    how: str


async def content(desk: Desk) -> Content:
    """What "my shares" shows."""
    site, viewer = desk.site, desk.viewer
    stories = await desk.told(_stories(site, viewer))
    by_lease = {story.lease: story for story in stories or ()}
    view = site.view
    own = sorted(
        (lease for lease in view.books.leases.values() if lease.person == viewer.person),
        key=lambda lease: (lease.submitted, lease.id),
    )
    cards = [_card(lease, view, viewer, by_lease.get(lease.id), site.hardware) for lease in own[:_MOST_OWN]]
    past = [_past(story) for story in stories or () if story.ended is not None][:_MOST_PAST]
    fragments = {
        "sums": desk.part("sums", sums=_sums(own, stories), days=_DAYS),
        **{f"lease-{card.id}": desk.part("lease_card", card=card) for card in cards},
        "past": desk.part("past", rows=past, is_known=stories is not None, days=_DAYS),
    }
    values = {"cards": cards, "more": len(own) - len(cards)}
    return Content("My shares", fragments, values)


async def _stories(site: Site, viewer: Viewer) -> list[Story]:
    asked = AuditAsked(where={"person": viewer.person}, since=site.now - _DAYS * _DAY_S, limit=_LINES)

    async def ask() -> list[Story]:
        lines = await site.audit(asked)
        return stories_of((line.entry for line in reversed(lines)), site.now)

    return await site.kept(f"history of {viewer.person}", ask, _HISTORY_S)


def _sums(own: Sequence[Lease], stories: Sequence[Story] | None) -> list[tuple[str, str]]:
    running = sum(lease.is_resident for lease in own)
    parked = sum(lease.is_session and lease.status is Status.PARKED for lease in own)
    known = stories is not None
    return [
        (str(running), "on a GPU now"),
        (str(parked), "parked"),
        (hours(sum(story.held for story in stories or ())) if known else UNKNOWN, "GPU time used"),
        (hours(sum(story.handed_back for story in stories or ())) if known else UNKNOWN, "GPU time handed back"),
    ]


def _card(lease: Lease, view: View, viewer: Viewer, story: Story | None, hardware: Mapping[str, Device]) -> Card:
    model = view.lease(lease)
    is_parked = lease.status is Status.PARKED
    return Card(
        id=lease.id,
        name=lease.name,
        kind="Notebook server" if lease.is_session else "Training job",
        project=lease.project,
        share=str(lease.share),
        means=lease.share.describe(),
        state=state_of(model),
        look=look_of(lease),
        since=clock(lease.since),
        reason="" if model.reason is None else model.reason.text,
        where=where_of(lease, view.books, hardware),
        memory=memory(sum(grant.memory for grant in model.grants)) if model.grants and not is_parked else "",
        lent_to=_lent_to(model, viewer) if is_parked else "",
        held=UNKNOWN if story is None else hours(story.held),
        handed_back=UNKNOWN if story is None else hours(story.handed_back),
        actions=_actions(lease),
        advice="" if lease.is_parkable or not lease.is_session else "It cannot be parked.",
        release_note=_RELEASE[lease.is_session],
        end_note=_END[lease.is_session],
    )


def look_of(lease: Lease) -> str:
    """The colour of *lease*: what a `bars.Use` is called, or ``wait``."""
    if lease.is_waiting or (lease.status is Status.PARKED and lease.target is Target.RUNNING):
        return "wait"
    if lease.status is Status.PARKED:
        return "park"
    if lease.is_unsettled:
        return "move"
    return "run" if lease.is_session else "train"


def where_of(lease: Lease, books: Snapshot, hardware: Mapping[str, Device]) -> str:
    """Its devices, in words."""
    said = []
    for uuid in lease.devices:
        device, known = books.devices.get(uuid), hardware.get(uuid)
        if device is not None:
            said.append(f"{device.host} · {known.index}" if known is not None else f"{device.host} · {device.kind}")
    return ", ".join(said)


def _lent_to(model: LeaseModel, viewer: Viewer) -> str:
    """Who uses it meanwhile: projects that the viewer sees by name, and no names of people or notebooks."""
    users = sorted({_user(each, viewer) for each in model.lent_to})
    return f"Used meanwhile by {' and '.join(users)}." if users else ""


def _user(each: LentModel, viewer: Viewer) -> str:
    kind = "training" if each.name else "a notebook"
    return f"{kind} of {each.project}" if viewer.sees_project(each.project) else kind


def _actions(lease: Lease) -> tuple[str, ...]:
    if lease.target is Target.ENDED or lease.is_over:
        return ()
    if lease.status is Status.QUEUED:
        return ("cancel",)
    if lease.is_session and lease.target is Target.PARKED:
        return ("resume", "end")
    if lease.is_session and lease.status is Status.PARKED:
        return ("stay", "end")
    can_release = lease.status is Status.RUNNING and (lease.is_parkable or not lease.is_session)
    return ("release", "end") if can_release else ("end",)


def _past(story: Story) -> PastRow:
    how = _ENDED_BY.get(story.reason, story.reason.lower().replace("_", " "))
    return PastRow(
        clock(story.began),
        clock(story.ended),
        story.project,
        story.share or UNKNOWN,
        hours(story.held),
        hours(story.handed_back),
        story.parks,
        f"failed: {how}" if story.has_failed and story.reason else how,
    )
