"""Culling inside the hub's service: what sessions testify, the routes, and our own rounds if the admin wants them."""

from __future__ import annotations

import asyncio
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from jupyter_gpushare.hub.culling.announcing import InService
from jupyter_gpushare.hub.culling.handlers import routes
from jupyter_gpushare.hub.culling.rounds import Rounds
from jupyter_gpushare.hub.culling.witnesses import Witnesses
from jupyter_gpushare.rules.turns import pool_of

if TYPE_CHECKING:
    from jupyter_gpushare.broker.service import Broker
    from jupyter_gpushare.hub.culling.hub_servers import HubServers

__all__ = ["CullingService"]


class CullingService:
    """One for a broker; for its event loop. Made before the broker starts, as its routes are asked for then.

    Args:
        broker: whose books and configuration are looked at.
        hub: for rounds of our own, where the configuration wants them; None for none at all.
    """

    def __init__(self, broker: Broker, hub: HubServers | None = None) -> None:
        self._broker = broker
        self.witnesses = Witnesses(
            books=lambda: broker.books,
            pool_of=lambda books, lease: pool_of(books, lease).name,
            now=broker.clock.now,
            policy=lambda: broker.configured.now.culling,
        )
        self.announcer = InService(
            self.witnesses,
            lambda events: broker.reconciler.submit(events),  # noqa: PLW0108  # made when the broker starts
            broker.metrics.registry,
        )
        self._rounds = None if hub is None else Rounds(hub, self.announcer, is_wanted=attrgetter("has_rounds"))
        self._task: asyncio.Task[None] | None = None

    def routes(self) -> list[tuple[str, Any, dict[str, Any]]]:
        """For the broker's own application."""
        return routes(self._broker, self.witnesses, self.announcer)

    def start(self) -> None:
        """Begin the rounds; called on the running event loop, when the broker has started."""
        if self._rounds is not None and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._rounds.go_on())

    async def stop(self) -> None:
        """End, leaving no task behind."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
