"""What people ask for on the pages: read from a form, done as they, and told on the page that they come back to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from tornado.web import HTTPError

from jupyter_gpushare.broker import admin_wire, hub_wire
from jupyter_gpushare.broker.access import Role
from jupyter_gpushare.broker.explaining import explain_lease
from jupyter_gpushare.broker.ledger import LedgerError
from jupyter_gpushare.broker.public_error import PublicError, bad_request, not_found, unavailable
from jupyter_gpushare.broker.reconciler import StoppedError
from jupyter_gpushare.hub.pages.actions import ACTIONS
from jupyter_gpushare.hub.pages.asked import Notice
from jupyter_gpushare.hub.service.page_access import action_route
from jupyter_gpushare.hub.service.page_handler import PageHandler
from jupyter_gpushare.rules.change import Verb
from jupyter_gpushare.rules.event import Reclaimed, Wanted
from jupyter_gpushare.rules.lease import Target
from jupyter_gpushare.rules.message import Message

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    import msgspec

    from jupyter_gpushare.hub.service.application import HubService
    from jupyter_gpushare.rules.change import Change
    from jupyter_gpushare.rules.event import Event
    from jupyter_gpushare.rules.lease import Lease

__all__ = ["ActionHandler"]

_SEE_OTHER: Final = 303
_LONGEST: Final = 500
_YES: Final = frozenset({"yes", "on", "true", "1"})
_SAYS_NO: Final = frozenset({Verb.REFUSED, Verb.NOT_PARKED})

if TYPE_CHECKING:
    Done = Callable[["ActionHandler"], Awaitable[str]]


class ActionHandler(PageHandler):
    """One action.

    Attributes:
        fields: what the form says, without the spaces around it.
    """

    def initialize(self, service: HubService, **more: Any) -> None:
        """*name*: which."""
        super().initialize(service)
        self.name: str = more["name"]
        self.route = action_route(self.name)
        self.fields: dict[str, str] = {}

    def more_roles(self) -> frozenset[Role]:
        """Whose lease it is is seen when it is known which: one that is not the viewer's does not exist for it."""
        return frozenset({Role.OWNER}) if ACTIONS[self.name].whose == "holder" else frozenset()

    async def post(self) -> None:
        """Do it."""
        try:
            self.fields = self._read()
            notice = Notice(await _DONE[self.name](self))
            self.service.site.forget()
        except PublicError as error:
            if self.wants_json:
                raise
            notice = Notice(error.message.text, is_good=False)
        if self.wants_json:
            self.finish({"said": notice.text, "is_good": notice.is_good})
            return
        self.leave_notice(notice)
        self.redirect(self._back(), status=_SEE_OTHER)

    async def ask(self, verb: str, path: str, body: msgspec.Struct | None = None) -> bytes:
        """Ask the broker's interface, as this person."""
        return await self.service.interface.ask(self.person, verb, path, body)

    async def submit(self, *events: Event) -> Change:
        """Have *events* decided on and kept.

        Raises:
            PublicError: 503: the ledger cannot be used now.
        """
        broker = self.service.broker
        try:
            async with asyncio.timeout(broker.settings.commit_s):
                return await broker.reconciler.submit(events)
        except TimeoutError:
            raise unavailable("What you asked is noted, and done as soon as they can be kept.") from None
        except (LedgerError, StoppedError) as error:
            raise unavailable(str(error)) from None

    def lease(self) -> Lease:
        """The lease that is meant.

        Raises:
            PublicError: 404.
        """
        return self.lease_of(self.fields["lease"])

    def _read(self) -> dict[str, str]:
        found = {}
        for wanted in ACTIONS[self.name].fields:
            name = wanted.removesuffix("?")
            found[name] = self._field(name)
            if not found[name] and name == wanted:
                raise bad_request("it is empty; write something", name)
            if len(found[name]) > _LONGEST:
                raise bad_request(f"{len(found[name])} characters are too many; write at most {_LONGEST}", name)
        return found

    def _field(self, name: str) -> str:
        try:
            return self.get_body_argument(name, "").strip()
        except HTTPError:
            raise bad_request("it is no text", name) from None

    def _back(self) -> str:
        """The page to go back to: one of ours, or the first one."""
        prefix = self.service.environment.prefix
        given = urlsplit(self._field("next"))
        is_ours = not given.scheme and not given.netloc and given.path.startswith(prefix) and "\\" not in given.path
        if not is_ours or not given.geturl().isprintable():
            return f"{prefix}sessions"
        return given.path + (f"?{given.query}" if given.query else "")


async def _release(handler: ActionHandler) -> str:
    lease, by = handler.lease(), _by(handler)
    holds = handler.service.broker.desk.holds(lease.id)
    if lease.is_session:
        change = await handler.submit(Wanted(lease.id, Target.PARKED, by=by, memory=holds))
        _check(change, lease, handler)
        _check_went(lease, Target.PARKED, handler)
        return "The share is being handed back: its GPU state moves to host memory, and nothing is lost."
    change = await handler.submit(Reclaimed(lease.id, by, holds))
    _check(change, lease, handler)
    return "The job saves its work, leaves the GPU and waits again."


async def _resume(handler: ActionHandler) -> str:
    lease = handler.lease()
    change = await handler.submit(Wanted(lease.id, Target.RUNNING, by=_by(handler)))
    _check(change, lease, handler)
    _check_went(lease, Target.RUNNING, handler)
    return "The share is wanted back: it resumes as soon as its GPU has room."


