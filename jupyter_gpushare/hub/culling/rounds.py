"""Our own culler: looks at every server of the hub now and then, and stops those whose time has come.

For hubs without jupyterhub-idle-culler, or with one that has no hook. It decides as `arbiter` does.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.hub.culling.hub_servers import HubTroubleError, seconds_of
from jupyter_gpushare.hub.culling.judging import Judge
from jupyter_gpushare.hub.culling.verdict import ServerSight
from jupyter_gpushare.hub.culling.wire import Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jupyter_gpushare.broker.cull_policy import CullPolicy
    from jupyter_gpushare.hub.culling.announcing import Source
    from jupyter_gpushare.hub.culling.hub_servers import HubServers, User
    from jupyter_gpushare.hub.culling.verdict import Why
    from jupyter_gpushare.hub.culling.wire import Evidence

__all__ = ["Round", "Rounds"]

_LOG: Final = logging.getLogger(__name__)
_EVERY_S: Final = 300.0


@dataclass(slots=True)
class Round:
    """What one round saw and did.

    Attributes:
        seen: how many servers were found to be so.
        stopped: those that the hub was asked to stop, and took it.
        went_on: those whose time had come and which go on all the same, with the reason.
    """

    seen: Counter[Why] = field(default_factory=Counter)
    stopped: list[Stop] = field(default_factory=list)
    went_on: list[tuple[Stop, str]] = field(default_factory=list)


class Rounds:
    """One culler.

    Args:
        hub: whose servers they are; used by one round at a time.
        source: what is known of them, and where stops are announced.
        stop_after_s: after how long a server is stopped where the admin's file does not say; None for never.
        is_wanted: whether rounds are taken under a policy; an admin may leave that to another culler.
        clock: gives the time, seconds since the epoch.
    """

    def __init__(
        self,
        hub: HubServers,
        source: Source,
        *,
        stop_after_s: float | None = None,
        is_wanted: Callable[[CullPolicy], bool] = lambda _: True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._hub = hub
        self._source = source
        self._stop_after_s = stop_after_s
        self._is_wanted = is_wanted
        self._clock = clock
        self._is_failing = False

    async def go_on(self) -> None:
        """Round after round, until it is cancelled. Whatever fails is logged once, and tried again."""
        while True:
            pause_s = await self._take_one()
            await asyncio.sleep(pause_s)

    async def once(self) -> Round:
        """One round.

        Raises:
            HubTroubleError: the hub cannot be asked; what was judged before that is done.
        """
        return await self._round(await self._source.evidence())

    async def _take_one(self) -> float:
        """One round, whatever happens; seconds until the next."""
        known = None
        try:
            known = await self._source.evidence()
            if known is None or self._has_to_look(known.policy):
                _tell(await self._round(known))
        except HubTroubleError as error:
            if not self._is_failing:
                _LOG.warning("Culling goes on when the hub does: %s", error)
            self._is_failing = True
        except Exception:  # noqa: BLE001  # a culler that stopped looking would go unnoticed for long
            _LOG.exception("A round of culling failed; nobody is stopped for it")
        else:
            self._is_failing = False
        return _EVERY_S if known is None else known.policy.every_s

    def _has_to_look(self, policy: CullPolicy) -> bool:
        return self._is_wanted(policy) and (not policy.stops_nothing or self._stop_after_s is not None)

    async def _round(self, known: Evidence | None) -> Round:
        seen = Round()
        if known is None:
            _LOG.warning("The broker cannot be asked which servers are in use: nobody is stopped in this round")
            return seen
        judge, began = Judge(known, self._stop_after_s), self._clock()
        turn, stopping = asyncio.Semaphore(self._hub.at_once), set[asyncio.Task[None]]()
        async with self._hub:
            try:
                async for users in self._hub.users():
                    now = known.at + self._clock() - began
                    for stop in await self._announced(list(_judge(users, judge, now, seen.seen)), seen):
                        stopping.add(asyncio.ensure_future(self._stop(stop, turn, seen)))
            finally:  # what was announced is done, whatever became of the rest of the list
                await asyncio.gather(*stopping)
        return seen

    async def _announced(self, stops: list[Stop], seen: Round) -> list[Stop]:
        """Those of *stops* that may be stopped."""
        go_on = await self._source.announce(stops) if stops else {}
        seen.went_on += go_on.items()
        return [stop for stop in stops if stop not in go_on]

    async def _stop(self, stop: Stop, turn: asyncio.Semaphore, seen: Round) -> None:
        async with turn:
            try:
                await self._hub.stop(stop.person, stop.server)
            except HubTroubleError as error:
                seen.went_on.append((stop, str(error)))
            else:
                seen.stopped.append(stop)


def _judge(users: list[User], by: Judge, now: float, seen: Counter[Why]) -> Iterator[Stop]:
    for user in users:
        for name, server in user.servers.items():
            sight = ServerSight(
                server.pending is not None, server.ready, seconds_of(server.last_activity), seconds_of(server.started)
            )
            stops, why = by.judge(user.name, name, sight, server.user_options, now)
            seen[why] += 1
            if stops:
                yield Stop(user.name, name, why)


def _tell(seen: Round) -> None:
    for stop in seen.stopped:
        _LOG.info("Stopped the server %r of %s: %s", stop.server, stop.person, stop.why)
    for stop, why in seen.went_on:
        _LOG.info("The server %r of %s goes on although %s: %s", stop.server, stop.person, stop.why, why)
