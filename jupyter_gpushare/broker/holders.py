"""Who holds which lease now: connections, their pushes, and who has not come back."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from jupyter_gpushare.broker.wire import LeaseMessage, MessageModel, RefusedMessage
from jupyter_gpushare.rules.event import LetGo, Vanished
from jupyter_gpushare.rules.lease import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from jupyter_gpushare.broker.clock import Clock
    from jupyter_gpushare.broker.models import View
    from jupyter_gpushare.broker.reconciler import Published
    from jupyter_gpushare.broker.roster import Roster
    from jupyter_gpushare.broker.wire import LeaseModel, LentModel, ToHolder
    from jupyter_gpushare.rules.event import Event
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["Connection", "Holders"]

_LOG: Final = logging.getLogger(__name__)
_TICK_S: Final = 0.5
# Whether processes are dead takes a read of /proc each: so many a tick, in turn.
_DEAD_CHECKS: Final = 50
# With more than so many in line, places are worked out once a tick and not after each commit.
_SHORT_LINE: Final = 200
# What borrowers hold is told to lenders every so many ticks, if it moved by so much: it is for a bar in a sidebar.
_LENT_EVERY: Final = 10
_LENT_STEP: Final = 64 << 20
# An estimate that moved by less is not worth a message.
_ESTIMATE_STEP: Final = 0.1

_REPLACED: Final = "Another connection speaks for this notebook server or job now; this one is closed."


class Connection(Protocol):
    """One holder's connection."""

    def push(self, message: ToHolder) -> None:
        """Send *message*; of several that cannot be sent at once only the newest matters."""

    def end(self, reason: str = "") -> None:
        """Send what there is and close."""

    def is_stuck(self) -> bool:
        """Whether the other side has not read for long."""


@dataclass(slots=True)
class _Away:
    """A lease whose holder is not connected; *is_held* until then if none has ever been."""

    until: float
    is_held: bool = False
    is_told: bool = False
    is_dead: bool = False


