"""Puts every kernel of one server under the session's isolation, from its first moment on.

Where the mode cannot do its work, or it cannot be known which devices are the session's, a kernel starts without a GPU,
and people are told why: one that runs past its share takes from neighbours what they were promised.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from jupyter_gpushare.devices.device import DriverState
from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.session.isolation.mode import IsolationError, slices_of
from jupyter_gpushare.session.isolation.switches import NO_DEVICES, switches, visibility

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence

    from jupyter_gpushare.devices.device import Device
    from jupyter_gpushare.session.isolation.mode import Isolation, Mode, Slice
    from jupyter_gpushare.session.meter import Sample
    from jupyter_gpushare.session.own_share import OwnShare

__all__ = ["KernelIsolation"]

_VENDORS = ("nvidia", "simulated")


class KernelIsolation:
    """Lives on the server's event loop.

    Args:
        mode: how this server holds kernels to the share.
        own: this session's share.
        await_share: waits a moment for a share that a broker has yet to give; None when a kernel may have a GPU, else
            why not yet.
        sample: the newest sample, or a first one, waited for no longer than is bearable at a kernel's start.
        environ: the server's own environment, where an admin or a hub may have set limits.
        notify: tells people.
        log: where trouble goes.
        under_pool: gives the mode that holds where the server's own is given: a pool may want a stronger one.
        make: makes a mode that the pool wants.
    """

    def __init__(
        self,
        mode: Isolation,
        own: OwnShare,
        *,
        sample: Callable[[], Awaitable[Sample]],
        environ: Mapping[str, str],
        notify: Callable[[Message], None],
        log: logging.Logger,
        await_share: Callable[[], Awaitable[Message | None]] | None = None,
        under_pool: Callable[[Mode], Mode] = lambda own: own,
        make: Callable[[Mode], Isolation] | None = None,
    ) -> None:
        self._own_mode = mode
        self._modes: dict[Mode, Isolation] = {mode.name: mode}
        self._under: dict[str, Isolation] = {}
        self._under_pool = under_pool
        self._make = make
        self.own = own
        self._await_share = await_share
        self._sample = sample
        self._environ = environ
        self._notify = notify
        self._log = log
        self._placed: set[str] = set()
        self._preparing = asyncio.Lock()

    @property
    def mode(self) -> Isolation:
        """How kernels are held that start now."""
        name = self._under_pool(self._own_mode.name)
        if name not in self._modes and self._make is not None:
            self._modes[name] = self._make(name)
        return self._modes.get(name, self._own_mode)

    @property
    def guards(self) -> bool:
        """Whether the session is to be guarded: not while a kernel runs that was started without being told a limit."""
        return all(mode.guards for mode in self._all())

    @property
    def enforces_compute(self) -> bool:
        """Whether every kernel's compute is held to the share."""
        return all(mode.enforces_compute for mode in self._all())

    def mode_of(self, kernel_id: str) -> Isolation:
        """How a kernel is held: as it was when its process started."""
        return self._under.get(kernel_id) or self.mode

    def looser(self) -> list[str]:
        """The kernels that were started under another mode than those that start now."""
        now = self.mode
        return [kernel_id for kernel_id, mode in self._under.items() if mode is not now]

    async def apply(self, kernel_id: str, environment: MutableMapping[str, str]) -> None:
        """Prepare *environment*, that of a process which is about to start for the kernel."""
        self._placed.discard(kernel_id)
        why = None if self._await_share is None else await self._await_share()
        mode = self._under[kernel_id] = self.mode  # the share that has come may be of a pool with a mode of its own
        foreign = {name for name in environment if name.startswith(mode.limits)} if mode.limits else set()
        for name in foreign:
            if environment[name] != self._environ.get(name):
                del environment[name]
        environment.update(switches(environment))
        try:
            if why is not None:
                raise IsolationError(why)  # noqa: TRY301  # told as every other reason
            environment.update(await self._held(kernel_id, mode, environment))
        except IsolationError as error:
            self._log.warning("Kernel %s starts without a GPU: %s", kernel_id, error)
            if not self.own.is_none:  # who picked no GPU knows
                self._notify(_without_gpu(error.message))
            environment.update(NO_DEVICES)

    def limits(self, visible: Sequence[Device]) -> dict[str, int]:
        """What the session may hold, in bytes by the UUID of its devices: what the guard watches."""
        return {each.device.uuid: each.memory.bytes for each in slices_of(self.own, visible)}

    async def before_kill(self, pid: int) -> None:
        """A kernel's process is about to be killed."""
        for mode in list(self._modes.values()):
            await mode.before_kill([pid])

    def forget(self, kernel_id: str) -> None:
        """The kernel is no more."""
        self._placed.discard(kernel_id)
        self._under.pop(kernel_id, None)

    async def close(self) -> None:
        """End with the server."""
        for mode in self._modes.values():
            await mode.close()

    def _all(self) -> list[Isolation]:
        return [self.mode, *self._under.values()]

    async def _held(self, kernel_id: str, mode: Isolation, given: Mapping[str, str]) -> dict[str, str]:
        """What holds the kernel to the share."""
        if self.own.source == "default" and not (mode.enforces_memory or mode.guards):
            return {}  # Nobody has divided anything: a workstation's own user keeps all of its devices.
        slices = await self._slices(mode)
        if not slices:
            return {}
        if (problem := mode.problem(slices)) is not None:
            raise IsolationError(problem)
        self._take_place(kernel_id, mode)
        try:
            async with self._preparing:
                await mode.prepare(slices)
        except IsolationError:
            self._placed.discard(kernel_id)
            raise
        return visibility(slices, given) | mode.environment(slices, given)

    async def _slices(self, mode: Isolation) -> list[Slice]:
        """The session's part of each of its devices; empty where there is no GPU, or nothing has to be held."""
        try:
            sample = await self._sample()
        except (TimeoutError, RuntimeError):
            sample = None
        if sample is None or sample.driver.state is DriverState.LOST:
            if mode.enforces_memory:
                raise IsolationError(_NOT_KNOWN)
            return []
        if not sample.devices:
            return []
        slices = slices_of(self.own, sample.devices)
        if sample.driver.vendor in _VENDORS and slices:
            return slices
        if mode.enforces_memory:
            raise IsolationError(self.own.problem(sample.devices) or _other_vendor(mode.name))
        return []

    def _take_place(self, kernel_id: str, mode: Isolation) -> None:
        most = mode.most_kernels
        if most is not None and len(self._placed) >= most:
            template = "This server's share is divided among {most} kernels, and all have a GPU. Shut one of them down."
            raise IsolationError(Message("ISOLATION_NO_PLACE", template, {"most": str(most)}))
        self._placed.add(kernel_id)


_NOT_KNOWN = Message("ISOLATION_NOT_KNOWN", "The GPUs could not be read in time. Restart the kernel in a moment.")


def _other_vendor(mode: str) -> Message:
    template = "Isolation {mode} is for NVIDIA's GPUs only. Ask your admin for another one."
    return Message("ISOLATION_OTHER_VENDOR", template, {"mode": mode})


def _without_gpu(why: Message) -> Message:
    template = "Nothing is lost, but a kernel starts without a GPU: " + why.template
    return Message(why.code, template, why.values)