async def _end(handler: ActionHandler) -> str:
    await handler.ask("DELETE", f"leases/{handler.lease().id}")
    return "The share ends. What is on the GPU is freed by its own server."


async def _ask(handler: ActionHandler) -> str:
    said = handler.fields
    what = _one_of(said["what"], ("limit", "quota"), "what")
    request = hub_wire.AskRequest(said["project"], said["amount"], what, said["why"])  # type: ignore[arg-type]  # checked
    await handler.ask("POST", "asks", request)
    return f"You asked for {said['amount']} GPU. The owners of {said['project']} are shown it."


def _decided(state: str, text: str) -> Done:
    async def decide(handler: ActionHandler) -> str:
        number = handler.fields["ask"]
        if not (number.isascii() and number.isdigit()):
            raise not_found("ask", number)
        answer = handler.fields.get("answer", "")
        decision = hub_wire.AskDecision(state, answer)  # type: ignore[arg-type]  # one of ours
        await handler.ask("POST", f"asks/{number}", decision)
        return text

    return decide


async def _add_member(handler: ActionHandler) -> str:
    await handler.ask("PUT", _member(handler))
    return f"{handler.fields['person']} is a member of {handler.fields['project']}."


async def _remove_member(handler: ActionHandler) -> str:
    await handler.ask("DELETE", _member(handler))
    person, name = handler.fields["person"], handler.fields["project"]
    project = handler.service.broker.books.projects.get(name)
    if project is not None and project.has(person):
        return f"{person} is no longer a member by an owner's word, and still one by the admin's file or by a group."
    return f"{person} is no member of {name} any more. What runs goes on."


def _member(handler: ActionHandler) -> str:
    said = {name: quote(text, safe="") for name, text in handler.fields.items()}
    return f"projects/{said['project']}/members/{said['person']}?why={said['why']}"


async def _limit(handler: ActionHandler) -> str:
    said = handler.fields
    request = hub_wire.LimitsRequest(person=said["person"], limit=said["limit"], why=said["why"])
    await handler.ask("PUT", f"projects/{quote(said['project'], safe='')}/limits", request)
    amount = f"{said['limit']} GPU" if said["limit"] else "what the project's own limit is"
    return f"{said['person']} may have {amount} in {said['project']}."


async def _quota(handler: ActionHandler) -> str:
    said = handler.fields
    request = hub_wire.LimitsRequest(quota=said["quota"], why=said["why"])
    await handler.ask("PUT", f"projects/{quote(said['project'], safe='')}/limits", request)
    return f"The quota of {said['project']} is {said['quota']} GPU."


async def _reclaim(handler: ActionHandler) -> str:
    said = handler.fields
    await handler.ask("POST", "admin/reclaim", admin_wire.ReclaimRequest(said["lease"], said["why"]))
    return "It is taken back: a session is parked, a job yields and waits again. Nothing is ended."


def _drain(*, undo: bool) -> Done:
    async def drain(handler: ActionHandler) -> str:
        said = handler.fields
        evacuate = said.get("evacuate", "").lower() in _YES
        request = admin_wire.DrainRequest(said["device"], said["host"], undo, evacuate, said["why"])
        await handler.ask("POST", "admin/drain", request)
        name = said["host"] or said["device"]
        return f"{name} takes leases again." if undo else f"{name} takes nothing new."

    return drain


def _switch(*, stop: bool) -> Done:
    async def switch(handler: ActionHandler) -> str:
        request = admin_wire.StopParkingRequest(stop, handler.fields["why"])
        await handler.ask("POST", "admin/stop-parking", request)
        return "Nobody is parked any more, and everybody is brought back in order." if stop else "Parking goes on."

    return switch


_DONE: Final[Mapping[str, Done]] = {
    "release": _release,
    "resume": _resume,
    "end": _end,
    "ask": _ask,
    "withdraw": _decided("withdrawn", "You ask for it no more."),
    "approve": _decided("approved", "Approved: it holds at once."),
    "deny": _decided("denied", "Denied."),
    "add-member": _add_member,
    "remove-member": _remove_member,
    "limit": _limit,
    "quota": _quota,
    "reclaim": _reclaim,
    "drain": _drain(undo=False),
    "undrain": _drain(undo=True),
    "stop-parking": _switch(stop=True),
    "start-parking": _switch(stop=False),
}


def _by(handler: ActionHandler) -> str:
    """Who wants it, for the audit: one's own wishes are the holder's."""
    person = handler.person.name
    return "holder" if handler.lease().person == person else person


def _check(change: Change, lease: Lease, handler: ActionHandler) -> None:
    """See that the rules did not refuse what was asked for *lease*.

    Raises:
        PublicError: 409: they did; says why.
    """
    for entry in change.audit:
        if entry.lease == lease.id and entry.verb in _SAYS_NO and entry.reason is not None:
            raise PublicError(409, explain_lease(entry.reason, lease, handler.service.broker.books))


def _check_went(lease: Lease, target: Target, handler: ActionHandler) -> None:
    """See that it did anything: what has just moved, or ended, cannot be sent there.

    Raises:
        PublicError: 409: it did not.
    """
    after = handler.service.broker.books.leases.get(lease.id)
    if after is None or after.target is not target:
        status = "ended" if after is None else after.status.value
        template = "Nothing is changed: the share is {status}; look again in a moment."
        raise PublicError(409, Message("NOT_NOW", template, {"status": status}))


def _one_of(text: str, words: tuple[str, ...], field: str) -> str:
    if text not in words:
        raise bad_request(f"{text[:50]!r} is none of: {', '.join(words)}", field)
    return text
