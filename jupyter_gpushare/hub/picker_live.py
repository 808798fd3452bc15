"""How a picker stands now: what the service answers an open spawn page, and the hub when it renders one."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import msgspec

from jupyter_gpushare.hub.cards import CUSTOM
from jupyter_gpushare.hub.custom_share import is_within
from jupyter_gpushare.hub.picker_link import PickerLink
from jupyter_gpushare.hub.picture import CardPicture, Picture
from jupyter_gpushare.hub.picture_words import picture_of, without_project
from jupyter_gpushare.rules.event import GroupsKnown
from jupyter_gpushare.rules.lease import Kind
from jupyter_gpushare.rules.project import GROUP
from jupyter_gpushare.share import Share, ShareError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_gpushare.broker.availability_wire import AvailabilityAnswer
    from jupyter_gpushare.broker.service import Broker
    from jupyter_gpushare.rules.project import Project
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["Asked", "claimable", "picture_now", "read_link"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What the open page has selected beside a share: nothing of it is believed.

    Attributes:
        project: for which project; empty for the first.
        kind: on which kind of GPU; empty for any.
        own: a share that is being written; empty for none.
    """

    project: str = ""
    kind: str = ""
    own: str = ""


@dataclass(frozen=True, slots=True)
class _Kept:
    """What was answered at *at* by *books*."""

    books: Snapshot
    at: float
    picture: Picture


_NOTHING_ASKED: Final = Asked()
_ENFORCED: Final = frozenset({"mps", "mig"})
_HOLDS_S: Final = 10.0
_MOST_KEPT: Final = 1000
_KEPT: Final[WeakKeyDictionary[Broker, dict[bytes, _Kept]]] = WeakKeyDictionary()


def read_link(body: str, signature: str, secret: str, *, is_sent: bool = False) -> PickerLink:
    """The link that a page shows, or that the hub *is_sent*.

    Raises:
        SealError: the hub did not make it, or too long ago.
    """
    return PickerLink.read(body, signature, secret, time.time(), is_sent=is_sent)


def picture_now(broker: Broker, link: PickerLink, asked: Asked = _NOTHING_ASKED) -> Picture:
    """How *link*'s picker stands. While the books stay as they are it is worked out seldom: estimates go on."""
    kept = _KEPT.setdefault(broker, {})
    key = msgspec.msgpack.encode((msgspec.structs.replace(link, made=0.0), asked))
    now, found = broker.clock.now(), kept.pop(key, None)
    if found is None or found.books is not broker.books or not 0 <= now - found.at < _HOLDS_S:
        picture = msgspec.structs.replace(_picture(broker, link, asked), groups=_named(broker, link))
        found = _Kept(broker.books, now, picture)
    kept[key] = found
    if len(kept) > _MOST_KEPT:
        del kept[next(iter(kept))]  # whoever asked longest ago has closed its page
    return found.picture


def _picture(broker: Broker, link: PickerLink, asked: Asked) -> Picture:
    projects = claimable(broker, link)
    project = link.project or (asked.project if asked.project in projects else next(iter(projects), ""))
    if not project:
        return without_project(link.shares)
    kind = asked.kind if asked.kind in link.kinds else ""
    answer = _ask(broker, link, project, [_on_kind(text, kind) for text in link.shares])
    picture = picture_of(answer, projects, idle_timeout_s=_idle_timeout_s(broker), takes_turns=_takes_turns(broker))
    cards = [msgspec.structs.replace(card, share=text) for card, text in zip(picture.cards, link.shares, strict=True)]
    if asked.own and link.most:
        cards.append(_own(broker, link, project, _on_kind(asked.own, kind)))
    return msgspec.structs.replace(picture, cards=cards, projects=[] if link.project else projects)


def claimable(broker: Broker, link: PickerLink) -> list[str]:
    """The projects in whose name *link*'s person may claim: by its own name, or by one of its groups."""
    groups = frozenset(link.groups)

    def is_in(project: Project) -> bool:
        # By the groups that the hub tells now, and not by those that the books heard of last.
        return project.is_for(groups) or replace(project, joined=frozenset()).has(link.person)

    return sorted(name for name, project in broker.books.projects.items() if is_in(project))


def _named(broker: Broker, link: PickerLink) -> list[str]:
    """Those of *link*'s groups that make somebody a member of some project."""
    members = {name for each in broker.books.projects.values() for name in each.members}
    return [group for group in link.groups if f"{GROUP}{group}" in members]


def _idle_timeout_s(broker: Broker) -> float | None:
    """After how long idle notebooks are parked, where the admin's file says the same of every pool."""
    said = {policy.idle_timeout_s for policy in broker.configured.now.policies.values()}
    return said.pop() if len(said) == 1 else None


def _takes_turns(broker: Broker) -> bool:
    """Whether in some pool a part of a GPU is none of its computing power (DESIGN 8)."""
    return any(pool.isolation not in _ENFORCED for pool in broker.books.pools.values())


def _own(broker: Broker, link: PickerLink, project: str, text: str) -> CardPicture:
    """The card of a share that somebody writes: what is wrong with it, or how it stands."""
    try:
        share, most = Share.parse(text), Share.parse(link.most)
    except ShareError as error:
        return CardPicture(CUSTOM, "unknown", "", str(error))
    if not is_within(share, most, {"", *link.kinds}):
        return CardPicture(CUSTOM, "unknown", "not offered", f"At most {most} may be written here.")
    (card,) = picture_of(_ask(broker, link, project, [str(share)]), ()).cards
    return msgspec.structs.replace(card, share=CUSTOM)


def _on_kind(text: str, kind: str) -> str:
    """The share *text* on GPUs of *kind*, where it says none itself."""
    return text if not kind or "@" in text else f"{text.strip()}@{kind}"


def _ask(broker: Broker, link: PickerLink, project: str, shares: Sequence[str]) -> AvailabilityAnswer:
    # The person may never have been here: by its groups it would be a member.
    groups = GroupsKnown(link.person, frozenset(link.groups))
    return broker.availability(shares, project, link.person, Kind.INTERACTIVE, [groups])
