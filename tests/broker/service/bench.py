"""A real broker on a simulated machine, those who hold leases of it, and those who mean it harm."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import WebSocketClosedError, websocket_connect

from jupyter_gpushare.broker import wire
from jupyter_gpushare.broker.client import BrokerClient, Endpoint, Pauses
from jupyter_gpushare.broker.memory_ledger import MemoryBooks, MemoryLedger
from jupyter_gpushare.broker.peers import Peer
from jupyter_gpushare.broker.service import Broker
from jupyter_gpushare.broker.settings import Settings
from jupyter_gpushare.devices.identity import identify
from jupyter_gpushare.devices.simulated.machine import DeviceSpec, Machine
from jupyter_gpushare.devices.simulated.source import SimulatedSource
from jupyter_gpushare.quantity import Memory
from tests.devices.simulated.conftest import Program

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tornado.websocket import WebSocketClientConnection

    from jupyter_gpushare.broker.client import Holding

SESSION = wire.ClaimModel(key="lab", kind="interactive", project="default", share="0.5", name="lab", is_parkable=True)
JOB = wire.ClaimModel(key="job", kind="training", project="default", share="1", name="train", grace_s=5.0)
GIB = 1 << 30
#: What becoming a WebSocket is answered (RFC 6455, 4.2.2).
SWITCHED = 101
#: Its memory fits the budget for parked state of every machine that runs this.
SMALL = DeviceSpec(total=Memory(4 * GIB))


async def until(probe: Callable[[], Any], deadline_s: float = 60) -> Any:
    """Wait until *probe* gives a true value, and give that."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        if value := probe():
            return value
        await asyncio.sleep(0.01)
    raise AssertionError(f"nothing after {deadline_s} s")


def processes_of(*pids: int) -> list[wire.ProcessModel]:
    """Living processes, as a holder names them."""
    found = [identify(pid) for pid in pids]
    return [wire.ProcessModel(each.pid, each.start) for each in found if each is not None]


class Raw:
    """A holder that says whatever it likes."""

    def __init__(self, socket: WebSocketClientConnection) -> None:
        self.socket = socket
        self._is_over = False

    async def say(self, message: Any) -> None:
        """Send text as it is, anything else as JSON. One that was cut off already does not mind."""
        text = message if isinstance(message, (str, bytes)) else msgspec.json.encode(message).decode()
        with suppress(WebSocketClosedError):
            await self.socket.write_message(text, binary=isinstance(text, bytes))

    async def hear(self) -> Any:
        """The next message; None when the connection is closed."""
        said = await asyncio.wait_for(asyncio.ensure_future(self.socket.read_message()), 60)
        self._is_over = said is None
        return None if said is None else msgspec.json.decode(said, type=wire.ToHolder)

    async def close(self) -> None:
        """Say goodbye, and wait until the other side has: a socket that is left open is a warning in the next test."""
        self.socket.close()
        while not self._is_over:
            await self.hear()

    async def until(self, holds: Callable[[Any], bool]) -> Any:
        """The first message of which *holds*."""
        while (said := await self.hear()) is not None:
            if holds(said):
                return said
        raise AssertionError("the connection was closed")

    async def until_status(self, status: str) -> wire.LeaseModel:
        """The lease, once it has *status*."""
        said = await self.until(lambda each: isinstance(each, wire.LeaseMessage) and each.lease.status == status)
        lease: wire.LeaseModel = said.lease
        return lease

    async def greet(self, claim: wire.ClaimModel = SESSION, *pids: int, **more: Any) -> wire.WelcomeMessage:
        """Say hello, and hear the welcome."""
        await self.say(wire.HelloMessage(claim, processes_of(*pids), **more))
        said = await self.hear()
        assert isinstance(said, wire.WelcomeMessage), said
        return said


