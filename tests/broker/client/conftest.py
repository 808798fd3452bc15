"""A scripted broker for each test, and short waits."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.broker.client import BrokerClient, Holding, Pauses
from jupyter_gpushare.broker.wire import ClaimModel, ProcessModel
from tests.broker.client.scripted_broker import ScriptedBroker

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

CLAIM = ClaimModel(key="k", kind="interactive", project="team-a", share="0.5", name="lab", is_parkable=True)
PROCESS = ProcessModel(4711, 1)


async def until(probe: Callable[[], Any], deadline_s: float = 30) -> Any:
    """Wait until *probe* gives a true value, and give that."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        if value := probe():
            return value
        await asyncio.sleep(0.01)
    raise AssertionError(f"nothing after {deadline_s} s")


class Bench:
    """A broker and those who hold leases of it."""

    def __init__(self, directory: Path) -> None:
        self.broker = ScriptedBroker(directory / "broker.sock")
        self.leases: list[Any] = []
        self.refusals: list[Any] = []
        self._holdings: list[Holding] = []

    @property
    def client(self) -> BrokerClient:
        """Asks the broker, with little patience."""
        return BrokerClient(self.broker.endpoint, 5.0, Pauses(0.01, 0.05, 5.0))

    def hold(self, claim: ClaimModel = CLAIM, **options: Any) -> Holding:
        """Hold a lease until the test ends."""
        options = {"on_lease": self.leases.append, "on_refused": self.refusals.append} | options
        holding = self.client.hold(claim, [PROCESS], **options)
        self._holdings.append(holding)
        return holding

    async def held(self, **options: Any) -> Holding:
        """As `hold`, once the broker has welcomed it."""
        holding = self.hold(**options)
        await until(lambda: holding.lease)
        return holding

    async def close(self) -> None:
        """End everything."""
        for holding in self._holdings:
            await holding.close()
        self.broker.stop()


@pytest.fixture(name="play")
def _play() -> Iterator[Callable[[Callable[[Bench], Coroutine[Any, Any, None]]], None]]:
    """Play a story with a broker that listens; the socket's path must be short."""
    directory = Path(tempfile.mkdtemp(prefix="gs"))

    async def whole(story: Callable[[Bench], Coroutine[Any, Any, None]]) -> None:
        bench = Bench(directory)
        bench.broker.start()
        try:
            await story(bench)
        finally:
            await bench.close()

    yield lambda story: asyncio.run(whole(story))
    shutil.rmtree(directory)
