"""One lease, held: a connection to the broker that is made again for ever, and what the lease is."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from typing import TYPE_CHECKING, Final, Literal

import msgspec
from tornado.httpclient import HTTPClientError
from tornado.websocket import WebSocketError

from jupyter_gpushare.broker.client_errors import BrokerAway, BrokerError
from jupyter_gpushare.broker.client_reviving import Reviving
from jupyter_gpushare.broker.client_socket import Pauses, closed, connect, read, send
from jupyter_gpushare.broker.client_times import in_our_time
from jupyter_gpushare.broker.client_touch import Touch
from jupyter_gpushare.broker.client_wishes import Wishes
from jupyter_gpushare.broker.tomorrow import VERSION, passes_over
from jupyter_gpushare.broker.wire import (
    DidMessage,
    HelloMessage,
    LeaseMessage,
    ProcessesMessage,
    RefusedMessage,
    ToHolder,
    WelcomeMessage,
)
from jupyter_gpushare.devices.pid_namespace import own_pid_namespace
from jupyter_gpushare.quantity import QuantityError
from jupyter_gpushare.share import Share, ShareError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tornado.websocket import WebSocketClientConnection

    from jupyter_gpushare.broker.client_endpoint import Endpoint
    from jupyter_gpushare.broker.wire import (
        BrokerModel,
        ClaimModel,
        LeaseModel,
        LeaseStatus,
        LeaseTarget,
        ProcessModel,
        ToBroker,
    )

__all__ = ["OVER", "Holding", "Pauses"]

#: Nothing is left of a lease with such a status.
OVER: Final = frozenset({"ended", "failed"})
_WAITS: Final = frozenset({"queued", "missing"})
_decoder: Final[msgspec.json.Decoder[ToHolder]] = msgspec.json.Decoder(ToHolder)

_log = logging.getLogger(__name__)


class _Gone(Exception):  # noqa: N818  # a signal inside this module
    """This connection is over, for the reason in the text."""


class Holding:
    """Lives on the event loop; made by `BrokerClient.hold`.

    Attributes:
        lease: as the broker told it last; None before the first welcome.
        since: since when it is `connected`, or not, in seconds since the epoch.
        broker: the broker itself, as of the last welcome.
        token: what speaks for this lease alone; empty before the first welcome.
        refusal: why the claim was refused for good; None while it was not.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        claim: ClaimModel,
        processes: Sequence[ProcessModel],
        *,
        on_lease: Callable[[LeaseModel], None] | None = None,
        on_change: Callable[[], None] | None = None,
        on_refused: Callable[[BrokerError], None] | None = None,
        is_resident: Callable[[], bool] | None = None,
        pauses: Pauses | None = None,
    ) -> None:
        self._endpoint = endpoint
        self._claim = claim
        self._processes = list(processes)
        self._is_parkable: bool | None = None
        self._on_lease = on_lease or (lambda _: None)
        self._on_change = on_change or (lambda: None)
        self._on_refused = on_refused or (lambda _: None)
        self._is_resident = is_resident or self._seems_resident
        self._pauses = pauses or Pauses()
        self._wishes = Wishes()
        self._reviving = Reviving(endpoint.starter)
        self._touch = Touch(self._pauses.apart_s)
        self.token = ""
        self._socket: WebSocketClientConnection | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._asked_share: asyncio.Future[LeaseModel] | None = None
        self._is_closing = False
        self.lease: LeaseModel | None = None
        self.broker: BrokerModel | None = None
        self._is_connected = False
        self.since = time.time()
        self.refusal: BrokerError | None = None
        self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def connected(self) -> bool:
        """Whether the broker hears us now. Not of one that was stopped: it may have been given up meanwhile."""
        return self._is_connected and not self._touch.is_lost

    @property
    def is_over(self) -> bool:
        """Whether nothing will come any more: the lease is over, the claim refused, or this closed."""
        return self._task.done() or self._is_closing

    @property
    def has_given_up(self) -> bool:
        """Whether it said that it could not do what its lease asks for: then it must not, until the lease has moved."""
        return self.lease is not None and self._wishes.has_given_up(self.lease)

    async def until(self, holds: Callable[[LeaseModel], bool]) -> LeaseModel:
        """Wait until *holds* of the lease, for as long as that takes.

        Raises:
            BrokerError: it never will: the claim was refused, or the lease is over.
        """
        while True:
            if self.lease is not None and holds(self.lease):
                return self.lease
            if self.refusal is not None:
                raise self.refusal
            if self.is_over:
                raise _over(self.lease)
            woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(woken)
            await woken

    async def granted(self) -> LeaseModel:
        """Wait until it has its devices.

        Raises:
            BrokerError: it never will.
        """
        lease = await self.until(
            lambda lease: lease.status in OVER or (lease.status not in _WAITS and bool(lease.grants))
        )
        if lease.status in OVER:
            raise _over(lease)
        return lease

    def want(self, target: LeaseTarget, memory: int = 0) -> None:
        """Want it elsewhere; *memory* is what the parked copy takes, in bytes, for the target parked."""
        self._say(self._wishes.want(target, memory))

    def want_share(self, text: str) -> asyncio.Future[LeaseModel]:
        """Want another share, live: the lease that has it, or BrokerError with the reason why not.

        While the broker is away the answer is BrokerAway at once: a share that changes later surprises.
        """
        answer: asyncio.Future[LeaseModel] = asyncio.get_running_loop().create_future()
        if not self.connected:
            answer.set_exception(BrokerAway("the broker cannot be reached now; ask again later"))
            return answer
        self._fail_share(BrokerError("OVERTAKEN", "Another share was asked for meanwhile."))
        with contextlib.suppress(ShareError, QuantityError):  # the broker says what is wrong with it
            text = str(Share.parse(text))  # as the lease will show it
        if self.lease is not None and self.lease.share == text:
            # The broker tells what changes, and here nothing will.
            answer.set_result(self.lease)
            return answer
        self._asked_share = answer
        self._say(self._wishes.want_share(text))
        return answer

    def did(self, what: Literal["running", "released"], epoch: int) -> None:
        """It was done: it runs, or nothing of it is on the devices any more. The latter is checked by the broker."""
        self._say(self._wishes.has_done(what, epoch))

    def could_not(self, epoch: int, code: str, text: str) -> None:
        """It could not be done: the broker undoes that step and explains."""
        self._say(self._wishes.has_failed(epoch, code, text))

    def announce(self, loss: str, processes: str) -> None:
        """Processes of the holder are about to be ended, as a `rules.loss.Loss`: the broker keeps a line of it."""
        self._say(self._wishes.announces(loss, processes, can_be_sent=self.connected))

    def report(self, memory: int | None, computed_s: float | None, idle_s: float | None = None) -> None:
        """Say what is used now, in bytes, and how many GPU-seconds were computed since the last time.

        *idle_s* is for how many seconds it has computed nothing; None while it computes and where that cannot be told.
        """
        usage = self._wishes.usage(memory, computed_s, idle_s, can_be_sent=self.connected)
        if usage is not None:
            self._say(usage)

    def set_processes(self, processes: Sequence[ProcessModel], *, is_parkable: bool | None = None) -> None:
        """These are its processes now; every descendant of theirs counts too.

        *is_parkable* is of a job that has found that out since its claim.
        """
        parkable = self._is_parkable if is_parkable is None else is_parkable
        if (list(processes), parkable) != (self._processes, self._is_parkable):
            self._processes, self._is_parkable = list(processes), parkable
            self._say(ProcessesMessage(self._processes, parkable))

    async def over(self, at_most_s: float | None = None) -> bool:
        """Wait until nothing will come any more, or for so long; whether that is so."""
        await asyncio.wait([self._task], timeout=at_most_s)
        return self._task.done()

    def acted_alone(self, status: LeaseStatus, memory: int = 0) -> None:
        """While the broker is away the holder had to act on its own: what the next hello says of the lease.

        *memory* is what lies in host memory now, in bytes.
        """
        if self.lease is not None and not self.connected:
            self.lease = msgspec.structs.replace(self.lease, status=status, host_memory=memory)

    async def end(self, deadline_s: float = 5.0) -> None:
        """Give the lease back for good, and close. A broker that is away learns of it from the devices.

        What its processes still hold stays theirs until the devices show that they are gone.
        """
        if not self.is_over and self.connected and self.lease is not None:
            self.want("ended")
            with contextlib.suppress(TimeoutError, BrokerError):
                lease = await asyncio.wait_for(self.until(lambda lease: lease.target == "ended"), deadline_s)
                if self._socket is not None and lease.status not in OVER:
                    await send(self._socket, DidMessage("released", lease.epoch))
        await self.close()

    async def close(self) -> None:
        """Let go of the connection; the lease is what it is, until its holder is back or counts as vanished."""
        self._is_closing = True
        self._fail_share(BrokerAway("the connection was closed"))
        socket = self._socket
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if socket is not None:
            await closed(socket)
        self._wake()

    async def _run(self) -> None:
        pause_s = self._pauses.first_s
        while not self._is_closing:
            began_at = time.monotonic()
            try:
                await self._be_connected()
            except (OSError, HTTPClientError, WebSocketError, TimeoutError, _Gone) as problem:
                _log.debug("The broker at %s: %r", self._endpoint.label, problem)
            finally:
                self._disconnected()
            if self.refusal is not None or (self.lease is not None and self.lease.status in OVER):
                break
            if time.monotonic() - began_at > self._pauses.last_s:
                pause_s = self._pauses.first_s
            await self._reviving.lost()
            # Many holders lose one broker at the same moment: they must not come back at the same moment.
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.5))  # noqa: S311  # no secret
            pause_s = min(pause_s * 2, self._pauses.last_s)
        asyncio.get_running_loop().call_soon(self._wake)

    async def _be_connected(self) -> None:
        """One connection, from its hello to its end."""
        socket = self._socket = await self._connect()
        self._touch.renew()
        touching = asyncio.create_task(self._touch.keep(socket.close))
        try:
            await send(socket, self._hello())
            self._take(await self._next(socket, self._pauses.welcome_s))
            while True:
                self._take(await self._next(socket))
        finally:
            touching.cancel()
            self._socket = None
            socket.close()

    async def _connect(self) -> WebSocketClientConnection:
        try:
            return await connect(self._endpoint, self._pauses)
        except BrokerError as refusal:
            self._refuse(refusal)
            raise _Gone(refusal.text) from None

    def _hello(self) -> HelloMessage:
        epoch = 0 if self.lease is None else self.lease.epoch
        said = (self._claim, self._processes, self.lease, epoch, self._is_resident(), self.token, VERSION)
        return HelloMessage(*said, own_pid_namespace())

    async def _next(self, socket: WebSocketClientConnection, deadline_s: float | None = None) -> ToHolder:
        while True:
            said = await asyncio.wait_for(read(socket), deadline_s)
            if said is None:
                raise _Gone("it closed the connection")
            try:
                return _decoder.decode(said)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                if not passes_over(said):
                    raise _Gone(f"it said what makes no sense here: {error}") from None

    def _take(self, message: ToHolder) -> None:
        if self._touch.is_lost:
            raise _Gone("we were stopped for so long that this may be over")
        match message:
            case WelcomeMessage():
                self.broker, self.token = message.broker, message.token
                self._reviving.answered()
                self._connected()
                self._take_lease(in_our_time(message.lease, message.at))
                if self._is_parkable is not None:
                    self._say(ProcessesMessage(self._processes, self._is_parkable))
                for wish in self._wishes.unheard():
                    self._say(wish)
            case LeaseMessage():
                self._take_lease(in_our_time(message.lease, message.at))
            case RefusedMessage():
                self._take_refusal(message)

    def _take_lease(self, lease: LeaseModel, *, is_first: bool = False) -> None:
        known = self.lease
        if not is_first and known is not None and known.id == lease.id and lease.epoch < known.epoch:
            return  # what is older than what we act on already must not call us back to it
        if known is not None and known.id != lease.id:
            self._wishes.begin_anew()
        self.lease = lease
        if lease.share != (known.share if known is not None else lease.share):
            self._claim = msgspec.structs.replace(self._claim, share=lease.share)
        self._wishes.take(lease)
        self._answer_share(lease)
        self._on_lease(lease)
        self._wake()
        if lease.status in OVER:
            raise _Gone(f"the lease is {lease.status}")

    def _take_refusal(self, message: RefusedMessage) -> None:
        error = BrokerError.of(message.error)
        if message.is_final:
            self._refuse(error)
            raise _Gone(error.text)
        self._wishes.refused()
        if self._asked_share is not None:
            self._fail_share(error)
        else:
            self._on_refused(error)

    def _refuse(self, error: BrokerError) -> None:
        self.refusal = error
        self._fail_share(error)

    def _answer_share(self, lease: LeaseModel) -> None:
        wish, answer = self._wishes.share, self._asked_share
        if wish is None or lease.share != wish.share:
            return
        self._wishes.share = self._asked_share = None
        if answer is not None and not answer.done():
            answer.set_result(lease)

    def _fail_share(self, error: Exception) -> None:
        answer, self._asked_share, self._wishes.share = self._asked_share, None, None
        if answer is not None and not answer.done():
            answer.set_exception(error)

    def _seems_resident(self) -> bool:
        """What a holder that does not say has on its devices: as much as its lease says."""
        return self.lease is not None and self.lease.status in ("running", "parking", "yielding")

    def _connected(self) -> None:
        self._is_connected, self.since = True, time.time()
        self._on_change()

    def _disconnected(self) -> None:
        if self._is_connected:
            self._is_connected, self.since = False, time.time()
        self._fail_share(BrokerAway("the broker went away; ask again later"))
        if not self._is_closing:
            self._on_change()

    def _say(self, message: ToBroker) -> None:
        """Send it if somebody hears; what matters is said again after the next hello."""
        if self._socket is not None and self.connected:
            send(self._socket, message)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)


def _over(lease: LeaseModel | None) -> BrokerError:
    if lease is not None and lease.reason is not None:
        return BrokerError.of(lease.reason)
    return BrokerError("LEASE_ENDED", "The lease is over.")
