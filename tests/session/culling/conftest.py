"""A session's culling with nothing real around it: a clock that is moved, kernels by hand, a service that is scripted."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from jupyter_gpushare.broker.client import BrokerAway
from jupyter_gpushare.devices.identity import Identity
from jupyter_gpushare.session.culling.messages import Outlook
from jupyter_gpushare.session.culling.session import CullingHost, CullingSession, Service
from jupyter_gpushare.session.culling.use import Surroundings, Use
from jupyter_gpushare.session.idle.cpu_time import Ticks
from jupyter_gpushare.session.idle.keep import Keep
from jupyter_gpushare.session.parking.record import Parking
from tests.session.idle.conftest import NOON, Clock, FakeKernels, sample_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from jupyter_gpushare.rules.message import Message
    from jupyter_gpushare.session.culling.messages import Testimony
    from jupyter_gpushare.session.idle.cpu_time import Tree

SERVER_PID = 9000
LOG = logging.getLogger("tests.culling")


@dataclass
class FakeService:
    """Answers each testimony with *outlook*, or refuses with *trouble*; remembers what it was told."""

    outlook: Outlook = field(default_factory=lambda: Outlook(is_wanted=True, warning_s=300.0))
    trouble: Exception | None = None
    heard: list[Testimony] = field(default_factory=list)

    async def request(self, method: str, path: str, body: Any, type: Any) -> Any:  # noqa: A002  # the client's own
        """As `BrokerClient.request`."""
        assert (method, path) == ("PUT", "culling/testimony")
        if self.trouble is not None:
            raise self.trouble
        self.heard.append(body)
        return msgspec.json.decode(msgspec.json.encode(self.outlook), type=type)


@dataclass
class Town:
    """All of it.

    Attributes:
        trees: the processes below each pid, with the CPU ticks that each has used.
        parkings: how it is with parking each kernel.
        held: messages that wait for each kernel.
        parking_keeps: the locks against parking.
        parks_at: when the share is parked.
        touched: when somebody last did something that is no cell.
        ended: which kernels were ended.
        said: what was announced, told to the broker and shown to people, in order.
    """

    clock: Clock = field(default_factory=Clock)
    service: FakeService = field(default_factory=FakeService)
    trees: dict[int, dict[int, int]] = field(default_factory=dict)
    parkings: dict[str, Parking] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    parks_at: float | msgspec.UnsetType | None = msgspec.UNSET
    touched: float = NOON
    ended: list[str] = field(default_factory=list)
    said: list[tuple[str, Any]] = field(default_factory=list)
    changes: int = 0
    end_fails: bool = False

    def __post_init__(self) -> None:
        self.kernels = FakeKernels(self.clock)
        self.parking_keeps = Keep(1e9, clock=self.clock)
        self.trees[SERVER_PID] = {SERVER_PID: 0}
        self.use = Use(
            Surroundings(
                kernels=self.kernels,
                parking=lambda kernel_id: self.parkings.setdefault(kernel_id, Parking(kernel_id)),
                held=lambda kernel_id: self.held.get(kernel_id, 0),
                reports={},
                roots=lambda: [pid for pid in self.kernels.pids.values() if pid is not None],
                server_pid=SERVER_PID,
                touched=lambda: self.touched,
                clock=self.clock,
                read_cpu=self._read_cpu,
            )
        )
        host = CullingHost(
            service=lambda: None if isinstance(self.service.trouble, BrokerAway) else Service(self.service, "L-1"),  # type: ignore[arg-type]  # as far as it is used
            kernels=self.kernels.all,
            end=self._end,
            parking_kept=self.parking_keeps.until,
            parks_at=lambda: self.parks_at,
            started=self.clock.now,
            announce=lambda loss, kernels, why: self.said.append(("announced", (loss, tuple(kernels), why))),
            tell_broker=lambda loss, what: self.said.append(("audit", (loss, what))),
            tell=lambda message: self.said.append(("told", message)),
            changed=self._changed,
            clock=self.clock,
        )
        self.culling = CullingSession(host, self.use, keep_limit_s=8 * 3600.0, log=LOG)

    def start(self, kernel_id: str) -> None:
        """A kernel that has just become idle, with one process."""
        self.kernels.start(kernel_id)
        pid = self.kernels.pids[kernel_id]
        assert pid is not None
        self.trees[pid] = {pid: 0}

    def park(self, kernel_id: str) -> None:
        """Its GPU state leaves the device now."""
        self.parkings[kernel_id] = Parking(kernel_id, "parked", "parked", self.clock.now)

    async def go(self, seconds: float, *uses: Any, step_s: float = 20.0) -> None:
        """Let time pass, with a sample and a turn at every step."""
        end = self.clock.now + seconds
        while self.clock.now < end:
            self.clock.now = min(end, self.clock.now + step_s)
            self.culling.take(sample_of(self.clock.now, *uses))
            await self.culling.turn()

    def idle_s(self) -> float | None:
        """For how long the server has been idle, as it last testified."""
        return self.service.heard[-1].idle_s

    def messages(self) -> list[str]:
        """The warnings that people see."""
        view = self.culling.view()
        return [] if view is None else [warning.message.code for warning in view.warnings]

    def told(self) -> list[Message]:
        """What people were told of losses."""
        return [what for kind, what in self.said if kind == "told"]

    def _read_cpu(self, pids: Collection[int]) -> Tree:
        found = {pid: ticks for root in pids for pid, ticks in self.trees.get(root, {}).items()}
        if SERVER_PID in pids:
            found |= {pid: ticks for tree in self.trees.values() for pid, ticks in tree.items()}
        return {Identity(pid, 1): Ticks(ticks, 0) for pid, ticks in found.items()}

    async def _end(self, kernel_id: str) -> None:
        if self.end_fails:
            raise RuntimeError("Jupyter does not want to")
        self.ended.append(kernel_id)
        del self.kernels.known[kernel_id]
        self.culling.forget(kernel_id)

    def _changed(self) -> None:
        self.changes += 1


@pytest.fixture(autouse=True)
def _begun() -> None:
    """No server: what is tested here needs none."""


@pytest.fixture(name="town")
def _town() -> Town:
    return Town()
