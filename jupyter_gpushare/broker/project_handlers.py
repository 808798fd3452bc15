"""The routes about projects and the people in them: members, limits, and what is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker import hub_wire, wire
from jupyter_gpushare.broker.access import is_allowed, may_see_project, owns
from jupyter_gpushare.broker.asks import amount_of, check_limit, model_of
from jupyter_gpushare.broker.handlers import API, BrokerHandler
from jupyter_gpushare.broker.models import with_people
from jupyter_gpushare.broker.public_error import PublicError, bad_request, forbidden, not_found, printable
from jupyter_gpushare.rules.event import MemberSet, QuotaSet
from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.rules.project import GROUP

if TYPE_CHECKING:
    from jupyter_gpushare.rules.event import Event
    from jupyter_gpushare.rules.project import Project

__all__ = ["ROUTES"]

_LONGEST_NAME: Final = 200


class ProjectsHandler(BrokerHandler):
    """Projects."""

    route = "projects"

    async def get(self) -> None:
        """Those that the asker may see."""
        asker = self.person
        seen = [
            with_people(model, project) if asker.is_admin or owns(asker, project) else model
            for project, model in await self.broker.projects()
            if may_see_project(asker, project)
        ]
        self.answer(wire.ProjectsAnswer(seen))


class ProjectHandler(BrokerHandler):
    """One project, of its owners and admins alone."""

    is_about_one = True

    def check_project(self, name: str) -> Project:
        """The project, if the caller may do with it what it asks for. What one may not see does not exist."""
        project = self.broker.books.projects.get(name)
        if project is not None and is_allowed(self.route, self.verb, self.roles(project=project)):
            return project
        if self.caller is None or (project is not None and may_see_project(self.caller, project)):
            self.refuse()
        if self.caller.kind != "person" or self.caller.lease:
            self.refuse()
        raise not_found("project", name)

    def by(self) -> str:
        """Who does it, for the audit."""
        return self.person.person


class MembersHandler(ProjectHandler):
    """Its people."""

    route = "members"

    def get(self, project: str) -> None:
        """All that are known."""
        self.answer(self.broker.people.members(self.check_project(project), self.broker.books))


class MemberHandler(ProjectHandler):
    """One of its people."""

    route = "member"

    async def put(self, project: str, person: str) -> None:
        """Make somebody a member."""
        found = self.check_project(project)
        await self.submit(MemberSet(found.name, _person(person), self.by(), is_member=True, why=self.why()))
        self._show(found.name)

    async def delete(self, project: str, person: str) -> None:
        """Take that back. Whom the file names, or a group brings, stays a member: of them nothing is taken back."""
        found = self.check_project(project)
        if _person(person) not in found.added and found.has(person):
            template = "{person} is a member by the admin's file or by a group; that is changed there."
            raise PublicError(409, Message("CONFIGURED_BY_FILE", template, {"person": printable(person)}), "person")
        await self.submit(MemberSet(found.name, person, self.by(), is_member=False, why=self.why()))
        self._show(found.name)

    def why(self) -> str:
        """What the asker writes about it."""
        return printable(self.get_query_argument("why", ""))

    def _show(self, name: str) -> None:
        project = self.broker.books.projects.get(name)
        if project is None:
            raise not_found("project", name)
        self.answer(self.broker.people.members(project, self.broker.books))


class LimitsHandler(ProjectHandler):
    """Its limits."""

    route = "limits"

    async def put(self, project: str) -> None:
        """Others from now on. Nothing is taken from what runs."""
        found = self.check_project(project)
        request = self.read(hub_wire.LimitsRequest)
        events = [*self._of_person(found, request), *self._quota(found, request)]
        if not events:
            raise bad_request("nothing is to be changed; give a limit with a person, or a quota", "limit")
        await self.submit(*events)
        after = self.broker.books.projects.get(found.name, found)
        self.answer(self.broker.people.members(after, self.broker.books))

    def _of_person(self, project: Project, request: hub_wire.LimitsRequest) -> list[Event]:
        if request.limit is None:
            return []
        person, why = _person(request.person), printable(request.why)
        if not request.limit:
            return [MemberSet(project.name, person, self.by(), drops_limit=True, why=why)]
        limit = amount_of(request.limit, "limit")
        if not limit.is_unlimited:
            check_limit(project, limit)
        return [MemberSet(project.name, person, self.by(), limit=limit, why=why)]

    def _quota(self, project: Project, request: hub_wire.LimitsRequest) -> list[Event]:
        if request.quota is None:
            return []
        if not self.person.is_admin:
            raise forbidden("NOT_AN_ADMIN", "A project's quota is set by admins; ask for it, and one decides.")
        quota = amount_of(request.quota, "quota")
        self.broker.asks.check_quota(quota, project)
        return [QuotaSet(project.name, quota, self.by(), printable(request.why))]


class MembershipsHandler(BrokerHandler):
    """What is known of one person."""

    route = "memberships"

    def get(self) -> None:
        """Of oneself; of others for those who may claim for them."""
        person = self.get_query_argument("person", "") or self.person.person
        is_own = self.person.kind == "person" and person == self.person.person
        if not is_own and not self.person.is_admin and self.person.kind != "hub":
            raise forbidden("ANOTHER_PERSON", "You may ask about yourself alone; leave the person out.")
        self.answer(self.broker.people.membership(person, self.broker.books))


class AsksHandler(BrokerHandler):
    """What members ask for."""

    route = "asks"

    async def get(self) -> None:
        """Those that the asker may see, newest first."""
        state, project = self.get_query_argument("state", "", strip=False), self.get_query_argument("project", "")
        self.answer(await self.broker.asks.all(self.person, state, project))

    async def post(self) -> None:
        """Ask for more."""
        if self.person.kind != "person":
            raise forbidden("NO_PERSON", "A service asks for nothing of its own; ask as a person.")
        ask = await self.broker.asks.make(self.person, self.read(hub_wire.AskRequest))
        self.answer(model_of(ask), status=201)


class AskHandler(BrokerHandler):
    """One of them."""

    route = "ask"

    async def post(self, number: str) -> None:
        """Decide on it."""
        ask = await self.broker.asks.decide(self.person, int(number), self.read(hub_wire.AskDecision))
        self.answer(model_of(ask))


def _person(name: str) -> str:
    """A person's name.

    Raises:
        PublicError: 400: it is none.
    """
    if not 0 < len(name) <= _LONGEST_NAME or not name.isprintable() or name.startswith(GROUP):
        problem = f"a person's name has 1 to {_LONGEST_NAME} printable characters and no {GROUP} before them"
        raise bad_request(problem, "person")
    return name


_PROJECT = rf"{API}/projects/(?P<project>[A-Za-z0-9._-]{{1,63}})"
ROUTES = [
    (rf"{API}/projects", ProjectsHandler),
    (rf"{_PROJECT}/members", MembersHandler),
    (rf"{_PROJECT}/members/(?P<person>[^/]+)", MemberHandler),
    (rf"{_PROJECT}/limits", LimitsHandler),
    (rf"{API}/memberships", MembershipsHandler),
    (rf"{API}/asks", AsksHandler),
    (rf"{API}/asks/(?P<number>[0-9]{{1,18}})", AskHandler),
]
