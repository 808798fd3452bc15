"""What the hub's pages look at: who looks, and the broker's books. Nothing here changes anything.

The pages never touch the broker itself. What they may not show stands in `pages.anonymity`, and is asked of a `Viewer`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import is_
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from jupyter_gpushare.broker.asks import model_of as ask_model
from jupyter_gpushare.broker.ledger import Span

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

    from jupyter_gpushare.broker.hub_wire import AskModel, DayAnswer, MembersAnswer, ParkingReport
    from jupyter_gpushare.broker.ledger import Recorded, UsageHours
    from jupyter_gpushare.broker.models import View
    from jupyter_gpushare.broker.service import Broker
    from jupyter_gpushare.broker.wire import BrokerModel, ProjectModel
    from jupyter_gpushare.devices.device import Device
    from jupyter_gpushare.rules.project import Project
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["Again", "AuditAsked", "ProjectStanding", "Site", "Viewer"]

_KEPT_S: Final = 30.0
_DAY_S: Final = 86400.0
_MOST_ASKS: Final = 1000
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks at a page.

    Attributes:
        person: the hub user's name.
        groups: the hub's groups that it is in.
        is_admin: whether it may do what admins may.
        projects: the projects in whose name it may claim: what it sees of how teams stand.
        owned: the projects that it owns: it sees their people and notebooks by name.
    """

    person: str
    groups: frozenset[str] = frozenset()
    is_admin: bool = False
    projects: frozenset[str] = frozenset()
    owned: frozenset[str] = frozenset()

    @classmethod
    def of(cls, books: Snapshot, person: str, groups: Collection[str] = (), *, is_admin: bool = False) -> Self:
        """*person* as the books see it, with the hub's *groups* of it."""
        known = frozenset(groups)
        owned = frozenset(name for name, each in books.projects.items() if each.is_owned_by(person, known))
        seen = frozenset(name for name, each in books.projects.items() if each.has(person) or each.is_for(known))
        return cls(person, known, is_admin, seen | owned, owned)

    def sees_project(self, project: str) -> bool:
        """Whether it is told how *project* stands."""
        return self.is_admin or project in self.projects

    def owns_project(self, project: str) -> bool:
        """Whether it may look after *project*."""
        return self.is_admin or project in self.owned


@dataclass(frozen=True, slots=True)
class ProjectStanding:
    """A project as the books have it, members and owners included, and how it stands."""

    project: Project
    model: ProjectModel


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditAsked:
    """Which lines of the audit are wanted, newest first.

    Attributes:
        where: some of `ledger.AUDIT_COLUMNS`, each with what it must be equal to.
        since: seconds since the epoch; None for all there are.
        until: seconds since the epoch; None for now.
        before: only lines with a lower number: where the page before ended. None for the newest.
        limit: at most so many.
    """

    where: Mapping[str, str] = field(default_factory=dict)
    since: float | None = None
    until: float | None = None
    before: int | None = None
    limit: int = 100


class Again:
    """Makes something anew only of other things than the last time.

    Books share what did not change with those before, so of a hundred devices a few are other ones; and whoever makes a
    page keeps the broker waiting meanwhile.
    """

    def __init__(self) -> None:
        self._made: dict[str, tuple[tuple[object, ...], object, Any]] = {}

    def __call__(self, key: str, of: tuple[object, ...], make: Callable[[], _T], alike: object = None) -> _T:
        """What *make* makes of the very things *of*, and of something that is equal to *alike*."""
        known = self._made.get(key)
        if known is not None and len(known[0]) == len(of) and known[1] == alike and all(map(is_, known[0], of)):
            result: _T = known[2]
            return result
        made = make()
        self._made[key] = (of, alike, made)
        return made

    def keep_only(self, prefix: str, keys: Collection[str]) -> None:
        """Of those keys that begin with *prefix*, forget all but *keys*."""
        for key in [key for key in self._made if key.startswith(prefix) and key not in keys]:
            del self._made[key]


