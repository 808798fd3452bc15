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
    from jupyter_gpushare.session.isolation.mode import Isolation, Slice
    from jupyter_gpushare.session.meter import Sample
    from jupyter_gpushare.session.own_share import OwnShare

__all__ = ["KernelIsolation"]

_VENDORS = ("nvidia", "simulated")


class KernelIsolation:
    """Lives on the server's event loop.

    Args:
        mode: how kernels are held to the share.
        own: this session's share.
        await_share: waits a moment for a share that a broker has yet to give; None when a kernel may have a GPU, else
            why not yet.
        sample: the newest sample, or a first one, waited for no longer than is bearable at a kernel's start.
        environ: the server's own environment, where an admin or a hub may have set limits.
        notify: tells people.
        log: where trouble goes.
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
    ) -> None:
        self.mode = mode
        self.own = own
        self._await_share = await_share
        self._sample = sample
        self._environ = environ
        self._notify = notify
        self._log = log
        self._placed: set[str] = set()
        self._preparing = asyncio.Lock()

    async def apply(self, kernel_id: str, environment: MutableMapping[str, str]) -> None:
        """Prepare *environment*, that of a process which is about to start for the kernel."""
        self._placed.discard(kernel_id)
        foreign = {name for name in environment if name.startswith(self.mode.limits)} if self.mode.limits else set()
        for name in foreign:
            if environment[name] != self._environ.get(name):
                del environment[name]
        environment.update(switches(environment))
        try:
            environment.update(await self._held(kernel_id, environment))
        except IsolationError as error:
            self._log.warning("Kernel %s starts without a GPU: %s", kernel_id, error)
            self._notify(_without_gpu(error.message))
            environment.update(NO_DEVICES)

    def limits(self, visible: Sequence[Device]) -> dict[str, int]:
        """What the session may hold, in bytes by the UUID of its devices: what the guard watches."""
        return {each.device.uuid: each.memory.bytes for each in slices_of(self.own, visible)}

    async def before_kill(self, pid: int) -> None:
        """A kernel's process is about to be killed."""
        await self.mode.before_kill([pid])

    def forget(self, kernel_id: str) -> None:
        """The kernel is no more."""
        self._placed.discard(kernel_id)

    async def close(self) -> None:
        """End with the server."""
        await self.mode.close()

    async def _held(self, kernel_id: str, given: Mapping[str, str]) -> dict[str, str]:
        """What holds the kernel to the share."""
        if self._await_share is not None and (why := await self._await_share()) is not None:
            raise IsolationError(why)
        if self.own.source == "default" and not self._must_hold:
            return {}  # Nobody has divided anything: a workstation's own user keeps all of its devices.
        slices = await self._slices()
        if not slices:
            return {}
        if (problem := self.mode.problem(slices)) is not None:
            raise IsolationError(problem)
        self._take_place(kernel_id)
        try:
            async with self._preparing:
                await self.mode.prepare(slices)
        except IsolationError:
            self._placed.discard(kernel_id)
            raise
        return visibility(slices, given) | self.mode.environment(slices, given)

    @property
    def _must_hold(self) -> bool:
        return self.mode.enforces_memory or self.mode.guards

    async def _slices(self) -> list[Slice]:
        """The session's part of each of its devices; empty where there is no GPU, or nothing has to be held."""
        try:
            sample = await self._sample()
        except (TimeoutError, RuntimeError):
            sample = None
        if sample is None or sample.driver.state is DriverState.LOST:
            if self.mode.enforces_memory:
                raise IsolationError(_NOT_KNOWN)
            return []
        if not sample.devices:
            return []
        slices = slices_of(self.own, sample.devices)
        if sample.driver.vendor in _VENDORS and slices:
            return slices
        if self.mode.enforces_memory:
            raise IsolationError(self.own.problem(sample.devices) or _other_vendor(self.mode.name))
        return []

    def _take_place(self, kernel_id: str) -> None:
        most = self.mode.most_kernels
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
