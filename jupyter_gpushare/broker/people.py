"""Which groups people are in: learned with every request and claim, and kept for those who are not there to ask."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from jupyter_gpushare.broker import hub_wire
from jupyter_gpushare.broker.ledger import LedgerError
from jupyter_gpushare.broker.ledger_records import Membership
from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.event import GroupsKnown
from jupyter_gpushare.rules.project import GROUP
from jupyter_gpushare.rules.snapshot import ProjectBooks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from jupyter_gpushare.broker.access import Caller
    from jupyter_gpushare.broker.clock import Clock
    from jupyter_gpushare.broker.ledger import Ledger
    from jupyter_gpushare.broker.reconciler import Reconciler
    from jupyter_gpushare.rules.project import Project
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["NOBODY_KNOWN", "People"]

_LOG: Final = logging.getLogger(__name__)
_T = TypeVar("_T")
#: What is known of somebody of whom nothing is.
NOBODY_KNOWN: Final[frozenset[str]] = frozenset()


class _Asks(Protocol):
    async def __call__(self, question: Callable[[Ledger], _T], /) -> _T: ...


class People:
    """For one event loop.

    Args:
        reconciler: hears of groups that alter who is in a project.
        clock: what time it is.
        ask: asks the ledger something, in its thread; may raise LedgerError.
    """

    def __init__(self, reconciler: Reconciler, clock: Clock, ask: _Asks) -> None:
        self._reconciler = reconciler
        self._clock = clock
        self._ask = ask
        self._known: dict[str, Membership] = {}
        self._unkept: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    async def remember(self) -> None:
        """Begin with what the ledger has.

        Raises:
            LedgerError: it cannot be asked.
        """
        known: Callable[[Ledger], Mapping[str, Membership]] = lambda ledger: ledger.memberships()  # noqa: E731  # for its type
        self._known = dict(await self._ask(known))

    async def stop(self) -> None:
        """Keep what is not kept yet, if that can be."""
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    def groups_of(self, person: str) -> frozenset[str]:
        """The groups of *person*, as was told last."""
        known = self._known.get(person)
        return NOBODY_KNOWN if known is None else known.groups

    def events(self) -> list[GroupsKnown]:
        """Everybody's groups, for projects that are new to them."""
        return [GroupsKnown(person, each.groups) for person, each in self._known.items()]

    def learn(self, caller: Caller) -> None:
        """Take what whoever identified *caller* says of its groups."""
        if caller.groups is None or caller.kind != "person":
            return
        if caller.groups == self.groups_of(caller.person) and caller.person in self._known:
            return
        self.hear(caller.person, caller.groups)

    def hear(self, person: str, groups: frozenset[str]) -> None:
        """Take that *person* is in *groups*: in the books where that alters who is in a project, and for later."""
        if self._alters(self._reconciler.snapshot, person, groups):
            self._reconciler.tell(GroupsKnown(person, groups))
        self.keep(person, groups)

    def keep(self, person: str, groups: frozenset[str]) -> None:
        """Remember that *person* is in *groups*, and soon have it kept; nobody waits for that."""
        known = self._known.get(person)
        self._known[person] = Membership(groups, self._clock.now())
        if known is None or known.groups != groups:
            self._unkept.add(person)
        if self._unkept and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._keep_all())

    async def _keep_all(self) -> None:
        while self._unkept:
            unkept = {person: self._known[person] for person in self._unkept}
            self._unkept.clear()
            try:
                await self._ask(lambda ledger, unkept=unkept: ledger.keep_memberships(unkept))  # type: ignore[misc]  # bound now
            except LedgerError as error:
                self._unkept |= unkept.keys()
                _LOG.warning("The groups of %d people are kept later: %s", len(unkept), error)
                return

    def membership(self, person: str, books: Snapshot) -> hub_wire.MembershipModel:
        """What is known of *person*."""
        known = self._known.get(person)
        groups = NOBODY_KNOWN if known is None else known.groups
        mine = [each for _, each in sorted(books.projects.items()) if each.has(person) or each.is_for(groups)]
        owned = [each.name for _, each in sorted(books.projects.items()) if each.is_owned_by(person, groups)]
        seen = None if known is None else known.seen
        return hub_wire.MembershipModel(person, sorted(groups), [each.name for each in mine], owned, seen)

    def members(self, project: Project, books: Snapshot) -> hub_wire.MembersAnswer:
        """The people of *project*, by name."""
        used = books.project_books.get(project.name, ProjectBooks())
        named = {name for name in project.members | project.owners if not name.startswith(GROUP) and name != "*"}
        holding = {books.leases[key].person for key in used.leases}
        everybody = named | project.joined | project.added | project.limits.keys() | holding
        members = [
            hub_wire.MemberModel(
                person,
                str(used.persons.get(person, Fraction.ZERO)),
                str(project.limit_of(person)),
                person in project.limits,
                next(self._via(project, person), ""),
                project.is_owned_by(person, self.groups_of(person)),
            )
            for person in sorted(everybody)
        ]
        return hub_wire.MembersAnswer(project.name, sorted(project.members), sorted(project.owners), members)

    def _via(self, project: Project, person: str) -> Iterator[str]:
        if person in project.members:
            return
        if person in project.added:
            yield "owner"
        yield from (
            f"{GROUP}{group}" for group in sorted(self.groups_of(person)) if f"{GROUP}{group}" in project.members
        )

    @staticmethod
    def _alters(books: Snapshot, person: str, groups: frozenset[str]) -> bool:
        return any(each.is_for(groups) != (person in each.joined) for each in books.projects.values())
