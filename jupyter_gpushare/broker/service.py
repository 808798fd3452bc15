"""The broker as a whole: its parts wired together, started in an order that promises nothing too early, and stopped."""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final, TypeVar

from jupyter_gpushare.broker import wire
from jupyter_gpushare.broker.access import Caller
from jupyter_gpushare.broker.accounting import Accountant
from jupyter_gpushare.broker.asking import Question, projects
from jupyter_gpushare.broker.asks import Asks
from jupyter_gpushare.broker.bounds import Bounds
from jupyter_gpushare.broker.clock import SteadyClock
from jupyter_gpushare.broker.configured import Configured
from jupyter_gpushare.broker.desk import Desk
from jupyter_gpushare.broker.evidence import Evidence
from jupyter_gpushare.broker.governing import Governing
from jupyter_gpushare.broker.heartbeat import Heartbeat
from jupyter_gpushare.broker.held_claims import HeldClaims
from jupyter_gpushare.broker.holders import Holders
from jupyter_gpushare.broker.hours import Hours
from jupyter_gpushare.broker.metrics import Metrics
from jupyter_gpushare.broker.models import View
from jupyter_gpushare.broker.opening import make_directories, open_ledger
from jupyter_gpushare.broker.pace_keeping import PaceKeeping
from jupyter_gpushare.broker.pacing import Pacing
from jupyter_gpushare.broker.past import Past
from jupyter_gpushare.broker.peers import Peers, PeerTokens, peer_of
from jupyter_gpushare.broker.people import People
from jupyter_gpushare.broker.privileged.enforcement import Enforcement
from jupyter_gpushare.broker.reconciler import Reconciler
from jupyter_gpushare.broker.roster import Roster
from jupyter_gpushare.broker.serving import serve
from jupyter_gpushare.broker.submitting import submit
from jupyter_gpushare.broker.tokens import LeaseTokens
from jupyter_gpushare.devices.discovery import open_source
from jupyter_gpushare.rules.event import TimePassed
from jupyter_gpushare.rules.lease import Status

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from tornado.httputil import HTTPServerRequest

    from jupyter_gpushare.broker.availability_wire import AvailabilityAnswer
    from jupyter_gpushare.broker.bounds import BoundedServer
    from jupyter_gpushare.broker.clock import Clock
    from jupyter_gpushare.broker.ledger import Ledger
    from jupyter_gpushare.broker.peers import Peer
    from jupyter_gpushare.broker.reconciler import Published
    from jupyter_gpushare.broker.settings import Settings
    from jupyter_gpushare.devices.device import Source
    from jupyter_gpushare.rules.change import Change
    from jupyter_gpushare.rules.event import Event
    from jupyter_gpushare.rules.lease import Kind, Lease
    from jupyter_gpushare.rules.project import Project
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["Broker"]

_LOG: Final = logging.getLogger(__name__)
_VERSION: Final = version("jupyter_gpushare")
_IDLE_CHECK_S: Final = 5.0
# Estimates go on while nothing in the books changes: they count down, and grow where somebody is slower than ever.
_VIEW_HOLDS_S: Final = 2.0
_T = TypeVar("_T")

if TYPE_CHECKING:
    Identify = Callable[[HTTPServerRequest], Awaitable[Caller | None]]


