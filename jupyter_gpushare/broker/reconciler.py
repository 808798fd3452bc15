"""The one that decides: events come in, the rules make a step, the ledger keeps it, and only then anybody hears of it.

All of it runs in one event loop but the commits, which run in a thread of their own, several steps at once when they
come faster than the ledger is (group commit). While the ledger cannot be used the books in memory go on, nothing is
said to anybody, and the commit is tried again with growing pauses.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.ledger import ConflictError, LedgerError, NotLeaderError
from jupyter_gpushare.rules.change import Change
from jupyter_gpushare.rules.event import OutageOver, TimePassed
from jupyter_gpushare.rules.step import step

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor

    from jupyter_gpushare.broker.clock import Clock
    from jupyter_gpushare.broker.ledger import Ledger
    from jupyter_gpushare.rules.event import Event
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["Published", "Reconciler", "StoppedError", "Timings"]

_LOG: Final = logging.getLogger(__name__)
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 30.0
# However wrong an alarm is, the rules do not run in a circle on it.
_SHORTEST_ALARM_S: Final = 0.02
# So many events make one step at most: a thousand claims at once must not keep everybody else waiting.
_MOST_AT_ONCE: Final = 32


class StoppedError(Exception):
    """The reconciler has stopped, or stopped before this was kept; nothing was promised."""


@dataclass(frozen=True, slots=True)
class Published:
    """What was committed: the books before, the books after, and what changed between them."""

    old: Snapshot
    new: Snapshot
    change: Change


@dataclass(slots=True)
class Timings:
    """How long things took, for the metrics: called with seconds."""

    decided: Callable[[float], None] = field(default=lambda _seconds: None)
    committed: Callable[[float], None] = field(default=lambda _seconds: None)


@dataclass(slots=True)
class _Asked:
    """Events that somebody submitted together, and the promise that they are answered."""

    events: Sequence[Event]
    answer: asyncio.Future[Change]


@dataclass(slots=True)
class _Batch:
    """What is decided and not yet kept."""

    change: Change = field(default_factory=Change)
    waiting: list[tuple[asyncio.Future[Change], Change]] = field(default_factory=list)


class Reconciler:
    """Decides, keeps and publishes. For one event loop.

    Args:
        ledger: where the books are kept; it has been taken over already.
        executor: the one thread that the ledger is used from.
        snapshot: the books as the ledger has them.
        clock: what time it is.
        timings: hears how long decisions and commits take.
        dethroned: called once when another broker has taken the ledger over: stop serving.
        forgot: called when the ledger refused what was decided for good, so that the books are those of before: holders
            must say again what they want.

    Attributes:
        snapshot: the newest books, with steps that are not kept yet: for deciding only.
        committed: the newest books that are kept: for answers.
        look_again: when time alone may change `snapshot`; None when it cannot.
        trouble: why commits fail now, None while they do not; *trouble_since* when that began.
    """

    def __init__(
        self,
        ledger: Ledger,
        executor: Executor,
        snapshot: Snapshot,
        clock: Clock,
        *,
        timings: Timings | None = None,
        dethroned: Callable[[], None] = lambda: None,
        forgot: Callable[[], None] = lambda: None,
    ) -> None:
        self.snapshot = snapshot
        self.committed = snapshot
        self.look_again: float | None = None
        self.trouble: LedgerError | None = None
        self.trouble_since: float | None = None
        self._ledger = ledger
        self._executor = executor
        self._clock = clock
        self._timings = timings or Timings()
        self._dethroned = dethroned
        self._forgot = forgot
        self._inbox: deque[_Asked] = deque()
        self._arrived = asyncio.Event()
        self._batch = _Batch()
        self._decided = asyncio.Event()
        self._committing = asyncio.Lock()
        self._subscribers: list[Callable[[Published], None]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._alarm: asyncio.Task[None] | None = None
        self._is_stopped = False

    @property
    def pending(self) -> int:
        """How many lines of the audit are decided and not yet kept."""
        return len(self._batch.change.audit)

    def start(self) -> None:
        """Begin to work."""
        self._tasks = [asyncio.create_task(self._decide_all()), asyncio.create_task(self._commit_all())]

    async def stop(self) -> None:
        """Stop deciding; what is decided is tried to be kept once more. Whoever still waits hears StoppedError."""
        if self._is_stopped:
            return
        self._is_stopped = True
        if self._alarm is not None:
            self._alarm.cancel()
        async with self._committing:  # a commit that has begun is not left half-way
            for task in self._tasks:
                task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if not isinstance(self.trouble, NotLeaderError):
            with contextlib.suppress(LedgerError):  # it was logged when it began, and nobody was promised anything
                await self._commit_once()
        self._drop_all()

    def subscribe(self, subscriber: Callable[[Published], None]) -> Callable[[], None]:
        """Have *subscriber* called after each commit; the answer ends that."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    async def submit(self, events: Sequence[Event]) -> Change:
        """Have *events* decided on, and wait until that is kept. The change may be larger than they alone make.

        Raises:
            StoppedError: the broker stops; nothing was promised.
            Exception: the rules cannot take such an event: a mistake of ours, and the books are as before.
        """
        if self._is_stopped:
            raise StoppedError("the broker has stopped")
        asked = _Asked(events, asyncio.get_running_loop().create_future())
        self._inbox.append(asked)
        self._arrived.set()
        # Whoever asked may go away: what is decided stays decided.
        return await asyncio.shield(asked.answer)

    def tell(self, *events: Event) -> None:
        """As `submit`, for somebody who does not wait."""
        if not self._is_stopped:
            asked = _Asked(events, asyncio.get_running_loop().create_future())
            asked.answer.add_done_callback(_heard)
            self._inbox.append(asked)
            self._arrived.set()

    async def _decide_all(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._inbox:
                self._decide(self._take())
                # Between two steps everybody else has a turn.
                await asyncio.sleep(0)

    def _take(self) -> list[_Asked]:
        taken = [self._inbox.popleft()]
        count = len(taken[0].events)
        while self._inbox and count + len(self._inbox[0].events) <= _MOST_AT_ONCE:
            count += len(self._inbox[0].events)
            taken.append(self._inbox.popleft())
        return taken

    def _decide(self, asked: list[_Asked]) -> None:
        try:
            self._step(asked)
        except Exception as error:  # noqa: BLE001  # logged, and told to whoever asked
            _LOG.exception("The rules failed on %d events; the books are as before", len(asked))
            if len(asked) == 1:
                _fail(asked[0].answer, error)
            else:
                # One of them is to blame, and the others shall not suffer for it.
                for each in asked:
                    self._decide([each])

    def _step(self, asked: list[_Asked]) -> None:
        began = time.perf_counter()
        done = step(self.snapshot, [event for each in asked for event in each.events], self._clock.now())
        self._timings.decided(time.perf_counter() - began)
        self.snapshot, self.look_again = done.snapshot, done.look_again
        self._batch.change = self._batch.change.then(done.change) if self._batch.change else done.change
        self._batch.waiting += [(each.answer, done.change) for each in asked]
        self._decided.set()
        self._set_alarm(done.look_again)

    def _set_alarm(self, at: float | None) -> None:
        """Each step says anew when time alone may change something, so that an earlier answer is void."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None if at is None else asyncio.create_task(self._ring(at))

    async def _ring(self, at: float) -> None:
        await self._clock.until(max(at, self._clock.now() + _SHORTEST_ALARM_S))
        # The step that this leads to sets the next alarm, and must not cancel the one that is at work.
        self._alarm = None
        self.tell(TimePassed())

    async def _commit_all(self) -> None:
        pause = _FIRST_PAUSE_S
        while True:
            await self._decided.wait()
            self._decided.clear()
            try:
                async with self._committing:
                    await self._commit_once()
            except NotLeaderError as error:
                self._give_way(error)
                return
            except ConflictError as error:
                self._forget(error)
            except LedgerError as error:
                self._note(error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
                self._decided.set()
            else:
                self._note(None)
                pause = _FIRST_PAUSE_S

    async def _commit_once(self) -> None:
        """Keep all that is decided now, then publish it. A failure leaves everything to be kept by the next try."""
        batch, self._batch = self._batch, _Batch()
        snapshot = self.snapshot
        try:
            if batch.change:
                began = time.perf_counter()
                await asyncio.get_running_loop().run_in_executor(self._executor, self._ledger.commit, batch.change)
                self._timings.committed(time.perf_counter() - began)
        except BaseException as error:
            self._batch = _Batch(batch.change.then(self._batch.change), batch.waiting + self._batch.waiting)
            if isinstance(error, LedgerError) or not isinstance(error, Exception):
                raise
            # Whatever it was: a broker that keeps nothing any more must not look well.
            _LOG.exception("The ledger failed in a way that is a mistake of ours")
            raise LedgerError(f"The ledger failed, and the broker's log says where: {error!r}") from error
        old, self.committed = self.committed, snapshot
        if batch.change:
            self._publish(Published(old, snapshot, batch.change))
        for answer, change in batch.waiting:
            if not answer.done():
                answer.set_result(change)

    def _publish(self, published: Published) -> None:
        for subscriber in list(self._subscribers):
            try:
                subscriber(published)
            except Exception:  # noqa: BLE001  # logged; it must go on
                _LOG.exception("Somebody who hears of commits failed; the commit stands")

    def _note(self, error: LedgerError | None) -> None:
        if error is not None and self.trouble is None:
            self.trouble_since = self._clock.now()
            _LOG.error("The ledger cannot be used, so nothing new is promised until it can: %s", error)
        if error is None and self.trouble is not None:
            lasted_s = None if self.trouble_since is None else self._clock.now() - self.trouble_since
            self.trouble_since = None
            _LOG.warning("The ledger works again; everything decided meanwhile is kept")
            self.tell(OutageOver(lasted_s))
        self.trouble = error

    def _forget(self, error: ConflictError) -> None:
        """What the ledger will never keep must not be decided on: back to the books that it has."""
        _LOG.error(
            "The ledger refused what was decided, which is a mistake of ours; the books are as before: %s", error
        )
        batch, self._batch = self._batch, _Batch()
        self.snapshot = self.committed
        for answer, _ in batch.waiting:
            _fail(answer, error)
        self._forgot()
        self.tell(TimePassed())

    def _give_way(self, error: NotLeaderError) -> None:
        _LOG.error("This broker stops: %s", error)
        self.trouble = error
        self.trouble_since = self._clock.now()
        self._is_stopped = True
        self._drop_all()
        self._dethroned()

    def _drop_all(self) -> None:
        stopped = StoppedError("the broker has stopped before this was kept")
        for answer, _ in self._batch.waiting:
            _fail(answer, stopped)
        for asked in self._inbox:
            _fail(asked.answer, stopped)
        self._batch.waiting.clear()
        self._inbox.clear()


def _fail(answer: asyncio.Future[Change], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)


def _heard(answer: asyncio.Future[Change]) -> None:
    """Nobody waits for it; what failed was logged where it failed."""
    if not answer.cancelled():
        answer.exception()
