"""Culling in one notebook server: says how idle it is, warns its person, and ends idle kernels as the admin wants.

The server as a whole is stopped by the hub, by what is testified here. While the hub's service cannot be reached
nothing is ended: what cannot be kept in the audit does not happen.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.client import BrokerAway, BrokerError
from jupyter_gpushare.rules.loss import Loss
from jupyter_gpushare.session.culling import sentences as say
from jupyter_gpushare.session.culling.countdown import Countdown, due
from jupyter_gpushare.session.culling.messages import TESTIMONY, Outlook, Testimony
from jupyter_gpushare.session.errors import PublicError, unknown_kernel
from jupyter_gpushare.session.idle.keep import Keep
from jupyter_gpushare.session.requests import KeepAnswer
from jupyter_gpushare.session.snapshot import message_model
from jupyter_gpushare.session.wire import CullingModel, CullWarningModel

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable, Sequence

    from msgspec import UnsetType

    from jupyter_gpushare.broker.client import BrokerClient
    from jupyter_gpushare.rules.message import Message
    from jupyter_gpushare.session.culling.use import Use
    from jupyter_gpushare.session.kernels import Kernel
    from jupyter_gpushare.session.meter import Sample

__all__ = ["CullingHost", "CullingSession", "Service"]

_LOOK_S: Final = 30.0
_NOT_OFFERED_S: Final = 600.0
_RETRY_S: Final = 15.0
_SHORTEST_S: Final = 1.0
_TELL_S: Final = 5.0
_NOT_FOUND: Final = 404
_WHY: Final = "left idle for longer than the admin's file allows, warned of and not kept"


@dataclass(frozen=True, slots=True)
class Service:
    """The hub's service, which *client* asks, and who we are there: a *lease*, or without a share a *server*'s name."""

    client: BrokerClient
    lease: str = ""
    server: str = ""


@dataclass(frozen=True, slots=True)
class CullingHost:
    """The session that this is part of.

    Attributes:
        service: the hub's service, and who this server is there; None without one, or while it is away.
        kernels: every living kernel.
        end: ends one of them.
        parking_kept: until when their person keeps one of them from being parked, or the whole session when None.
        parks_at: when its share is parked if it is left as it is, in seconds since the epoch; None where it will not
            be, unset where that is not known.
        started: when the server started, in seconds since the epoch.
        announce: called with each loss before it happens, with the kernels' ids and why.
        tell_broker: the same for the broker's audit, with a loss and what ends.
        tell: tells everybody who looks of a loss that has happened.
        changed: called when people should see something new.
        clock: gives the time, in seconds since the epoch.
    """

    service: Callable[[], Service | None]
    kernels: Callable[[], Sequence[Kernel]]
    end: Callable[[str], Awaitable[None]]
    parking_kept: Callable[[str | None], float | None]
    parks_at: Callable[[], float | UnsetType | None]
    started: float
    announce: Callable[[Loss, Sequence[str], str], None]
    tell_broker: Callable[[str, str], None]
    tell: Callable[[Message], None]
    changed: Callable[[], None]
    clock: Callable[[], float]


@dataclass(frozen=True, slots=True)
class _Heard:
    """An outlook, and when it was heard."""

    outlook: Outlook
    at: float

    @property
    def stops_at(self) -> float | None:
        """When the server is stopped, in seconds since the epoch."""
        return None if self.outlook.stops_in_s is None else self.at + self.outlook.stops_in_s


class CullingSession:
    """Lives on the server's event loop.

    Args:
        host: the session.
        use: follows what is used.
        keep_limit_s: the longest, in seconds, that something may be kept at once.
        log: where trouble goes.
    """

    def __init__(self, host: CullingHost, use: Use, *, keep_limit_s: float, log: logging.Logger) -> None:
        self._host = host
        self._use = use
        self._keeps = Keep(keep_limit_s, clock=host.clock)
        self._log = log
        self._heard: _Heard | None = None
        self._countdowns: dict[str, Countdown] = {}
        self._ends: dict[str, float] = {}
        self._told = (False, 0.0)
        self._asks_from = 0.0
        self._stir = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._testifying = asyncio.Lock()

    @property
    def park_after_s(self) -> float | None:
        """After how many idle seconds the admin wants GPUs parked, at the latest; None where nothing is said."""
        return None if self._heard is None else self._heard.outlook.park_after_s

    def start(self) -> None:
        """Begin; called on the running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._go_on())

    async def stop(self) -> None:
        """End, leaving no task behind."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def take(self, sample: Sample) -> None:
        """Look at a new sample of the devices."""
        self._use.take(sample)

    def forget(self, kernel_id: str) -> None:
        """The kernel is no more."""
        self._use.forget(kernel_id)
        self._keeps.forget(kernel_id)
        self._countdowns.pop(kernel_id, None)
        self._ends.pop(kernel_id, None)

    def look(self) -> None:
        """Something changed: the hub hears at once where a warning is no longer right, and that there is a server."""
        if self._heard is None:
            if self._host.clock() >= self._asks_from and self._host.service() is not None:
                self._stir.set()
            return
        is_warned = bool(self._ends) or self._server_stops_at() is not None
        now = (any(kernel.cells for kernel in self._host.kernels()), self._kept_until() or 0.0)
        if now != self._told and is_warned:
            self._stir.set()

    async def keep(self, seconds: float, kernel_id: str | None) -> KeepAnswer:
        """Keep the server, or one kernel, from ending by itself for so long; 0 for no longer.

        Raises:
            PublicError: 404: there is no such kernel; 409: nothing ends by itself here.
        """
        if kernel_id is not None and all(kernel.id != kernel_id for kernel in self._host.kernels()):
            raise unknown_kernel(kernel_id)
        if self._heard is None:
            raise PublicError(409, say.NOT_OFFERED)
        until = self._keeps.keep(seconds, kernel_id)
        is_heard = True
        try:
            async with asyncio.timeout(_TELL_S):
                await self._testify()
        except (TimeoutError, BrokerAway, BrokerError):
            is_heard = False
        self._count_down()
        self._stir.set()
        self._host.changed()
        message = say.kept_no_longer() if until is None else say.kept(until)
        return KeepAnswer(until, message_model(message if is_heard else say.not_told()))

    def view(self) -> CullingModel | None:
        """What people see: warnings only where something is about to end; None where nothing ever does."""
        if self._heard is None:
            return None
        warnings = [self._kernel_warning(kernel) for kernel in self._host.kernels() if kernel.id in self._ends]
        stops_at = self._server_stops_at()
        if stops_at is not None:
            why = self._heard.outlook.why
            idle_s = self._host.clock() - (self._use.idle_since() or self._host.clock())
            model = message_model(say.server_stops(why, stops_at, idle_s))
            warnings.append(CullWarningModel("server", None, stops_at, model, can_keep=why != "TOO_OLD"))
        return CullingModel(warnings, self._keeps.until())

    async def turn(self) -> float:
        """Look once, tell the hub, and end what is due; seconds until the next time."""
        service = self._host.service()
        if service is None:
            self._forget_outlook()
            return _LOOK_S
        if self._heard is not None and self._heard.outlook.is_wanted:
            await self._use.read()
        try:
            await self._testify()
        except (BrokerError, BrokerAway) as error:
            self._log.debug("The hub culls nothing, as far as can be told: %s", error)
            self._forget_outlook()
            pause_s = _pause_after(error)
            self._asks_from = self._host.clock() + pause_s
            return pause_s
        await self._end_due()
        return self._pause_s()

    async def _go_on(self) -> None:
        while True:
            try:
                pause_s = await self.turn()
            except Exception:  # noqa: BLE001  # whatever it is, people are told how it stands, and nothing ends
                self._log.exception("How idle this server is could not be told; nothing ends meanwhile")
                self._forget_outlook()
                pause_s = _LOOK_S
                self._asks_from = self._host.clock() + pause_s
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stir.wait(), pause_s)
            self._stir.clear()

    async def _testify(self) -> None:
        """Say how it is, and take what will become of it.

        Raises:
            BrokerError: the service does not want to know.
            BrokerAway: it cannot be reached.
        """
        async with self._testifying:
            service = self._host.service()
            if service is None:
                raise BrokerAway("this server is not known to the hub's service now")
            now, before = self._host.clock(), self.view()
            idle_since, kept = self._use.idle_since(), self._kept_until()
            parks_at = self._host.parks_at()
            self._told = (any(kernel.cells for kernel in self._host.kernels()), kept or 0.0)
            said = Testimony(
                service.lease,
                service.server,
                idle_s=None if idle_since is None else max(0.0, now - idle_since),
                kept_s=None if kept is None else max(0.0, kept - now),
                age_s=max(0.0, now - self._host.started),
                parks_s=max(0.0, parks_at - now) if isinstance(parks_at, float) else parks_at,
            )
            outlook = await service.client.request("PUT", TESTIMONY, said, type=Outlook)
            self._heard = _Heard(outlook, self._host.clock())
            self._count_down()
            if self.view() != before:
                self._host.changed()

    def _count_down(self) -> None:
        """Which kernels are about to end, and when."""
        self._ends = {}
        if self._heard is None:
            return
        now, outlook = self._host.clock(), self._heard.outlook
        for kernel in self._host.kernels():
            countdown = self._countdowns.setdefault(kernel.id, Countdown())
            at = due(self._use.of(kernel), outlook, self._kept_until(kernel.id))
            ends_at = countdown.follow(at, outlook.warning_s, now)
            if ends_at is not None:
                self._ends[kernel.id] = ends_at

    async def _end_due(self) -> None:
        """End the kernels whose time has come, each judged once more right before."""
        for kernel_id, ends_at in list(self._ends.items()):
            if self._host.clock() >= ends_at:
                await self._use.read()
                self._count_down()
                kernel = next((each for each in self._host.kernels() if each.id == kernel_id), None)
                if kernel is not None and self._is_over(kernel):
                    await self._end(kernel)

    def _is_over(self, kernel: Kernel) -> bool:
        ends_at = self._ends.get(kernel.id)
        return ends_at is not None and self._host.clock() >= ends_at and not self._use.of(kernel).is_busy

    async def _end(self, kernel: Kernel) -> None:
        idle_s = self._host.clock() - (self._use.of(kernel).idle_since or self._host.clock())
        label = kernel.label
        self._host.announce(Loss.KERNEL_ENDED_WHILE_IDLE, [kernel.id], _WHY)
        # Without the notebook's name: the audit is read by others than its owner.
        self._host.tell_broker(Loss.KERNEL_ENDED_WHILE_IDLE, f"one kernel, idle for {idle_s:.0f} s")
        try:
            await self._host.end(kernel.id)
        except Exception:  # noqa: BLE001  # whatever Jupyter raises, the others are looked after
            self._log.exception("Kernel %s could not be ended", kernel.id)
            return
        self._host.tell(say.kernel_ended(label, idle_s))
        self._host.changed()

    def _kernel_warning(self, kernel: Kernel) -> CullWarningModel:
        use, ends_at = self._use.of(kernel), self._ends[kernel.id]
        since = use.parked_since if use.parked_since is not None else use.idle_since
        idle_s = self._host.clock() - (since or self._host.clock())
        model = message_model(say.kernel_ends(kernel.label, ends_at, idle_s, is_parked=use.parked_since is not None))
        return CullWarningModel("kernel", kernel.id, ends_at, model, can_keep=True)

    def _server_stops_at(self) -> float | None:
        """When the server is stopped, if that is near enough for a warning."""
        if self._heard is None or self._heard.stops_at is None:
            return None
        is_near = self._host.clock() >= self._heard.stops_at - self._heard.outlook.warning_s
        return self._heard.stops_at if is_near else None

    def _kept_until(self, kernel_id: str | None = None) -> float | None:
        """Until when its person keeps a kernel, or the server: that is kept as long as anything in it."""
        names = [kernel_id] if kernel_id is not None else [None, *(kernel.id for kernel in self._host.kernels())]
        locks = [lock for name in names for lock in (self._keeps.until(name), self._host.parking_kept(name))]
        return max((lock for lock in locks if lock is not None), default=None)

    def _pause_s(self) -> float:
        assert self._heard is not None  # noqa: S101  # it was just heard
        now = self._host.clock()
        next_end = min(self._ends.values(), default=float("inf"))
        return max(_SHORTEST_S, min(self._heard.outlook.again_s, next_end - now))

    def _forget_outlook(self) -> None:
        """Nobody says what is wanted: nothing is about to end."""
        was_shown = self.view()
        self._heard, self._ends = None, {}
        self._countdowns.clear()
        if was_shown is not None:
            self._host.changed()


def _pause_after(error: BrokerError | BrokerAway) -> float:
    """Seconds until the service is asked again. One that knows nothing of culling may be updated some day."""
    if isinstance(error, BrokerAway):
        return _RETRY_S
    # Of the lease it may hear soon.
    is_older = error.status == _NOT_FOUND and (error.message is None or error.message.values.get("what") != "lease")
    return _NOT_OFFERED_S if is_older else _LOOK_S