class Bench:
    """One broker, which may be stopped and started again on the same books.

    Attributes:
        uid: whom the broker takes connections for; None for whom the system says it is.
    """

    def __init__(self, directory: Path, *devices: DeviceSpec) -> None:
        self.directory = directory
        self.machine = Machine.create(directory / "machine", devices or (SMALL,))
        self.environ = {
            **os.environ,
            "GPUSHARE_SIMULATED_MACHINE": str(self.machine.path),
            "XDG_RUNTIME_DIR": str(directory),
            "JUPYTER_DATA_DIR": str(directory / "data"),
        }
        self.settings = replace(Settings.on_demand(self.environ), ledger="memory", quit_after_s=None)
        self.books = MemoryBooks()
        self.uid: int | None = None
        self.options: dict[str, Any] = {}
        self._broker: Broker | None = None
        self._holdings: list[Holding] = []
        self._programs: list[Program] = []
        self._raws: list[Raw] = []

    @property
    def broker(self) -> Broker:
        """The broker that runs."""
        assert self._broker is not None
        return self._broker

    @property
    def client(self) -> BrokerClient:
        """Asks the broker."""
        return BrokerClient(Endpoint.at_socket(str(self.settings.socket)), 30.0, Pauses(0.01, 0.05, 10.0))

    @property
    def device(self) -> str:
        """The first device."""
        return self.machine.devices[0].uuid

    async def start(self) -> Broker:
        """Start the broker."""
        options: dict[str, Any] = {"ledger": MemoryLedger(self.books), "peer": self._peer} | self.options
        source = SimulatedSource(self.machine.path, self.environ)
        self._broker = Broker(self.settings, source=options.pop("source", source), **options)
        await self._broker.start()
        return self._broker

    async def stop(self) -> None:
        """Stop it as one is asked to."""
        if self._broker is not None:
            await self._broker.stop()
            self._broker = None

    async def close(self) -> None:
        """End everything."""
        for holding in self._holdings:
            await holding.close()
        for raw in self._raws:
            await raw.close()
        await self.stop()
        for program in self._programs:
            program.close()
        self.machine.close()

    def hold(self, claim: wire.ClaimModel = SESSION, *pids: int, **options: Any) -> Holding:
        """Hold a lease until the test ends."""
        holding = self.client.hold(claim, processes_of(*(pids or (os.getpid(),))), **options)
        self._holdings.append(holding)
        return holding

    async def running(self, claim: wire.ClaimModel = SESSION, *pids: int) -> Holding:
        """Hold a lease that runs."""
        holding = self.hold(claim, *pids)
        lease = await asyncio.wait_for(holding.granted(), 60)
        holding.did("running", lease.epoch)
        await asyncio.wait_for(holding.until(lambda each: each.status == "running"), 60)
        return holding

    async def parked(self, claim: wire.ClaimModel = SESSION, *pids: int) -> Holding:
        """Hold a lease that is parked."""
        holding = await self.running(claim, *pids)
        holding.want("parked", GIB)
        lease = await asyncio.wait_for(holding.until(lambda each: each.status == "parking"), 60)
        holding.did("released", lease.epoch)
        await asyncio.wait_for(holding.until(lambda each: each.status == "parked"), 60)
        return holding

    async def raw(self, **headers: str) -> Raw:
        """A connection to the holders' WebSocket, and nothing said yet."""
        endpoint = self.client.endpoint
        request = HTTPRequest(f"ws{endpoint.url.removeprefix('http')}/holder", headers=headers)
        raw = Raw(await websocket_connect(request, resolver=endpoint.resolver()))
        self._raws.append(raw)
        return raw

    def program(self, **environ: str) -> Program:
        """A process that can use the devices, with more in its environment."""
        program = Program(self.machine, **environ)
        self._programs.append(program)
        return program

    def lease(self, key: str) -> Any:
        """A lease as it is kept."""
        return self.broker.books.leases.get(key)

    def _peer(self, connection: Any) -> Peer | None:
        """The only thing about a connection that a test may lie about."""
        from jupyter_gpushare.broker.peers import peer_of

        real = peer_of(connection)
        return real if real is None or self.uid is None else Peer(real.pid, self.uid, self.uid)


async def never(probe: Callable[[], Any], during_s: float = 1.0) -> None:
    """See that *probe* gives nothing for a while: for what must not happen there is no event to wait for."""
    with suppress(AssertionError):
        found = await until(probe, during_s)
        raise RuntimeError(f"it happened: {found}")


async def upgrade(url: str, token: str = "") -> int:
    """The status of asking for a WebSocket. An open one is closed again, which ends on both sides."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        opened = await websocket_connect(HTTPRequest(url.replace("http", "ws", 1), headers=headers))
    except HTTPClientError as error:
        return error.code
    opened.close()
    while await opened.read_message() is not None:
        pass
    return SWITCHED
