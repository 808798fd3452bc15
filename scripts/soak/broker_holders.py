"""Light holders: what a session or a job does about its lease, with real memory of the simulated machine and no kernel.

Each does what the status of its lease asks for, as the contract of the holder's socket says, and remembers what it was
told, so that afterwards its word stands against the ledger's.
"""

from __future__ import annotations

import asyncio
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.client import OVER, BrokerError, Endpoint
from jupyter_gpushare.broker.wire import ClaimModel, DidMessage, LeaseKind, LeaseModel, LeaseTarget, ProcessModel
from jupyter_gpushare.parking.checkpoint import CheckpointError
from scripts.soak.broker_body import Body, BodyError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from jupyter_gpushare.broker.client import BrokerClient, Holding
    from jupyter_gpushare.parking.simulated import SimulatedCheckpoint

__all__ = ["Holder", "Witness", "sized"]

_LOCK_MS: Final = 30_000
_COPY: Final = 32 << 20
_STEPS: Final = {"granted": "start", "resuming": "restore", "parking": "park", "yielding": "stop"}


@dataclass
class Witness:
    """What holders have seen, all of them together."""

    violations: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    parks: int = 0
    resumes: int = 0
    starts: int = 0
    stops: int = 0


class Holder:
    """One that holds a lease, does what it is asked, and takes a new one when that is over.

    Attributes:
        name: what people call its lease.
        holding: its connection; another one for each lease.
        is_clumsy: the next time that it is to park it cannot.
        known: the highest epoch that it was told, by lease.
        over: the leases that it was told are over; *ending* those that it wanted to end.
        is_gone: whether it has vanished and is not back yet.
    """

    def __init__(
        self,
        client: BrokerClient,
        body: Body,
        driver: SimulatedCheckpoint,
        witness: Witness,
        *,
        name: str,
        kind: LeaseKind,
        project: str,
        share: str,
        size: Callable[[LeaseModel], int],
        pool: str = "",
    ) -> None:
        self.name = name
        self.kind = kind
        self.known: dict[str, int] = {}
        self.over: set[str] = set()
        self.ending: set[str] = set()
        self.is_gone = False
        self._client, self._body, self._driver, self._witness = client, body, driver, witness
        self._claim = ClaimModel(
            name, kind, project, share, name, pool=pool, is_parkable=kind == "interactive" or name.endswith("0")
        )
        self._size = size
        self._number = 0
        self._seed = zlib.crc32(name.encode()) & 0xFFFF
        self.is_clumsy = False
        self._done: tuple[str, int, str] | None = None
        self._is_away = False
        self._sum = ""
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.holding: Holding = self._hold()

    @property
    def lease(self) -> LeaseModel | None:
        """Its lease, as it was told last."""
        return self.holding.lease

    @property
    def status(self) -> str:
        """Of its lease; empty before it has one."""
        return "" if self.lease is None else self.lease.status

    def runs_on(self, devices: Collection[str]) -> bool:
        """Whether it runs on one of *devices*."""
        lease = self.lease
        return lease is not None and lease.status == "running" and any(each.device in devices for each in lease.grants)

    def begin(self) -> None:
        """Do what is asked from now on."""
        self._task = asyncio.create_task(self._serve())

    def want(self, target: LeaseTarget) -> None:
        """Want its lease elsewhere."""
        self.holding.want(target, _COPY if target == "parked" else 0)

    def end(self) -> None:
        """Want its lease to end, for good."""
        if self.lease is not None and not self.holding.is_over:
            self.ending.add(self.lease.id)
            self.holding.want("ended")

    def renew(self) -> None:
        """Claim anew, when the lease before is over."""
        if self.holding.is_over and not self.is_gone:
            self.holding = self._hold()

    def say_stale(self) -> None:
        """Say what was true an epoch ago, as a message that took too long."""
        if self.lease is not None:
            self.holding._say(DidMessage("running", max(0, self.lease.epoch - 1)))  # noqa: SLF001  # a hostile word

    async def vanish(self, seconds: float) -> None:
        """Be behind a partition for so long: it goes on, and the broker hears nothing of it.

        It has to run: a claim of which nobody is heard ends, as it should.
        """
        holding = self.holding
        if self.status != "running":
            return
        self.is_gone = True
        try:
            holding._endpoint = Endpoint.at_socket("/nowhere")  # noqa: SLF001  # what a cut cable does, no method offers
            if holding._socket is not None:  # noqa: SLF001
                holding._socket.close()  # noqa: SLF001
            await asyncio.sleep(seconds)
        finally:
            holding._endpoint = self._client.endpoint  # noqa: SLF001
            self.is_gone = False

    async def until(self, *statuses: str, deadline_s: float = 90.0) -> str:
        """Wait for one of these; ended is one that comes by itself.

        Raises:
            TimeoutError: names the holder, and where it is.
        """
        try:
            await asyncio.wait_for(self.holding.until(lambda lease: lease.status in (*statuses, *OVER)), deadline_s)
        except BrokerError:
            return "ended"  # the lease is over
        except TimeoutError:
            raise TimeoutError(f"{self.told()} waits for {statuses}") from None
        return self.status

    def told(self) -> str:
        """Where it is, for people."""
        lease, link = self.lease, "connected" if self.holding.connected else "not connected"
        if lease is None:
            return f"{self.name} ({link}, no lease, refused {self.holding.refusal})"
        why = "" if lease.reason is None else lease.reason.code
        place = f"{lease.status} to {lease.target}, epoch {lease.epoch}, {why}, refused {self.holding.refusal}"
        return f"{self.name} ({link}, {lease.id[:8]} {place})"

    async def check(self) -> None:
        """See that every byte is as it was."""
        if self._body.child is not None and not self._is_away:
            told = await self._body.check()
            if told != self._sum:
                self._witness.violations.append(f"{self.name}: its memory changed")

    async def close(self) -> None:
        """End it and its memory."""
        await self.holding.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._body.end()

    def _hold(self) -> Holding:
        self._number += 1
        key = f"{self.name}-{self._number}"
        claim = ClaimModel(
            **{name: getattr(self._claim, name) for name in ClaimModel.__struct_fields__ if name != "key"}, key=key
        )
        own = self._body.own
        return self._client.hold(
            claim,
            [ProcessModel(own.pid, own.start)],
            on_lease=self._hear,
            on_refused=lambda error: self._witness.refusals.append(error.code),
            is_resident=lambda: self._body.child is not None and not self._is_away,
        )

    def _hear(self, lease: LeaseModel) -> None:
        if lease.epoch < self.known.get(lease.id, 0):
            self._witness.violations.append(f"{self.name}: epoch {lease.epoch} after {self.known[lease.id]}")
        self.known[lease.id] = max(lease.epoch, self.known.get(lease.id, 0))
        if lease.status in OVER:
            self.over.add(lease.id)
        self._changed.set()

    async def _serve(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            lease = self.lease
            if lease is not None:
                try:
                    await self._follow(lease)
                except (BodyError, CheckpointError) as trouble:
                    self._witness.violations.append(f"{self.name}, {lease.status} with {lease.epoch}: {trouble!r}")

    async def _follow(self, lease: LeaseModel) -> None:
        if self.holding.has_given_up:
            return  # what it said that it could not do it must not do after all, however often it is told
        step = _STEPS.get(lease.status)
        if lease.status in OVER or lease.status == "queued":
            await self._leave()
        elif step in ("park", "stop") or (step is not None and self._done != (lease.id, lease.epoch, step)):
            # To start twice with one epoch would be wrong; to leave twice does no harm.
            self._done = (lease.id, lease.epoch, step)
            await getattr(self, f"_{step}")(lease)

    async def _start(self, lease: LeaseModel) -> None:
        await self._leave()
        grant = lease.grants[0]
        self._sum = await self._body.take(grant.host, grant.device, self._size(lease), self._seed)
        self._witness.starts += 1
        self.holding.did("running", lease.epoch)

    async def _restore(self, lease: LeaseModel) -> None:
        child = self._body.child
        if child is None:
            self.holding.could_not(lease.epoch, "NOT_PARKABLE", "its process has ended")
            return
        await asyncio.to_thread(self._driver.restore, child)
        await asyncio.to_thread(self._driver.unlock, child)
        self._is_away = False
        self._witness.resumes += 1
        await self.check()
        self.holding.did("running", lease.epoch)

    async def _park(self, lease: LeaseModel) -> None:
        child = self._body.child
        if self.is_clumsy and child is not None and not self._is_away:
            self.is_clumsy = False
            self.holding.could_not(lease.epoch, "NOT_PARKABLE", "it is busy")
            return
        if child is not None and not self._is_away:
            await asyncio.to_thread(self._driver.lock, child, _LOCK_MS)
            await asyncio.to_thread(self._driver.checkpoint, child)
            self._is_away = True
            self._witness.parks += 1
        self.holding.did("released", lease.epoch)

    async def _stop(self, lease: LeaseModel) -> None:
        await self._leave()
        self._witness.stops += 1
        self.holding.did("released", lease.epoch)

    async def _leave(self) -> None:
        await self._body.let_go()
        self._is_away = False


def sized(usable: Mapping[str, int], context: int, most: float = 1.0) -> Callable[[LeaseModel], int]:
    """How much of its device a holder takes: all that its grant allows, or *most* GPUs, but for its context."""

    def size(lease: LeaseModel) -> int:
        grant = lease.grants[0]
        return int(min(most, float(grant.amount)) * usable[grant.device]) - context

    return size
