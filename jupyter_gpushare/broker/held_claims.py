"""Claims that a hub holds for servers to come: made, kept, confirmed and let go over REST (`hub_wire` says how)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker import hub_wire, wire
from jupyter_gpushare.broker.access import Caller
from jupyter_gpushare.broker.claiming import lease_of_claim
from jupyter_gpushare.broker.explaining import explain_lease
from jupyter_gpushare.broker.public_error import PublicError, bad_request, forbidden, not_found
from jupyter_gpushare.rules.event import GroupsKnown, Held, LetGo, Submitted, Wanted
from jupyter_gpushare.rules.lease import Hold, Status, Target
from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.rules.reason import Reason
from jupyter_gpushare.rules.step import step

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from jupyter_gpushare.broker.desk import Desk
    from jupyter_gpushare.broker.people import People
    from jupyter_gpushare.broker.reconciler import Published
    from jupyter_gpushare.rules.change import Change
    from jupyter_gpushare.rules.event import Event
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["HeldClaims"]

_FRESH_S: Final = 2.0
#: How long a new claim waits for what is left of the one before it under the same key.
_ENDS_WITHIN_S: Final = 10.0
#: A heartbeat that moves the end of a hold by less than this part of it is not worth a commit.
_SOON: Final = 4
_NEW, _KNOWN, _WAITS = 201, 200, 202


@dataclass(slots=True)
class HeldClaims:
    """For one event loop.

    Attributes:
        desk: the broker's parts.
        people: whose groups are told with a claim.
        submit: has events decided on and kept; raises PublicError while that cannot be.
    """

    desk: Desk
    people: People
    submit: Callable[..., Awaitable[Change]]

    async def put(self, caller: Caller, key: str, request: hub_wire.ClaimRequest) -> tuple[int, hub_wire.ClaimAnswer]:
        """Make the claim *key*, or keep it; the answer's status and body.

        Raises:
            PublicError: 400, 403, 409, 429 or 503, as `hub_wire` says.
        """
        person = _speaks_for(caller, request.person)
        _check_names(person, request.groups or ())
        if not _is_trusted(caller) and (request.groups is not None or request.is_starting):
            raise forbidden("NOT_THE_HUB", "Only the hub says which groups somebody is in and that a server starts.")
        wish = self._wish(person, key, request)
        groups = None if request.groups is None else frozenset(request.groups)
        if groups is not None:
            # Not with the claim alone, which may be refused: whoever waits for it then comes as itself, with no groups.
            self.people.hear(person, groups)
        known = await self._room_under(wish, is_starting=request.is_starting)
        if known is not None and _is_same(known, wish, is_starting=request.is_starting):
            lease = await self._confirm(known, wish, request)
            return self._status(_KNOWN, lease), self._answer(lease, with_token=True)
        events: list[Event] = [] if known is None else [LetGo(known.id, by=_by(caller, person))]
        if groups is not None:
            events.append(GroupsKnown(person, groups))
        lease = await self._make(person, wish, request, events)
        return self._status(_NEW, lease), self._answer(lease, with_token=True)

    async def alive(self, caller: Caller, key: str, request: hub_wire.AliveRequest) -> hub_wire.ClaimAnswer:
        """Keep the claim *key* a little longer.

        Raises:
            PublicError: 404: there is none any more; 403 and 503.
        """
        if request.is_running and not _is_trusted(caller):
            raise forbidden("NOT_THE_HUB", "Only the hub says that a server runs.")
        lease = self._found(_speaks_for(caller, request.person), key)
        if lease.hold is not None:
            now = self.desk.clock.now()
            hold = _kept_alive(lease, lease.hold, request, now)
            if _is_worth_it(lease.hold, hold, now):
                await self.submit(Held(lease.id, hold))
        return self._answer(self.desk.reconciler.committed.leases.get(lease.id, lease))

    def get(self, caller: Caller, key: str, person: str) -> hub_wire.ClaimAnswer:
        """How the claim *key* is.

        Raises:
            PublicError: 403, 404.
        """
        return self._answer(self._found(_speaks_for(caller, person), key))

    async def delete(self, caller: Caller, key: str, person: str, why: str = "") -> None:
        """End the claim *key*, if there is one.

        Raises:
            PublicError: 403, 503.
        """
        person = _speaks_for(caller, person)
        lease = self._lease(person, key)
        if lease is not None:
            await self.submit(Wanted(lease.id, Target.ENDED, by=_by(caller, person), why=why))

    def all(self, prefix: str) -> hub_wire.ClaimsAnswer:
        """Every lease whose key begins with *prefix*."""
        leases = (lease for lease in self.desk.reconciler.committed.leases.values() if lease.key.startswith(prefix))
        models = [
            hub_wire.HeldClaimModel(each.key, each.person, each.id, each.status.value, _hold_model(each))
            for each in leases
        ]
        return hub_wire.ClaimsAnswer(sorted(models, key=lambda model: (model.person, model.key)))

    def _wish(self, person: str, key: str, request: hub_wire.ClaimRequest) -> Lease:
        claim = wire.ClaimModel(
            key=key,
            kind="interactive",
            project=request.project,
            share=request.share,
            name=request.name,
            pool=request.pool,
        )
        now = self.desk.clock.now()
        kept_s = request.for_s if request.wait else request.reserve_s
        hold = Hold(now + kept_s, is_starting=request.is_starting and not request.wait)
        return lease_of_claim(claim, person, now).evolve(hold=hold)

    async def _room_under(self, wish: Lease, *, is_starting: bool) -> Lease | None:
        """The claim that is there under the key already; None once none is, or the one before has ended.

        Raises:
            PublicError: 409: another one that must be ended first, or that takes too long to end.
        """
        known = self._lease(wish.person, wish.key)
        if known is None:
            return None
        if known.hold is None and known.target is not Target.ENDED:
            is_alive = self.desk.holders.connection_of(known.id) is not None
            if is_alive or not is_starting:
                if not _is_same(known, wish, is_starting=is_starting):
                    raise _in_use(known)
                return known
            # The hub starts the server anew, so nothing lives that was the one before it.
            await self.submit(Wanted(known.id, Target.ENDED, by="hub"))
        elif known.target is not Target.ENDED:
            return known
        if await self._is_over_soon(known.id):
            return None
        template = "The server before this one still has GPU memory; try again in a moment. Nothing is lost by it."
        raise PublicError(409, Message("STILL_ENDING", template), "key")

    async def _is_over_soon(self, lease: str) -> bool:
        reconciler = self.desk.reconciler
        over = asyncio.Event()

        def look(_: Published | None = None) -> None:
            if lease not in reconciler.committed.leases:
                over.set()

        unsubscribe = reconciler.subscribe(look)
        look()
        self.desk.evidence.ask()
        try:
            async with asyncio.timeout(_ENDS_WITHIN_S):
                await over.wait()
        except TimeoutError:
            return False
        finally:
            unsubscribe()
        return True

    async def _confirm(self, known: Lease, wish: Lease, request: hub_wire.ClaimRequest) -> Lease:
        """Keep *known* as *request* says.

        Raises:
            PublicError: 409: it waits, and is not to.
        """
        if known.hold is None:
            return known
        if known.status is Status.QUEUED and not request.wait:
            # It keeps its place: somebody who waits on another page does not lose it for asking twice.
            raise self._no(known, self.desk.reconciler.committed)
        now = self.desk.clock.now()
        hold = _held_on(known, known.hold, request, now)
        if wish.hold is not None and hold.is_starting == known.hold.is_starting:
            hold = hold if _is_worth_it(known.hold, hold, now) else known.hold
        # Nobody is told of a lease that is decided on and not kept yet: that of another one who asks at this moment.
        if hold != known.hold or known.id not in self.desk.reconciler.committed.leases:
            await self.submit(Held(known.id, hold))
        return self._now(known)

    async def _make(self, person: str, wish: Lease, request: hub_wire.ClaimRequest, events: list[Event]) -> Lease:
        desk = self.desk
        with desk.bounds.claim(Caller(person), wish.key, desk.reconciler.snapshot.holders):
            await desk.evidence.fresh(_FRESH_S)
            if not request.wait or any(isinstance(event, LetGo) for event in events):
                self._check_room(wish, events, may_wait=request.wait)
            change = await self.submit(*events, Submitted(wish))
        books = desk.reconciler.committed
        # Of two at once for one key, the second one finds the first one's lease.
        lease = books.leases.get(wish.id) or self._lease(person, wish.key)
        if lease is None:
            raise self._no(change.leases.get(wish.id, wish), books)
        if lease.status is Status.QUEUED and not request.wait:
            # Somebody else was quicker than the look at whether there is room.
            await self.submit(LetGo(lease.id, by="rules"))
            raise self._no(lease, books)
        if request.is_starting and request.wait and lease.status is not Status.QUEUED:
            return await self._confirm(lease, wish, request)
        return lease

    def _check_room(self, wish: Lease, events: list[Event], *, may_wait: bool) -> None:
        """See what would become of it, on books that nobody keeps.

        Nobody shall yield for one that ends, and the claim that it takes the place of is not let go for one that is
        refused.

        Raises:
            PublicError: 409: it would not be granted at once, or with *may_wait*, not even wait; says why.
        """
        # An id of its own: nothing of one question may be taken for another's, wherever the rules remember something.
        asked = wish.evolve(id=f"{wish.id}-asked")
        done = step(self.desk.reconciler.snapshot, [*events, Submitted(asked)], self.desk.clock.now())
        lease = done.change.leases.get(asked.id)
        is_granted = lease is not None and bool(lease.grants) and lease.status is Status.GRANTED
        is_in_line = may_wait and lease is not None and lease.status is Status.QUEUED
        if not (is_granted or is_in_line):
            raise self._no(asked if lease is None else lease, done.snapshot)

    def _no(self, lease: Lease, books: Snapshot) -> PublicError:
        return PublicError(409, explain_lease(lease.reason or Reason.WAITING_FOR_DEVICE, lease, books))

    def _status(self, granted: int, lease: Lease) -> int:
        return _WAITS if lease.status is Status.QUEUED else granted

    def _answer(self, lease: Lease, *, with_token: bool = False) -> hub_wire.ClaimAnswer:
        token = self.desk.tokens.issue(lease.id) if with_token else ""
        return hub_wire.ClaimAnswer(lease.key, self.desk.view().lease(lease), _hold_model(lease), token)

    def _lease(self, person: str, key: str) -> Lease | None:
        books = self.desk.reconciler.snapshot
        return books.leases.get(books.holders.get((person, key), ""))

    def _now(self, lease: Lease) -> Lease:
        """*lease* as it is kept.

        Raises:
            PublicError: 404: it has ended just now.
        """
        kept = self.desk.reconciler.committed.leases.get(lease.id)
        if kept is None:
            raise not_found("claim", lease.key)
        return kept

    def _found(self, person: str, key: str) -> Lease:
        lease = self._lease(person, key)
        if lease is None:
            raise not_found("claim", key)
        return self._now(lease)


def _is_trusted(caller: Caller) -> bool:
    return caller.is_admin or caller.kind == "hub"


def _speaks_for(caller: Caller, person: str) -> str:
    """For whom *caller* asks.

    Raises:
        PublicError: 403: for somebody that it may not speak for; 400: the hub must say for whom.
    """
    if caller.kind == "person" and person in ("", caller.person):
        return caller.person
    if not _is_trusted(caller):
        raise forbidden("ANOTHER_PERSON", "You may claim a share for yourself alone; leave the person out.")
    if not person:
        template = "For whom? Write the hub's name of the person into the field person."
        raise PublicError(400, Message("NO_PERSON", template), "person")
    return person


def _check_names(person: str, groups: Iterable[str]) -> None:
    """See that a ledger can keep who it is for.

    Raises:
        PublicError: 400: one cannot; the field says which.
    """
    for field, names in (("person", (person,)), ("groups", groups)):
        if any("\0" in name for name in names):
            raise bad_request("a name has a NUL character, which no database holds; write it without", field)


def _by(caller: Caller, person: str) -> str:
    return "hub" if caller.kind == "hub" else "holder" if caller.person == person else caller.person


def _is_same(known: Lease, wish: Lease, *, is_starting: bool) -> bool:
    """Whether *wish* asks for what *known* is.

    A server that is there may have changed its share since, unless the hub, which grants what was picked and nothing
    else, *is_starting* one: then somebody holds the key with a token of their own.
    """
    may_differ = known.hold is None and not is_starting
    same = (known.project, known.kind) == (wish.project, wish.kind)
    return same and (may_differ or (known.share, known.pool) == (wish.share, wish.pool))


def _in_use(known: Lease) -> PublicError:
    template = "A server of that name holds a share of {project} already; end it first, or take another name."
    return PublicError(409, Message("KEY_IN_USE", template, {"project": known.project}), "key")


def _held_on(lease: Lease, hold: Hold, request: hub_wire.ClaimRequest, now: float) -> Hold:
    """The hold after a PUT. One that starts goes on starting, whatever an open wait page still asks for."""
    if lease.status is Status.QUEUED:
        return Hold(now + request.for_s)
    if request.is_starting:
        return Hold(now + request.reserve_s, is_starting=True)
    if hold.is_starting:
        return hold
    return Hold(min(now + request.for_s, lease.since + request.reserve_s))


def _kept_alive(lease: Lease, hold: Hold, request: hub_wire.AliveRequest, now: float) -> Hold:
    if request.is_running:
        return Hold(max(hold.until, now + request.for_s), hold.is_starting)
    if hold.is_starting:
        return hold
    until = now + request.for_s
    return Hold(until if lease.status is Status.QUEUED else min(until, lease.since + request.reserve_s))


def _is_worth_it(old: Hold, new: Hold, now: float) -> bool:
    return abs(new.until - old.until) > max(0.0, old.until - now) / _SOON


def _hold_model(lease: Lease) -> hub_wire.HoldModel | None:
    return None if lease.hold is None else hub_wire.HoldModel(lease.hold.until, lease.hold.is_starting)
