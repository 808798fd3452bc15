"""Delivers the news of one hook, one after the other, again and again until they are taken or too old."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.hub.news.attempt import attempt
from jupyter_gpushare.hub.news.signing import Secret, SecretError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from jupyter_gpushare.broker.clock import Clock
    from jupyter_gpushare.broker.news_configuration import NewsHook
    from jupyter_gpushare.hub.news.attempt import Attempt
    from jupyter_gpushare.hub.news.figures import NewsFigures
    from jupyter_gpushare.hub.news.wording import News

__all__ = ["MOST_WAITING", "Courier", "Pauses"]

_LOG: Final = logging.getLogger(__name__)
#: So many news of one hook are kept in memory at most. What is in the audit is read from there as there is room.
MOST_WAITING: Final = 1000
#: A receiver that does not want something is asked so often, as it may be about to be mended.
_ASKED_AT_MOST: Final = 4
_JITTER: Final = 0.2


class Pauses:
    """How long to wait after each attempt that failed: twice as long each time.

    Args:
        first_s: after the first one.
        last_s: at most.
    """

    def __init__(self, first_s: float = 1.0, last_s: float = 300.0) -> None:
        self._first_s, self._last_s = first_s, last_s

    def after(self, attempts: int, wanted_s: float = 0.0) -> float:
        """After so many *attempts* that failed, of which the last one's receiver wants to be left alone *wanted_s*."""
        doubled = self._first_s * 2.0 ** min(attempts - 1, 30)
        # Two hooks of one receiver that was away do not come back in step.
        spread = 1 + random.uniform(-_JITTER, _JITTER)  # noqa: S311  # nobody's secret
        return min(max(doubled, wanted_s), self._last_s) * spread


class Courier:
    """For one hook, and one event loop.

    Args:
        hook: who is told what.
        clock: what time it is, for what is too old.
        figures: counts.
        delivered: called with each of the news that are done with: taken, or given up.
        pauses: how long to wait.
        wall: the time for the signature: receivers compare it with their own clocks.
    """

    def __init__(
        self,
        hook: NewsHook,
        clock: Clock,
        figures: NewsFigures,
        *,
        delivered: Callable[[News], Awaitable[None]],
        pauses: Pauses,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.hook = hook
        self._clock = clock
        self._figures = figures
        self._delivered = delivered
        self._pauses = pauses
        self._wall = wall
        self._waiting: deque[News] = deque()
        self._arrived = asyncio.Event()
        self._trouble = ""

    @property
    def room(self) -> int:
        """How many more it takes now."""
        return MOST_WAITING - len(self._waiting)

    @property
    def is_idle(self) -> bool:
        """Whether nothing of the audit waits."""
        return not any(each.number for each in self._waiting)

    def take(self, news: News) -> None:
        """Deliver *news* in its turn; the oldest one that is in no audit makes room for it if need be."""
        if self.room <= 0:
            victim = next((each for each in self._waiting if not each.number), None)
            self._figures.given_up(self.hook.name, "overflow")
            if victim is None:
                return
            self._waiting.remove(victim)
        self._waiting.append(news)
        self._show()
        self._arrived.set()

    async def go_on(self) -> None:
        """Deliver what comes; for a task."""
        self._show()
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                news = self._waiting[0]
                await self._deliver(news)
                # What is taken in meanwhile may have made room by leaving this one out.
                if self._waiting and self._waiting[0] is news:
                    self._waiting.popleft()
                self._show()
                await self._delivered(news)

    async def _deliver(self, news: News) -> None:
        """Until it is taken, or nobody needs it any more."""
        attempts = 0
        while self._clock.now() < news.until:
            came = await self._try(news)
            if came is None:
                await asyncio.sleep(self._pauses.after(attempts + 1))
                attempts += 1
                continue
            if came.why is None:
                self._figures.sent(self.hook.name, news.event)
                return
            attempts += 1
            if came.is_for_good and attempts >= _ASKED_AT_MOST:
                self._figures.given_up(self.hook.name, "refused")
                return
            await asyncio.sleep(self._pauses.after(attempts, came.wait_s))
        self._figures.given_up(self.hook.name, "too_old")

    async def _try(self, news: News) -> Attempt | None:
        """One attempt; None while there is no secret to sign it with."""
        try:
            # Read each time: whoever changes it need not tell us. In a thread: the disk may be slow.
            secret = await asyncio.to_thread(Secret.of_file, self.hook.secret_file)
        except SecretError as error:
            self._say(f"their secret cannot be used: {error}")
            return None
        came = await attempt(news, self.hook.url, secret, self._wall())
        if came.why is not None:
            self._figures.failed(self.hook.name, came.why.value)
        self._say("" if came.why is None else came.said)
        return came

    def _say(self, trouble: str) -> None:
        """Log when trouble begins, changes or ends, and not each time."""
        self._figures.failing(self.hook.name, is_failing=bool(trouble))
        if trouble and trouble != self._trouble:
            _LOG.warning("News for %s are delivered later: %s", self.hook.name, trouble)
        elif self._trouble and not trouble:
            _LOG.info("News for %s are delivered again", self.hook.name)
        self._trouble = trouble

    def _show(self) -> None:
        self._figures.waiting(self.hook.name, len(self._waiting))
