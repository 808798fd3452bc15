"""Spawners as the hub makes them, and the steps of its start and stop that our hooks take part in."""

from __future__ import annotations

import asyncio
import inspect
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from traitlets.config import Config

from jupyter_gpushare.hub import setup_gpushare

from .stand_in_service import StandInService

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from pathlib import Path

    from jupyterhub.spawner import Spawner  # type: ignore[import-untyped]


def make(spawner_class: type[Spawner], c: Config, *, name: str = "ada", groups: Sequence[str] = (), **said: Any) -> Any:
    """A spawner as the hub makes one for the user *name*."""
    user = SimpleNamespace(
        name=name,
        url=f"/user/{name}",
        settings={"failure_count": 0},
        groups=[SimpleNamespace(name=group) for group in groups],
    )
    return spawner_class(config=c, user=user, hub=SimpleNamespace(base_url="/hub/"), **said)


async def settled(value: Any) -> Any:
    """*value*, awaited if it wants to be."""
    return await value if inspect.isawaitable(value) else value


async def start(spawner: Any, options: Any) -> dict[str, str]:
    """The steps of the hub's start that are ours; what the server's environment then says of shares."""
    spawner.user_options = options
    await settled(spawner.run_pre_spawn_hook())
    return {name: value for name, value in spawner.environment.items() if name.startswith("GPUSHARE_")}


async def stop(spawner: Any) -> None:
    """The step of the hub's stop that is ours."""
    await settled(spawner.run_post_stop_hook())


class Site:
    """A hub's configuration with a service beside it that stands in for ours.

    Attributes:
        c: the configuration.
        service: what answers.
    """

    def __init__(self, state: Path, c: Config | None = None, **arguments: Any) -> None:
        self.c = Config() if c is None else c
        self.service = StandInService()
        self._state, self._arguments = state, arguments

    def run(self, story: Callable[[StandInService], Awaitable[Any]]) -> Any:
        """Set up with the service running, and go through *story*."""

        async def told() -> Any:
            async with self.service.running() as service:
                setup_gpushare(self.c, state=self._state / "state", config=None, port=service.port, **self._arguments)
                service.secret = (self._state / "state" / "hub.token").read_text()
                return await story(service)

        return asyncio.run(told())
