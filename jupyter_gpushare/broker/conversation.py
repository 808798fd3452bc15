"""What one holder says, and what it is answered: hello first, then hints and wishes.

Nothing here waits for the network: a conversation hears decoded messages and speaks through its connection.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

import msgspec

from jupyter_gpushare.broker import wire
from jupyter_gpushare.broker.claiming import as_remembered, lease_of_claim, parse_share, remembered
from jupyter_gpushare.broker.explaining import explain_lease
from jupyter_gpushare.broker.public_error import PublicError, bad_request, forbidden, message_model, printable
from jupyter_gpushare.broker.tomorrow import VERSION, Said, passes_over
from jupyter_gpushare.devices.identity import Identity
from jupyter_gpushare.quantity import Memory
from jupyter_gpushare.rules.change import Verb
from jupyter_gpushare.rules.event import (
    CouldNot,
    Held,
    Idle,
    LossAnnounced,
    Parkable,
    Returned,
    Running,
    ShareChanged,
    Submitted,
    Wanted,
)
from jupyter_gpushare.rules.lease import Target
from jupyter_gpushare.rules.loss import Loss
from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.rules.reason import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jupyter_gpushare.broker.access import Caller
    from jupyter_gpushare.broker.desk import Desk
    from jupyter_gpushare.broker.holders import Connection
    from jupyter_gpushare.rules.change import Change
    from jupyter_gpushare.rules.event import Event
    from jupyter_gpushare.rules.lease import Lease

__all__ = ["Conversation", "GoneError"]

_LOG: Final = logging.getLogger(__name__)
_FRESH_S: Final = 2.0
_PER_S: Final = 50.0
_BURST: Final = 200.0
# Each is looked up in /proc: naming so many costs as much as another message.
_PROCESSES: Final = 40
_IDLE_STEP_S: Final = 30.0
_DECODER: Final = msgspec.json.Decoder(wire.ToBroker)


class GoneError(Exception):
    """This conversation is over, without a word: the holder comes back by itself."""


class Conversation:
    """One holder's words, from hello to the end of its connection.

    Args:
        desk: what conversations need of the broker.
        caller: who speaks.
        connection: where answers go.
        monotonic: seconds that only go forward.
    """

    def __init__(
        self, desk: Desk, caller: Caller, connection: Connection, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.lease = ""
        self._desk = desk
        self._caller = caller
        self._connection = connection
        self._monotonic = monotonic
        self._allowance = _BURST
        self._counted = monotonic()
        self._idle_since: float | None = None
        self._pid_namespace: int | None = None

    async def hear(self, text: str | bytes) -> None:
        """Take one message.

        Raises:
            PublicError: it is refused for good: say so and close.
            GoneError: close without a word.
        """
        self._count(1)
        message = _decode(text)
        if message is None and self.lease:
            return
        if isinstance(message, (wire.HelloMessage, wire.ProcessesMessage)):
            self._count(len(message.processes) / _PROCESSES)
        if isinstance(message, wire.HelloMessage):
            if self.lease:
                raise bad_request("hello was said already; say it once, and first")
            await self._greet(message)
        elif message is None or not self.lease:
            raise bad_request("the first message must be hello")
        else:
            await self._take(message)

    def over(self) -> None:
        """The connection is lost."""
        if self.lease:
            self._desk.holders.left(self.lease, self._connection)

    def _count(self, cost: float) -> None:
        """A bucket that refills: somebody who talks without end must not keep others waiting."""
        now = self._monotonic()
        self._allowance = min(_BURST, self._allowance + (now - self._counted) * _PER_S) - cost
        self._counted = now
        if self._allowance < 0:
            template = (
                "More than {rate} messages a second, or {processes} processes named, are too many; this connection "
                "is closed."
            )
            values = {"rate": f"{_PER_S:g}", "processes": f"{_PER_S * _PROCESSES:g}"}
            raise PublicError(429, Message("FLOOD", template, values))

    async def _greet(self, hello: wire.HelloMessage) -> None:
        self._pid_namespace = hello.pid_namespace
        now = self._desk.clock.now()
        wish = lease_of_claim(hello.claim, self._caller.person, now)
        books = self._desk.reconciler.snapshot
        known = books.leases.get(books.holders.get((wish.person, wish.key), ""))
        if known is not None:
            self._check_same(known, wish, hello)
            lease = await self._return(as_remembered(known, hello), hello)
        elif (old := await self._remembered(hello, now)) is not None:
            lease = await self._return(old, hello)
        else:
            lease = await self._submit(wish, hello)
        self.lease = lease.id
        model = self._desk.view().lease(lease)
        token = self._desk.tokens.issue(lease.id)
        self._connection.push(wire.WelcomeMessage(self._desk.broker(), model, token, self._desk.clock.now()))
        self._desk.holders.joined(lease.id, self._connection, model)

    def _check_same(self, known: Lease, wish: Lease, hello: wire.HelloMessage) -> None:
        if self._caller.lease not in ("", known.id):
            raise forbidden("TOKEN_OF_ANOTHER_LEASE", "This token works for another lease.")
        if (known.project, known.kind) != (wish.project, wish.kind):
            raise PublicError(
                409,
                Message(
                    "KEY_IN_USE",
                    "You hold a share of {project} under the same key already; end it first, or take another key.",
                    {"project": known.project},
                ),
                "key",
            )
        if known.target is Target.ENDED and hello.lease is None:
            # A new holder under an old one's key: it comes again when nothing of the old one is left.
            raise GoneError

    async def _remembered(self, hello: wire.HelloMessage, now: float) -> Lease | None:
        """A lease of ours that the books have forgotten, as after a restore from a backup: the token proves it.

        The token of one that came to its end proves nothing any more.
        """
        if hello.lease is None or self._desk.tokens.lease_of(hello.token) != hello.lease.id:
            return None
        if await self._desk.is_over(hello.lease.id):
            return None
        return remembered(hello, self._caller.person, now, self._desk.reconciler.snapshot)

    async def _return(self, lease: Lease, hello: wire.HelloMessage) -> Lease:
        await self._put_processes(lease.id, hello.processes)
        is_resident = hello.is_resident
        if is_resident and lease.id not in self._desk.reconciler.snapshot.leases:
            # What nobody but the holder says must show on the devices.
            is_resident = await self._desk.shows(lease)
        events: list[Event] = [Returned(lease.evolve(hold=None), hello.epoch, is_resident)]
        if lease.hold is not None:
            # It was held for this very holder, who alone knows whether it can be parked.
            events = [Held(lease.id, None), *events, Parkable(lease.id, hello.claim.is_parkable)]
        change = await self._desk.reconciler.submit(events)
        return self._outcome(lease, change)

    async def _submit(self, wish: Lease, hello: wire.HelloMessage) -> Lease:
        if self._caller.lease:
            raise forbidden("TOKEN_OF_ANOTHER_LEASE", "This token works for one lease alone, which is over.")
        with self._desk.bounds.claim(self._caller, wish.key, self._desk.reconciler.snapshot.holders):
            await self._put_processes(wish.id, hello.processes)
            await self._desk.evidence.fresh(_FRESH_S)
            try:
                change = await self._desk.reconciler.submit([Submitted(wish)])
                return self._outcome(wish, change)
            except BaseException:
                if wish.id not in self._desk.reconciler.snapshot.leases:
                    self._desk.roster.forget(wish.id)
                raise

    def _outcome(self, wish: Lease, change: Change) -> Lease:
        """The lease as it is kept now.

        Raises:
            PublicError: 409: the rules refused it; says why.
        """
        books = self._desk.reconciler.committed
        lease = books.leases.get(wish.id)
        if lease is not None:
            return lease
        over = change.leases.get(wish.id)
        reasons = [entry.reason for entry in change.audit if entry.lease == wish.id and entry.reason is not None]
        reason = over.reason if over is not None and over.reason is not None else next(iter(reasons), None)
        if reason is None:
            raise GoneError
        raise PublicError(409, explain_lease(reason, wish, books))

    async def _take(self, message: wire.ToBroker) -> None:
        desk, lease = self._desk, self.lease
        match message:
            case wire.ProcessesMessage():
                await self._put_processes(lease, message.processes)
                if message.is_parkable is not None:
                    desk.reconciler.tell(Parkable(lease, message.is_parkable))
                desk.evidence.ask()
            case wire.WantMessage():
                await self._want(message)
            case wire.DidMessage(what="running"):
                desk.reconciler.tell(Running(lease, message.epoch))
            case wire.DidMessage():
                desk.evidence.released(lease, message.epoch)
            case wire.CouldNotMessage():
                desk.reconciler.tell(CouldNot(lease, message.epoch, _reason(message.code)))
            case wire.LossMessage():
                desk.reconciler.tell(
                    LossAnnounced(lease, _loss(message.loss), printable(message.processes), by="holder")
                )
            case wire.UsageMessage():
                self._use(message)

    async def _want(self, message: wire.WantMessage) -> None:
        if message.target is not None:
            memory = Memory(message.memory) if message.memory else None
            self._desk.reconciler.tell(Wanted(self.lease, Target(message.target), memory=memory))
        if message.share:
            try:
                await self._change_share(message.share)
            except PublicError as error:
                self._connection.push(wire.RefusedMessage(message_model(error.message), is_final=False))

    async def _change_share(self, text: str) -> None:
        share = parse_share(text)
        change = await self._desk.reconciler.submit([ShareChanged(self.lease, share)])
        books = self._desk.reconciler.committed
        lease = books.leases.get(self.lease)
        if lease is None:
            raise GoneError
        refused = [entry for entry in change.audit if entry.lease == self.lease and entry.verb is Verb.REFUSED]
        if lease.share != share:
            reason = next((entry.reason for entry in refused if entry.reason), Reason.WAITING_FOR_DEVICE)
            raise PublicError(409, explain_lease(reason, lease.evolve(share=share), books))

    def _use(self, message: wire.UsageMessage) -> None:
        self._desk.used(self.lease, message)
        since = None if message.idle_s is None else self._desk.clock.now() - message.idle_s
        if _moved(self._idle_since, since):
            self._idle_since = since
            self._desk.reconciler.tell(Idle(self.lease, since))

    async def _put_processes(self, lease: str, processes: Iterable[wire.ProcessModel]) -> None:
        identities = [Identity(each.pid, each.started) for each in processes]
        self._desk.roster.put(lease, identities, self._caller.uid, self._pid_namespace)
        if not self.lease:
            # Before anything is promised to it. Later ones descend from these, and the next look is soon enough.
            await self._desk.evidence.find()
        await self._desk.evidence.keep_roster()


def _decode(text: str | bytes) -> wire.ToBroker | None:
    """A message; None for one of a type that only a newer holder knows."""
    try:
        message: wire.ToBroker = _DECODER.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if passes_over(text):
            return None
        said = printable(Said.of(text).version[:64])
        versions = f"; it is of version {said}, and the broker of {VERSION}" if said not in ("", VERSION) else ""
        raise bad_request(f"{error}{versions}") from None
    return message


def _moved(old: float | None, new: float | None) -> bool:
    """Whether the rules should hear of it: idle is the beginning of a stretch, and clocks of two processes differ."""
    if old is None or new is None:
        return old is not new
    return abs(old - new) > _IDLE_STEP_S


def _loss(value: str) -> Loss:
    try:
        return Loss(value)
    except ValueError:
        raise bad_request(f"there is no loss {value!r}", "loss") from None


def _reason(code: str) -> Reason:
    """Why a holder could not do it; its own codes are many, and the rules know few."""
    try:
        return Reason(code)
    except ValueError:
        return Reason.NOT_PARKABLE