class Broker:
    """One broker. For one event loop; `start`, then `stop`.

    Args:
        settings: how it is run.
        ledger: where the books are kept; by default what *settings* say.
        source: the devices; by default this machine's.
        clock: what time it is.
        peer: who is at the other end of a Unix socket.
        identify: asked who sent a request where neither a token of a lease nor one of a person is shown, and no Unix
            socket says it. It may raise `public_error.PublicError`. For callers by cookie it also sees to cross-site
            requests: nothing here does.
        routes: called once, with this broker, for what else its server answers: tornado's rules, asked before ours.
        application: more of tornado's application settings, as those routes need them (``cookie_secret``).

    Attributes:
        stopped: is set when it has stopped, or has to because another one has taken its ledger over.
        addresses: where it listens.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        ledger: Ledger | None = None,
        source: Source | None = None,
        clock: Clock | None = None,
        peer: Callable[[socket.socket], Peer | None] = peer_of,
        identify: Identify | None = None,
        routes: Callable[[Broker], Sequence[Any]] = lambda _broker: (),
        application: Mapping[str, Any] | None = None,
    ) -> None:
        self.settings = settings
        self.incarnation = uuid.uuid4().hex
        self.stopped = asyncio.Event()
        self.addresses: list[str] = []
        self.clock = clock or SteadyClock()
        self.metrics = Metrics()
        self.configured = Configured(settings)
        self._ledger = ledger
        self._source = source
        self._peer = peer
        self._identify = identify
        self._more_routes = routes
        self._application = application or {}
        self._thread = ThreadPoolExecutor(1, "gpushare-ledger")
        self._accountant = Accountant()
        self._hours = Hours(self._accountant, lambda: self.books, self.clock, self.ask_ledger, self.metrics.used)
        self._pacing = Pacing()
        self._paces = PaceKeeping(self._pacing, self.ask_ledger)
        self.past = Past(lambda: self.books, self.clock, self.ask_ledger, lambda: self.configured.now.keeps_audit_s)
        self._tasks: list[asyncio.Task[None]] = []
        self._servers: list[BoundedServer] = []
        self._view: View | None = None
        self._since = self.clock.now()

    @property
    def books(self) -> Snapshot:
        """The newest books that are kept: what may be shown and promised."""
        return self.reconciler.committed

    def _find(self, lease: str) -> Lease | None:
        return self.books.leases.get(lease)

    async def identify(self, request: HTTPServerRequest) -> Caller | None:
        """Who sent *request*; None when nobody knows.

        Raises:
            PublicError: it may not be here at all.
        """
        caller = self.peers.identify(request)
        if caller is not None or self._identify is None:
            return caller
        caller = await self._identify(request)
        if caller is None:
            return None
        self.people.learn(caller)
        return self.peers.with_uid(caller)

    def view(self) -> View:
        """The newest books that are kept, for showing."""
        now, view = self.clock.now(), self._view
        if view is None or view.books is not self.books or now - view.now >= _VIEW_HOLDS_S:
            policies = self.configured.now.policies
            self._view = view = View(self.books, now, self._pacing.paces, policies, self._held)
        return view

    def _held(self, lease: str) -> Mapping[str, int | None]:
        last = self.evidence.last
        return {} if last is None else last.held.get(lease, {})

    def model(self) -> wire.BrokerModel:
        """The broker itself, for the wire."""
        return wire.BrokerModel(
            version=_VERSION,
            incarnation=self.incarnation,
            mode=self.settings.mode,
            started=self._since,
            ledger=getattr(self._ledger, "place", "memory"),
            is_parking_stopped=self.books.is_parking_stopped,
            holders=len(self.holders),
        )

    async def start(self) -> None:
        """Take the ledger over, look at the devices, put the configuration in force, and only then listen.

        Raises:
            LedgerError: the ledger cannot be used; says what to do.
            ConfigurationError: the configuration is wrong; says where.
            OSError: a directory or socket cannot be had; says which.
        """
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self.stop)
            await self._start()
            undo.pop_all()

    async def _start(self) -> None:
        settings = self.settings
        make_directories(settings)
        self.configured.read()
        books = await self._open_ledger()
        await self._paces.remember()
        self._build(books)
        self.reconciler.start()
        await self.people.remember()
        await self.reconciler.submit([self._heart.outage(), *self.governing.events()])
        self._heart.beat()
        await self.evidence.start()
        # What the first look told comes before this: whoever connects finds the devices.
        await self.reconciler.submit([TimePassed()])
        # Nobody can be back before somebody listens, however long that first look took.
        self.holders.start(self.books)
        going_on = (
            self._hours.go_on(),
            self.past.go_on(),
            self._paces.go_on(),
            self._end_if_idle(),
            self._heart.go_on(self._is_telling),
        )
        self._tasks = [asyncio.create_task(each) for each in going_on]
        self._listen()

    async def _open_ledger(self) -> Snapshot:
        address = self.settings.ledger

        def opened() -> tuple[Ledger, Snapshot]:
            ledger = self._ledger or open_ledger(address)
            ledger.take_over(self.incarnation)
            return ledger, ledger.load()

        self._ledger, books = await asyncio.get_running_loop().run_in_executor(self._thread, opened)
        return books

    def _build(self, books: Snapshot) -> None:
        settings = self.settings
        assert self._ledger is not None  # noqa: S101  # narrows the type; it has just been opened
        self.reconciler = Reconciler(
            self._ledger,
            self._thread,
            books,
            self.clock,
            timings=self.metrics.timings,
            dethroned=self._dethroned,
            forgot=lambda: self.holders.drop_all("say again what you want"),
        )
        self._heart = Heartbeat(settings.runtime / "heartbeat", self.clock)
        self._roster = Roster(settings.runtime / "roster.json")
        self._roster.keep_only(books.leases.keys())
        self.evidence = Evidence(
            self._source or open_source(settings.environ),
            self._roster,
            lambda: self.reconciler.snapshot,
            self.reconciler.tell,
            configuration=self.configured.now,
            uid_of=lambda person: self.peers.with_uid(Caller(person)).uid,
        )
        self._enforcement = Enforcement(self.reconciler, self.evidence, lambda: self.configured.now.losses)
        self.holders = Holders(
            self.clock, self._roster, self.view, self.reconciler.tell, self.configured.now.holder_grace_s
        )
        tokens = LeaseTokens.of_file(settings.state / "token.key")
        self.peers = Peers(
            tokens,
            self._find,
            only_uid=os.getuid() if settings.mode == "on_demand" else None,
            admins=self.configured.now.admins,
            persons=PeerTokens({}) if settings.tokens is None else PeerTokens.of_file(settings.tokens),
            peer=self._peer,
            are_unix_users=settings.mode != "hub" or settings.unix_users,
        )
        self.bounds = Bounds(lambda: self.configured.now, lambda: self.peers)
        self.desk = Desk(
            self.reconciler,
            self.evidence,
            self.holders,
            self._roster,
            tokens,
            self.clock,
            self.view,
            self.model,
            self._accountant,
            self.bounds,
            lambda lease, verb: self.ask_ledger(lambda ledger: ledger.audit(where={"lease": lease, "verb": verb})),
        )
        self.people = People(self.reconciler, self.clock, self.ask_ledger)
        self.claims = HeldClaims(self.desk, self.people, self.submit)
        self.asks = Asks(lambda: self.books, self.configured, self.clock, self.ask_ledger, self.submit)
        self.governing = Governing(self)
        self._accountant.advance(books, self.clock.now())
        self.metrics.watch(self)
        self.reconciler.subscribe(self._published)

    def _is_telling(self) -> bool:
        """Whether somebody is asked for something, and hears it."""
        return bool(self.books.unsettled) and self.reconciler.trouble is None

    def _published(self, published: Published) -> None:
        self._accountant.advance(published.new, self.clock.now(), published.change.leases)
        self._pacing.published(published)
        self.holders.published(published)
        self.metrics.published(published)
        if self.settings.mode == "multi_user":
            self._enforcement.published(published)
        for key, lease in published.change.leases.items():
            if lease.is_over:
                self.desk.usage.pop(key, None)
        if any(lease.status is Status.QUEUED or lease.is_unsettled for lease in published.change.leases.values()):
            self.evidence.ask()

    def _listen(self) -> None:
        self._servers.append(serve(self, self._more_routes(self), self._application))

    async def stop(self) -> None:
        """Listen no more, keep what is decided, and let go of everything. Holders go on without it."""
        for server in self._servers:
            server.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if hasattr(self, "reconciler"):
            await self.holders.stop()
            await self._enforcement.stop()
            await self.evidence.stop()
            await self.reconciler.stop()
            await self._hours.keep()
            await self._paces.keep()
            await self.past.keep()
            await self.people.stop()
            if self._tasks and self._is_telling():
                self._heart.beat()
        if self._ledger is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._ledger.close)
        for server in self._servers:
            await server.close_all_connections()
        self._servers.clear()
        self._thread.shutdown(wait=False)
        self.stopped.set()

    def _dethroned(self) -> None:
        """Another broker decides now. This one must not answer any more."""
        for server in self._servers:
            server.stop()
        self.holders.drop_all("another broker has taken over")
        self.stopped.set()

    async def ask_ledger(self, question: Callable[[Ledger], _T]) -> _T:
        """Ask the ledger something, in its thread.

        Raises:
            LedgerError: it cannot be used now.
        """
        assert self._ledger is not None  # noqa: S101  # narrows the type; it is open while anybody can ask
        return await asyncio.get_running_loop().run_in_executor(self._thread, question, self._ledger)

    async def _end_if_idle(self) -> None:
        """An on-demand broker that nobody needs ends: the next holder starts another one."""
        limit = self.settings.quit_after_s
        if limit is None:
            return
        needed = self.clock.now()
        while True:
            await asyncio.sleep(min(_IDLE_CHECK_S, limit))
            if len(self.holders) or self.books.leases:
                needed = self.clock.now()
            elif self.clock.now() - needed >= limit:
                self.stopped.set()
                return

    async def projects(self) -> list[tuple[Project, wire.ProjectModel]]:
        """Every project, with the GPU-hours of the last 30 days."""
        hours = await self._hours.by_project()
        return projects(self.view(), hours, self.configured.source)

    def availability(
        self, texts: Sequence[str], project: str, person: str, kind: Kind, before: Sequence[Event] = ()
    ) -> AvailabilityAnswer:
        """When each of these shares could be had, after the events *before*.

        Raises:
            PublicError: 400: one is no share.
        """
        last = self.evidence.last
        is_simulated = last is not None and last.driver.vendor == "simulated"
        question = Question(self.books, project, person, kind, self.clock.now(), self._pacing.paces, before)
        return question.answer(texts, is_simulated=is_simulated)

    async def submit(self, *events: Event) -> Change:
        """Have *events* decided on and kept.

        Raises:
            PublicError: 503: the ledger cannot be used now; what was asked is done when it can.
        """
        return await submit(self.reconciler, events, self.settings.commit_s)

    async def reload(self) -> None:
        """Read the file of the configuration again. Raises as `Governing.reload`."""
        await self.governing.reload()

    def show_anew(self) -> None:
        """What is shown has changed although the books have not."""
        self._view = None
