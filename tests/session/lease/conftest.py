"""A real Jupyter Server whose share a real broker keeps, both on one simulated machine."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_gpushare.broker.client import BrokerClient, Endpoint
from jupyter_gpushare.broker.configuration import HostWish
from jupyter_gpushare.broker.memory_ledger import MemoryLedger
from jupyter_gpushare.broker.service import Broker
from jupyter_gpushare.broker.settings import Settings
from jupyter_gpushare.broker.wire import ClaimModel, LeaseKind, ProcessModel
from jupyter_gpushare.devices.identity import myself
from jupyter_gpushare.devices.simulated.source import SimulatedSource
from jupyter_gpushare.rules.event import HostSeen
from tests.session.parking.conftest import (  # noqa: F401  # fixtures
    _machine,
    _page_of,
    _park,
    _parking_of,
    _run,
    _source,
    jp_server_config,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from jupyter_gpushare.broker.client import Holding
    from jupyter_gpushare.broker.clock import Clock
    from jupyter_gpushare.devices.simulated.machine import Machine
    from jupyter_gpushare.quantity import Memory
    from jupyter_gpushare.rules.event import Event


class Kept:
    """A broker that can be killed and come back with its books, as its ledger outlives it."""

    def __init__(self, directory: Path, machine: Machine, loop: asyncio.AbstractEventLoop) -> None:
        self.socket = directory / "broker.sock"
        self._directory = directory
        self._machine = machine
        self._loop = loop
        self._ledger = _Lasting()
        self.clock: Clock | None = None
        self.broker: Broker | None = None

    @property
    def client(self) -> BrokerClient:
        """Asks it."""
        return BrokerClient(Endpoint.at_socket(self.socket))

    async def start(self) -> None:
        """Listen."""
        settings = Settings(
            mode="on_demand",
            runtime=self._directory,
            state=self._directory / "state",
            ledger="memory",
            socket=self.socket,
        )
        source = SimulatedSource(self._machine.path)
        self.broker = Broker(settings, ledger=self._ledger, source=source, clock=self.clock)
        await self.broker.start()

    async def stop(self) -> None:
        """Go away."""
        broker, self.broker = self.broker, None
        if broker is not None:
            await broker.stop()

    def lease(self) -> Any:
        """The session's lease in the books; None without one."""
        assert self.broker is not None
        leases = [lease for lease in self.broker.books.leases.values() if lease.key.startswith("session-")]
        return leases[0] if leases else None

    async def submit(self, event: Event) -> None:
        """Have something happen."""
        assert self.broker is not None
        await self.broker.reconciler.submit([event])

    async def set_budget(self, memory: Memory) -> None:
        """Let the host take so much parked memory."""
        assert self.broker is not None
        wish = HostWish("*", parking_budget=memory)
        self.broker.evidence.configure(replace(self.broker.configured.now, hosts=(wish,)))
        for host in self.broker.books.hosts.values():
            await self.submit(HostSeen(replace(host, parking_budget=memory)))

    def status(self) -> str:
        """Its status; empty without one."""
        lease = self.lease() if self.broker is not None else None
        return "" if lease is None else lease.status.value


class _Lasting(MemoryLedger):
    """Books that outlive a broker."""

    def close(self) -> None:
        """Keep them."""


@pytest.fixture(name="directory")
def _directory() -> Iterator[Path]:
    """For sockets, whose paths must be short."""
    directory = Path(tempfile.mkdtemp(prefix="gs"))
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(name="kept")
def _kept(directory: Path, machine: Machine, jp_asyncio_loop: asyncio.AbstractEventLoop) -> Iterator[Kept]:
    """The broker, which runs."""
    kept = Kept(directory, machine, jp_asyncio_loop)
    jp_asyncio_loop.run_until_complete(kept.start())
    yield kept
    jp_asyncio_loop.run_until_complete(kept.stop())


@pytest.fixture(name="gpushare_options")
def _gpushare_options(kept: Kept) -> dict[str, Any]:
    """A session of that broker, impatient with one that is away."""
    return {"broker": f"unix:{kept.socket}", "broker_grace_s": 1.0}


class Others:
    """Other holders at the same broker, each with its own lease, spoken for by this process."""

    def __init__(self, kept: Kept) -> None:
        self._kept = kept
        self._holdings: list[Holding] = []

    async def hold(self, share: str, process: ProcessModel | None = None, kind: LeaseKind = "interactive") -> Holding:
        """Hold *share*, which must be there."""
        me = myself()
        claim = ClaimModel(f"other-{len(self._holdings)}", kind, "default", share, "other", is_parkable=True)
        holding = self._kept.client.hold(claim, [process or ProcessModel(me.pid, me.start)])
        self._holdings.append(holding)
        holding.did("running", (await holding.granted()).epoch)
        return holding

    async def close(self) -> None:
        """Go away."""
        for holding in self._holdings:
            await holding.close()


@pytest.fixture(name="others")
def _others(kept: Kept, jp_asyncio_loop: asyncio.AbstractEventLoop) -> Iterator[Others]:
    others = Others(kept)
    yield others
    jp_asyncio_loop.run_until_complete(others.close())