class Site:
    """The broker's books, for pages. One for a process; for the broker's own event loop.

    Args:
        broker: the started broker.

    Attributes:
        again: remembers what was made of single things.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._made: tuple[View, dict[str, Any]] | None = None
        self._kept: dict[str, tuple[float, Any]] = {}
        self.again = Again()

    @property
    def view(self) -> View:
        """The newest books that are kept, for showing."""
        return self._broker.view()

    @property
    def books(self) -> Snapshot:
        """The newest books that are kept."""
        return self._broker.books

    @property
    def now(self) -> float:
        """The broker's time, in seconds since the epoch."""
        return self._broker.clock.now()

    @property
    def trouble(self) -> str:
        """Why the broker cannot keep its books now, for people; empty while it can."""
        trouble = self._broker.reconciler.trouble
        return "" if trouble is None else str(trouble)

    @property
    def broker(self) -> BrokerModel:
        """The broker itself."""
        return self._broker.model()

    @property
    def hardware(self) -> Mapping[str, Device]:
        """The devices as their driver names them, by UUID; those that it showed last."""
        last = self._broker.evidence.last
        return {} if last is None else {device.uuid: device for device in last.devices}

    @property
    def busy(self) -> Mapping[str, float]:
        """How busy each device was when it was looked at last, as a part of one; only of those that tell."""
        last = self._broker.evidence.last
        return {} if last is None else {uuid: percent / 100 for uuid, percent in last.utilisation.items()}

    @property
    def source(self) -> str:
        """Where projects and quotas come from: ``file``, ``api`` or ``default``. A file's are changed in the file."""
        return self._broker.configured.source

    @property
    def is_simulated(self) -> bool:
        """Whether no device here is real."""
        last = self._broker.evidence.last
        return last is not None and last.driver.vendor == "simulated"

    def viewer(self, person: str, groups: Collection[str] = (), *, is_admin: bool = False) -> Viewer:
        """*person* as the newest books see it."""
        return Viewer.of(self.books, person, groups, is_admin=is_admin)

    def once(self, key: str, make: Callable[[View], _T]) -> _T:
        """What *make* makes of the newest view: made once for all who look, and again when there is a newer one."""
        view = self.view
        if self._made is None or self._made[0] is not view:
            self._made = (view, {})
        made = self._made[1]
        if key not in made:
            made[key] = make(view)
        result: _T = made[key]
        return result

    async def projects(self) -> Sequence[ProjectStanding]:
        """Every project by name, with the GPU-hours of the last 30 days."""
        return [ProjectStanding(project, model) for project, model in await self._broker.projects()]

    async def audit(self, asked: AuditAsked) -> Sequence[Recorded]:
        """A page of the audit, newest first.

        Raises:
            LedgerError: it cannot be asked now.
        """
        span = Span(newest_first=True, before=asked.before, since=asked.since, until=asked.until)
        where, limit = dict(asked.where), asked.limit
        return await self._broker.ask_ledger(lambda ledger: ledger.audit(limit=limit, where=where, span=span))

    async def hours(self, days: int) -> Mapping[str, UsageHours]:
        """GPU-hours of the last *days* by project.

        Raises:
            LedgerError: they cannot be asked for now.
        """
        until = self.now + 1
        since = until - days * _DAY_S

        async def ask() -> Mapping[str, UsageHours]:
            found = await self._broker.ask_ledger(lambda ledger: ledger.usage_of_projects(since=since, until=until))
            return {each.project: each for each in found}

        return await self.kept(f"hours of {days}", ask)

    async def day(self) -> DayAnswer:
        """The last day, for its picture.

        Raises:
            LedgerError: it cannot be asked for now.
        """
        return await self.kept("day", self._broker.past.day)

    async def report(self, days: int) -> ParkingReport:
        """What parking won in the last *days*, and what it would have won where it is off or observed.

        Raises:
            LedgerError: it cannot be asked for now.
        """
        return await self.kept(f"report of {days}", lambda: self._broker.past.report(days))

    async def asks(self) -> Sequence[AskModel]:
        """What members ask for, the newest of all of them, decided ones included.

        Raises:
            LedgerError: they cannot be asked for now.
        """
        found = await self.kept("asks", lambda: self._broker.ask_ledger(lambda ledger: ledger.asks(limit=_MOST_ASKS)))
        return [ask_model(each) for each in found]

    def members(self, project: str) -> MembersAnswer:
        """The people of *project*, for those who own it."""
        books = self.books
        return self._broker.people.members(books.projects[project], books)

    def forget(self) -> None:
        """Somebody has just changed something by hand, and wants to see it: what was kept is asked for again."""
        self._kept.clear()

    async def kept(self, key: str, ask: Callable[[], Awaitable[_T]], for_s: float = _KEPT_S) -> _T:
        """What *ask* answers, asked for at most once in *for_s* seconds: many look at it, and it changes slowly."""
        now = self.now
        known = self._kept.get(key)
        # A clock that was set back keeps nothing longer.
        if known is not None and known[0] - for_s <= now < known[0]:
            result: _T = known[1]
            return result
        answer = await ask()
        self._kept = {each: (until, value) for each, (until, value) in self._kept.items() if now < until}
        self._kept[key] = (now + for_s, answer)
        return answer
