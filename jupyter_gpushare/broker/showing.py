"""Leases shown to somebody: many of them without keeping everybody else waiting, and one to many watchers at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, cast

import msgspec

from jupyter_gpushare.broker import wire
from jupyter_gpushare.broker.access import is_allowed, is_named, is_personal, roles_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jupyter_gpushare.broker.access import Caller
    from jupyter_gpushare.broker.models import View
    from jupyter_gpushare.rules.lease import Lease

__all__ = ["message_about", "of_person", "sees", "show", "show_one"]

# So many take a millisecond or two: then everybody else has a turn.
_AT_ONCE: Final = 100
_encode: Final = msgspec.json.Encoder().encode


def sees(caller: Caller | None, view: View, lease: Lease) -> bool:
    """Whether *caller* is told of *lease* at all."""
    return is_allowed("lease", "GET", roles_of(caller, view.books, lease))


def of_person(caller: Caller, view: View, leases: Iterable[Lease], person: str) -> list[Lease]:
    """Those of *leases* of which *caller* may know that they are *person*'s: what is left out would tell it, too."""
    projects = view.books.projects
    return [each for each in leases if each.person == person and is_personal(caller, each, projects.get(each.project))]


async def show(caller: Caller, view: View, leases: Sequence[Lease]) -> list[wire.LeaseModel]:
    """Those of *leases* that *caller* may see, in that order, as JSON already: for an answer, and for nothing else."""
    shown: list[msgspec.Raw] = []
    for first in range(0, len(leases), _AT_ONCE):
        if first:
            await asyncio.sleep(0)
        there = [lease for lease in leases[first : first + _AT_ONCE] if sees(caller, view, lease)]
        models = (show_one(caller, view, lease) for lease in there)
        shown += [msgspec.Raw(_encode(model)) for model in models]
    return cast("list[wire.LeaseModel]", shown)


def show_one(caller: Caller, view: View, lease: Lease) -> wire.LeaseModel:
    """*lease*, with what *caller* may know of it."""
    project = view.books.projects.get(lease.project)
    return view.lease(lease, named=is_named(caller, lease, project), personal=is_personal(caller, lease, project))


def message_about(lease: Lease, caller: Caller, view: View) -> bytes:
    """What a watcher is sent when *lease* has changed: made once for all who are told the same."""
    project = view.books.projects.get(lease.project)
    key = (lease.id, is_named(caller, lease, project), is_personal(caller, lease, project))
    if key not in view.messages:
        view.messages[key] = _encode(wire.LeaseMessage(view.lease(lease, named=key[1], personal=key[2])))
    return view.messages[key]
