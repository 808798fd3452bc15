"""Members ask for more, owners and admins decide. What is approved holds at once, as far as it is theirs to give."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from jupyter_gpushare.broker import hub_wire
from jupyter_gpushare.broker.access import owns
from jupyter_gpushare.broker.ledger import ConflictError, LedgerError
from jupyter_gpushare.broker.ledger_records import OPEN, Ask
from jupyter_gpushare.broker.public_error import PublicError, bad_request, forbidden, not_found, printable, unavailable
from jupyter_gpushare.quantity import Fraction, QuantityError
from jupyter_gpushare.rules.event import MemberSet, QuotaSet
from jupyter_gpushare.rules.message import Message

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from jupyter_gpushare.broker.access import Caller
    from jupyter_gpushare.broker.clock import Clock
    from jupyter_gpushare.broker.configured import Configured
    from jupyter_gpushare.broker.ledger import Ledger
    from jupyter_gpushare.rules.event import Event
    from jupyter_gpushare.rules.project import Project
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["Asks", "amount_of"]

_DAY_S: Final = 86400.0
_MOST_A_DAY: Final = 20
_MOST_SHOWN: Final = 1000


@dataclass(slots=True)
class Asks:
    """For one event loop.

    Attributes:
        books: the newest books that are kept.
        configured: where quotas come from.
        clock: what time it is.
        ask_ledger: asks the ledger something, in its thread; may raise LedgerError.
        submit: has events decided on and kept; raises PublicError while that cannot be.
    """

    books: Callable[[], Snapshot]
    configured: Configured
    clock: Clock
    ask_ledger: Callable[[Callable[[Ledger], Any]], Awaitable[Any]]
    submit: Callable[..., Awaitable[Any]]

    async def make(self, caller: Caller, request: hub_wire.AskRequest) -> Ask:
        """Ask for more.

        Raises:
            PublicError: 400, 404, 409, 429 or 503, with what to do.
        """
        project, person = self._project(request.project), caller.person
        if not project.has(person):
            raise not_found("project", request.project)
        amount = amount_of(request.amount, "amount")
        _check_wish(project, person, request.what, amount)
        now = self.clock.now()
        recent = [each for each in await self._ledger_asks() if each.person == person and each.at > now - _DAY_S]
        if len(recent) >= _MOST_A_DAY:
            template = "You asked {most} times within a day, which is the most; wait for an answer."
            raise PublicError(429, Message("TOO_MANY_ASKS", template, {"most": str(_MOST_A_DAY)}))
        ask = Ask(project.name, person, request.what, amount, now, printable(request.why))
        try:
            kept: Ask = await self._keep(lambda ledger: ledger.add_ask(ask))
        except ConflictError:
            template = "You asked for that already; withdraw it first, or wait for the answer."
            raise PublicError(409, Message("ALREADY_ASKED", template)) from None
        return kept

    async def all(self, caller: Caller, state: str = "", project: str = "") -> hub_wire.AsksAnswer:
        """Those that *caller* may see, newest first.

        Raises:
            PublicError: 400: there is no such state; 503.
        """
        if state and state not in ("open", "approved", "denied", "withdrawn"):
            raise bad_request(f"{state[:50]!r} is no state; write open, approved, denied or withdrawn", "state")
        found = await self._ledger_asks(state=state or None)
        seen = [each for each in found if project in ("", each.project) and self._sees(caller, each)]
        may = [each.number for each in seen if each.state == OPEN and self._decides(caller, each)]
        return hub_wire.AsksAnswer([model_of(each) for each in seen], may)

    async def decide(self, caller: Caller, number: int, decision: hub_wire.AskDecision) -> Ask:
        """Approve, deny or withdraw one.

        Raises:
            PublicError: 403, 404, 409 or 503, with what to do.
        """
        found = await self._ledger_asks(number=number)
        if not found or not self._sees(caller, found[0]):
            raise not_found("ask", str(number))
        ask = found[0]
        if ask.state != OPEN:
            raise _decided(ask)
        is_allowed = (
            ask.person == caller.person and caller.kind == "person"
            if decision.state == "withdrawn"
            else self._decides(caller, ask)
        )
        if not is_allowed:
            raise forbidden()
        answer = printable(decision.answer)
        if decision.state == "approved":
            await self.submit(self._effect(ask, caller.person, answer))
        done = replace(ask, state=decision.state, decided_by=caller.person, decided_at=self.clock.now(), answer=answer)
        if not await self._keep(lambda ledger: ledger.decide_ask(done)):
            raise _decided(ask)
        return done

    def check_quota(self, quota: Fraction, project: Project) -> None:
        """See that a quota may be set here.

        Raises:
            PublicError: 409: a file sets it.
        """
        if self.configured.source == "file" and quota != project.quota:
            template = "The quota of {project} is set by the file {file}: change it there, and send the broker SIGHUP."
            values = {"project": project.name, "file": self.configured.file}
            raise PublicError(409, Message("CONFIGURED_BY_FILE", template, values), "quota")

    def _effect(self, ask: Ask, by: str, why: str) -> Event:
        project = self._project(ask.project)
        if ask.what == "quota":
            quota = max(ask.amount, project.quota)
            self.check_quota(quota, project)
            return QuotaSet(project.name, quota, by, why)
        check_limit(project, ask.amount)
        return MemberSet(project.name, ask.person, by, limit=ask.amount, why=why)

    def _project(self, name: str) -> Project:
        project = self.books().projects.get(name)
        if project is None:
            raise not_found("project", name)
        return project

    def _sees(self, caller: Caller, ask: Ask) -> bool:
        is_own = caller.kind == "person" and ask.person == caller.person
        return is_own or caller.is_admin or owns(caller, self.books().projects.get(ask.project))

    def _decides(self, caller: Caller, ask: Ask) -> bool:
        is_owner = ask.what == "limit" and owns(caller, self.books().projects.get(ask.project))
        return caller.is_admin or is_owner

    async def _ledger_asks(self, *, number: int | None = None, state: Any = None) -> Sequence[Ask]:
        try:
            found: Sequence[Ask] = await self.ask_ledger(
                lambda ledger: ledger.asks(number=number, state=state, limit=_MOST_SHOWN)
            )
        except LedgerError as error:
            raise unavailable(str(error)) from None
        return found

    async def _keep(self, question: Callable[[Ledger], Any]) -> Any:
        try:
            return await self.ask_ledger(question)
        except ConflictError:
            raise
        except LedgerError as error:
            raise unavailable(str(error)) from None


def amount_of(text: str, field: str) -> Fraction:
    """GPUs, as people write them.

    Raises:
        PublicError: 400: it is no amount.
    """
    try:
        amount = Fraction.parse(text)
    except QuantityError as error:
        raise bad_request(str(error), field) from None
    return amount


def check_limit(project: Project, limit: Fraction) -> None:
    """See that one person's *limit* is within what the project's owner may give.

    Raises:
        PublicError: 409: it is more than the project's quota.
    """
    if limit > project.quota:
        template = "{project} has {quota} GPU for notebooks, so one person cannot have {limit}; ask for a larger quota."
        values = {"project": project.name, "quota": str(project.quota), "limit": str(limit)}
        raise PublicError(409, Message("EXCEEDS_PROJECT_QUOTA", template, values), "limit")


def model_of(ask: Ask) -> hub_wire.AskModel:
    """*ask*, for the wire."""
    return hub_wire.AskModel(
        ask.number,
        ask.project,
        ask.person,
        ask.what,
        str(ask.amount),
        ask.why,
        ask.at,
        ask.state,
        ask.decided_by,
        ask.decided_at,
        ask.answer,
    )


def _check_wish(project: Project, person: str, what: str, amount: Fraction) -> None:
    has = project.quota if what == "quota" else project.limit_of(person)
    if amount <= has:
        template = "{amount} GPU is no more than the {has} that you have; ask for more than that."
        raise PublicError(409, Message("NO_MORE", template, {"amount": str(amount), "has": str(has)}), "amount")
    if what == "limit":
        check_limit(project, amount)


def _decided(ask: Ask) -> PublicError:
    template = "Ask {number} is decided already; look again."
    return PublicError(409, Message("DECIDED_ALREADY", template, {"number": str(ask.number)}))
