"""Thousands of holders in one process: each says hello, reports every ten seconds, and does what its lease asks."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Final

import msgspec

from benchmarks.broker.books import PROJECTS
from benchmarks.broker.websocket import Link, connect
from jupyter_gpushare.broker import wire

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["REPORT_S", "Fleet", "Member"]

REPORT_S: Final = 10.0
_AT_ONCE: Final = 64
_PAUSE_S: Final = 0.2
_ANSWERS_WITHIN_S: Final = 60.0
_PART: Final = "0.02"
_STATE_BYTES: Final = 1 << 30
_DECODER: Final = msgspec.json.Decoder(wire.ToHolder)
_ENCODER: Final = msgspec.json.Encoder()


class Member:
    """One session or job. It holds no memory: the device lists never show it."""

    def __init__(self, fleet: Fleet, number: int) -> None:
        self.number = number
        self.is_session = number % 6 < 4
        self.lease: wire.LeaseModel | None = None
        self.is_welcome = False
        self.refused: str = ""
        self._fleet = fleet
        self._token = ""
        self._link: Link | None = None
        self._answered = asyncio.Event()
        self._is_joining = False
        self._seen: tuple[str, int] | None = None

    @property
    def is_connected(self) -> bool:
        """Whether the broker has welcomed it on the connection that it has now."""
        return self._link is not None and self.is_welcome

    async def join(self) -> None:
        """Connect and say hello, until the broker welcomes it; one that does so already goes on alone."""
        if self._is_joining:
            return
        self._is_joining = True
        while not (self.is_connected or self.refused or self._fleet.is_leaving):
            self._answered.clear()
            try:
                self._link = await connect(self._fleet.path, self._hear, self._lost)
                self._say(self._hello())
                await asyncio.wait_for(self._answered.wait(), _ANSWERS_WITHIN_S)
            except (OSError, TimeoutError):
                self._link = None
            if not (self.is_connected or self._fleet.is_leaving):
                await asyncio.sleep(_PAUSE_S)
        self._is_joining = False

    def report(self) -> None:
        """Say what it uses. One in two sessions has been idle since its last word."""
        idle_s = time.monotonic() - self._fleet.began if self.number % 2 else None
        self._say(wire.UsageMessage(memory=_STATE_BYTES, computed_s=0.0 if idle_s else REPORT_S, idle_s=idle_s))

    def move(self) -> None:
        """Want to be parked, or back."""
        if self.lease is not None and self.is_session:
            target: wire.LeaseTarget = "parked" if self.lease.target == "running" else "running"
            self._say(wire.WantMessage(target=target, memory=_STATE_BYTES))

    def leave(self) -> None:
        """Hang up."""
        if self._link is not None:
            self._link.close()

    def _hello(self) -> wire.HelloMessage:
        claim = wire.ClaimModel(
            key=f"member-{self.number}",
            kind="interactive" if self.is_session else "training",
            project=PROJECTS[self.number % len(PROJECTS)],
            share=_PART,
            name=f"member-{self.number}",
            is_parkable=self.is_session,
            grace_s=30.0,
        )
        lease = self.lease
        is_resident = lease is not None and lease.status in ("running", "parking", "yielding")
        epoch = 0 if lease is None else lease.epoch
        return wire.HelloMessage(claim, [], lease, epoch, is_resident, self._token)

    def _say(self, message: wire.ToBroker) -> None:
        if self._link is not None:
            self._link.send(_ENCODER.encode(message))

    def _hear(self, text: bytes) -> None:
        message = _DECODER.decode(text)
        match message:
            case wire.WelcomeMessage():
                self._token = message.token
                self.is_welcome = True
                self._answered.set()
                self._fleet.welcomed()
                self._obey(message.lease)
            case wire.LeaseMessage():
                self._obey(message.lease)
            case wire.RefusedMessage(is_final=True):
                self.refused = message.error.text
                self._answered.set()
            case _:
                pass

    def _obey(self, lease: wire.LeaseModel) -> None:
        self.lease = lease
        if self._seen == (lease.status, lease.epoch):
            return
        self._seen = (lease.status, lease.epoch)
        if lease.status in ("granted", "resuming"):
            self._say(wire.DidMessage("running", lease.epoch))
        elif lease.status in ("parking", "yielding"):
            self._say(wire.DidMessage("released", lease.epoch))

    def _lost(self) -> None:
        self.is_welcome = False
        self._link, self._seen = None, None
        self._answered.set()
        self._fleet.lost(self)


class Fleet:
    """All of them.

    Args:
        path: the broker's Unix socket.
        size: how many.
    """

    def __init__(self, path: Path, size: int, seed: int = 1) -> None:
        self.path = path
        self.began = time.monotonic()
        self.members = [Member(self, number) for number in range(size)]
        self.is_leaving = False
        self._rng = random.Random(seed)  # noqa: S311  # a simulation
        self._moved = asyncio.Event()
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._joining: set[asyncio.Task[None]] = set()

    @property
    def connected(self) -> int:
        """How many are welcome now."""
        return sum(1 for member in self.members if member.is_connected)

    async def join(self) -> float:
        """Have all of them join, a few at once; how long that took, in seconds."""
        began = time.monotonic()
        await asyncio.gather(*(self._join(member) for member in self.members))
        return time.monotonic() - began

    async def until(self, least: int, most: int) -> float:
        """Wait until so many are welcome; how long that took, in seconds."""
        began = time.monotonic()
        while not least <= self.connected <= most:
            self._moved.clear()
            await self._moved.wait()
        return time.monotonic() - began

    def welcomed(self) -> None:
        """Somebody is welcome again."""
        self._moved.set()

    def lost(self, member: Member) -> None:
        """Its connection is gone: it comes back, as every holder does."""
        self._moved.set()
        if not self.is_leaving:
            task = asyncio.get_running_loop().create_task(self._join(member))
            self._joining.add(task)
            task.add_done_callback(self._joining.discard)

    async def report(self, seconds: float, moves_per_s: float) -> None:
        """For so long: a report from each every ten seconds, evenly spread, and some that park and come back."""
        per_tick = max(1, len(self.members) // 100)
        began, sent, moved = time.monotonic(), 0, 0
        while (passed := time.monotonic() - began) < seconds:
            while sent < passed * len(self.members) / REPORT_S:
                for _ in range(per_tick):
                    self.members[sent % len(self.members)].report()
                    sent += 1
            while moved < passed * moves_per_s:
                self._rng.choice(self.members).move()
                moved += 1
            await asyncio.sleep(0.01)

    async def leave(self) -> None:
        """All hang up."""
        self.is_leaving = True
        for member in self.members:
            member.leave()
        await asyncio.gather(*self._joining)

    async def _join(self, member: Member) -> None:
        async with self._slots:
            await member.join()
