"""A broker that does as a test says: one lease, told to one supervisor, and everything that it was told back."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from jupyter_gpushare.broker.wire import GrantModel, LeaseModel, LeaseStatus, MessageModel, ProcessModel

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jupyter_gpushare.broker.client import BrokerError

PATIENT_S = 60.0


def lease_model(**changes: Any) -> LeaseModel:
    """A training lease that waits."""
    known: dict[str, Any] = {
        "id": "lease-1",
        "kind": "training",
        "project": "team-a",
        "person": "ada",
        "name": "train.py",
        "share": "0.5",
        "pool": "",
        "status": "queued",
        "target": "running",
        "submitted": 0.0,
        "since": 0.0,
        "epoch": 0,
        "grants": [],
        "bursts": [],
        "lent": "0",
        "host_memory": 0,
        "turns_lost": 0,
        "reason": None,
        "place": None,
        "estimate_s": None,
        "deadline": None,
        "lent_to": [],
    }
    return LeaseModel(**known | changes)


def reason(code: str, text: str) -> MessageModel:
    """A reason as the broker gives it."""
    return MessageModel(code, text, {}, text)


class FakeBroker:
    """The lease of one job. Frees capacity when it is told *released*, as a broker does once devices show it.

    Attributes:
        said: everything that the holder said, in order.
        computed_s, memory: what it reported last.
        processes, is_parkable: what it said of itself last.
        losses: what it announced that it would end, and which processes.
        is_deaf: whether it does nothing upon what it is told, as one whose ledger is locked.
    """

    def __init__(self, device: str, memory: int = 1 << 30) -> None:
        self.lease: LeaseModel = lease_model()
        self.refusal: BrokerError | None = None
        self.said: list[tuple[str, int]] = []
        self.processes: list[ProcessModel] = []
        self.is_parkable: bool | None = None
        self.memory: int | None = None
        self.computed_s: float | None = None
        self.losses: list[tuple[str, str]] = []
        self.is_ended = self.is_deaf = False
        self._given_up: tuple[int, str] | None = None
        self.connected, self.since = True, 0.0
        self.wake: Callable[[], None] = lambda: None
        self._grant = GrantModel(device, "host", "0.5", memory, "0")
        self._changed = asyncio.Event()

    def put(self, **changes: Any) -> None:
        """Change the lease and tell the supervisor."""
        self.lease = msgspec.structs.replace(self.lease, **changes)
        self.wake()

    def grant(self) -> None:
        """Give it its device, with a new epoch."""
        self.put(status="granted", epoch=self.lease.epoch + 1, grants=[self._grant], deadline=None, reason=None)

    def call_back(self, status: Literal["parking", "yielding"], grace_s: float = 30.0) -> float:
        """Want the device back; until when, in seconds since the epoch."""
        why = reason("CALLED_BACK", "The notebook whose share this was runs again.")
        deadline = time.time() + grace_s
        self.put(status=status, deadline=deadline, reason=why)
        return deadline

    def resume(self) -> None:
        """Let a parked job come back."""
        self.put(status="resuming", epoch=self.lease.epoch + 1, deadline=None)

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until *holds*; fails with *what* after a generous deadline."""
        deadline = time.monotonic() + PATIENT_S
        while not holds():
            assert time.monotonic() < deadline, f"waited {PATIENT_S:g} s for {what}; it said {self.said}"
            await asyncio.sleep(0.01)

    async def has_said(self, what: str) -> None:
        """Wait until the holder has said *what* with the lease's epoch."""
        wanted = (what, self.lease.epoch)
        await self.until(lambda: wanted in self.said, f"{wanted}")

    def did(self, what: Literal["running", "released"], epoch: int) -> None:
        """The holder says so; what has no meaning now changes nothing."""
        self.said.append((what, epoch))
        lease = self.lease
        if not self.connected:
            return
        if epoch != lease.epoch:
            return
        after = {
            ("running", "granted"): "running",
            ("running", "resuming"): "running",
            ("released", "parking"): "parked",
            ("released", "yielding"): "queued",
        }.get((what, lease.status))
        if after is not None:
            self.put(status=after)

    def could_not(self, epoch: int, code: str, text: str) -> None:
        """A job that cannot be parked has to save itself."""
        assert text
        self.said.append((code, epoch))
        self._given_up = (epoch, self.lease.status)
        if self.lease.status == "parking" and not self.is_deaf:
            self.call_back("yielding")

    @property
    def has_given_up(self) -> bool:
        """Until the lease has moved."""
        return self._given_up == (self.lease.epoch, self.lease.status)

    def go_away(self) -> None:
        """Nobody has heard of the broker for long."""
        self.connected, self.since = False, 0.0
        self.wake()

    def acted_alone(self, status: LeaseStatus, memory: int = 0) -> None:
        """What the holder will say it is."""
        self.put(status=status, host_memory=memory)

    def announce(self, loss: str, processes: str) -> None:
        """What the audit would keep."""
        self.losses.append((loss, processes))

    def report(self, memory: int | None, computed_s: float | None) -> None:
        """What it uses."""
        self.memory, self.computed_s = memory, computed_s

    def set_processes(self, processes: Sequence[ProcessModel], *, is_parkable: bool | None = None) -> None:
        """What it is."""
        self.processes, self.is_parkable = list(processes), is_parkable

    async def end(self) -> None:
        """It is over."""
        self.is_ended = True