class Holders:
    """The connections by lease. For one event loop.

    Args:
        clock: what time it is.
        roster: whose processes are alive.
        view: the newest books that are kept.
        tell: takes events.
        grace_s: how long a holder may be away before it counts as vanished.
    """

    def __init__(
        self,
        clock: Clock,
        roster: Roster,
        view: Callable[[], View],
        tell: Callable[[Event], None],
        grace_s: float,
    ) -> None:
        self._clock = clock
        self._roster = roster
        self._view = view
        self._tell = tell
        self.grace_s = grace_s
        self._connections: dict[str, Connection] = {}
        self._sent: dict[str, LeaseModel] = {}
        self._away: dict[str, _Away] = {}
        self._to_check: deque[str] = deque()
        self._shown: View | None = None
        self._ticks = 0
        self._booted = clock.now() - time.clock_gettime(time.CLOCK_BOOTTIME)
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._connections)

    @property
    def away(self) -> int:
        """How many leases have no holder connected."""
        return len(self._away)

    def start(self, books: Snapshot) -> None:
        """Begin; every lease in *books* has as long to come back as if its connection had just been lost."""
        for key, lease in books.leases.items():
            until = self._clock.now() + self.grace_s
            if lease.hold is not None:
                # While no broker was there nobody could say that it is still wanted.
                self._away[key] = _Away(max(until, lease.hold.until), is_held=True)
            else:
                self._away[key] = _Away(until, is_told=lease.status is Status.MISSING)
        self._task = asyncio.create_task(self._tick_on())

    async def stop(self) -> None:
        """Close every connection: holders go on by themselves and come back when there is a broker."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.drop_all("the broker stops")

    def drop_all(self, reason: str) -> None:
        """Close every connection; their holders come back and say anew what they want."""
        for key, connection in list(self._connections.items()):
            self.left(key, connection)
            connection.end(reason)

    def connection_of(self, lease: str) -> Connection | None:
        """Who speaks for *lease* now."""
        return self._connections.get(lease)

    def joined(self, lease: str, connection: Connection, told: LeaseModel) -> None:
        """*connection* speaks for *lease* from now on, and has been told how it is. The newest one counts."""
        before = self._connections.get(lease)
        self._connections[lease] = connection
        self._sent[lease] = told
        self._away.pop(lease, None)
        if before is not None and before is not connection:
            message = MessageModel("REPLACED", _REPLACED, {}, _REPLACED)
            before.push(RefusedMessage(message, is_final=True))
            before.end("replaced")

    def left(self, lease: str, connection: Connection) -> None:
        """*connection* is lost. If no other one speaks for *lease* meanwhile, its grace begins."""
        if self._connections.get(lease) is not connection:
            return
        del self._connections[lease]
        self._sent.pop(lease, None)
        if lease in self._view().books.leases:
            self._away[lease] = _Away(self._clock.now() + self.grace_s)
            self._to_check.appendleft(lease)

    def published(self, published: Published) -> None:
        """Tell those whom a commit concerns."""
        view = self._view()
        for key in self._concerned(published):
            connection = self._connections.get(key)
            lease = published.change.leases.get(key) or view.books.leases.get(key)
            if connection is not None and lease is not None:
                self._push(key, connection, view.lease(lease, with_place=len(view.books.waiting) <= _SHORT_LINE))
        for key, lease in published.change.leases.items():
            if lease.is_over:
                self._end(key)
            elif lease.hold is not None:
                self._away[key] = _Away(lease.hold.until, is_held=True)
            elif (away := self._away.get(key)) is not None and away.is_held:
                # Its holder has come, and may be gone again already.
                self._away[key] = _Away(self._clock.now() + self.grace_s)

    def tell_all(self) -> None:
        """What is the same for many has changed: tell everybody whose lease shows it."""
        view = self._view()
        for key, connection in self._connections.items():
            if (lease := view.books.leases.get(key)) is not None:
                self._push(key, connection, view.lease(lease, with_place=len(view.books.waiting) <= _SHORT_LINE))

    def _concerned(self, published: Published) -> Iterable[str]:
        """The leases that changed, and those that lend to them or wait for them: they show who that is."""
        concerned = dict.fromkeys(published.change.leases)
        for key, lease in published.change.leases.items():
            for each in (published.old.leases.get(key), lease):
                if each is not None:
                    concerned |= dict.fromkeys(loan.lender for loan in each.loans)
                    if each.because_of:
                        concerned[each.because_of] = None
        return concerned

    def _push(self, key: str, connection: Connection, model: LeaseModel) -> None:
        if self._sent.get(key) != model:
            self._sent[key] = model
            connection.push(LeaseMessage(model, self._clock.now()))

    def _end(self, key: str) -> None:
        self._away.pop(key, None)
        self._sent.pop(key, None)
        self._roster.forget(key)
        if (connection := self._connections.pop(key, None)) is not None:
            connection.end("the lease is over")

    async def _tick_on(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            try:
                self._tick()
            except Exception:  # noqa: BLE001  # logged; it must go on
                _LOG.exception("Holders could not be looked after; it is tried again")

    def _tick(self) -> None:
        # No list of pairs: ten thousand of them, twice a second, make Python look for garbage each time.
        for key in [key for key, connection in self._connections.items() if connection.is_stuck()]:
            _LOG.warning("The holder of lease %s does not read what it is told; its connection is closed", key)
            connection = self._connections[key]
            self.left(key, connection)
            connection.end("too slow")
        self._tell_vanished()
        self._tell_places()
        self._ticks += 1
        if self._ticks % _LENT_EVERY == 0:
            self._tell_lenders()

    def _tell_lenders(self) -> None:
        """What training holds on a share that is lent comes and goes without any decision."""
        view = self._view()
        for key in [key for key, sent in self._sent.items() if sent.lent_to]:
            connection, lease = self._connections.get(key), view.books.leases.get(key)
            if connection is not None and lease is not None and _moved(self._sent[key].lent_to, view.lent_to(lease)):
                self._push(key, connection, view.lease(lease))

    def _tell_vanished(self) -> None:
        self._look_for_dead()
        now = self._clock.now()
        for key, away in self._away.items():
            if not away.is_told and away.until <= now:
                away.is_told = True
                self._tell(LetGo(key) if away.is_held else Vanished(key, is_dead=away.is_dead))

    def _look_for_dead(self) -> None:
        """One whose processes have all ended need not be waited for.

        One that is held is: its server runs on when a program of it that used a GPU has ended.
        """
        if not self._to_check:
            self._to_check.extend(self._away)
        for _ in range(min(_DEAD_CHECKS, len(self._to_check))):
            key = self._to_check.popleft()
            away = self._away.get(key)
            if away is None or away.is_held or away.is_dead:
                continue
            if self._roster.is_dead(key) or self._is_nowhere(key):
                away.is_dead = away.is_told = True
                self._tell(Vanished(key, is_dead=True))

    def _is_nowhere(self, key: str) -> bool:
        """Whether it is a missing job that parked before this machine started, and of which no process is known.

        What it had in memory ended then. Others that cannot be seen, as in a container, live as far as anybody knows:
        they keep their place and their host memory as a session does, until their owner or an admin ends them.
        """
        lease = self._view().books.leases.get(key)
        if lease is None or lease.is_session or lease.status is not Status.MISSING or lease.is_resident:
            return False
        return lease.turn_began < self._booted and not self._roster.has(key)

    def _tell_places(self) -> None:
        """Places and estimates move while others come and go; estimates also when others take longer than usual."""
        view, before = self._view(), self._shown
        if view is before:
            return
        self._shown = view
        is_new = before is None or view.books is not before.books
        for key in view.books.waiting | view.books.unsettled if is_new else view.estimates:
            connection, sent = self._connections.get(key), self._sent.get(key)
            if connection is not None and sent is not None:
                model = view.lease(view.books.leases[key])
                if _differs(sent, model):
                    self._push(key, connection, model)


def _differs(sent: LeaseModel, model: LeaseModel) -> bool:
    """Whether the line shows something new. An estimate that only counts down shows nothing new."""
    if (sent.place, sent.reason, sent.lent_to, sent.status) != (model.place, model.reason, model.lent_to, model.status):
        return True
    old, new = sent.estimate_s, model.estimate_s
    if old is None or new is None:
        return old is not new
    return abs(old - new) > max(1.0, _ESTIMATE_STEP * max(old, new))


def _moved(sent: Sequence[LentModel], now: Sequence[LentModel]) -> bool:
    """Whether what somebody uses on a lent share is told again."""
    if len(sent) != len(now):
        return True
    return any(
        (old.memory is None) is not (new.memory is None) or abs((old.memory or 0) - (new.memory or 0)) > _LENT_STEP
        for old, new in zip(sent, now, strict=True)
    )
