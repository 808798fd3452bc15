"""What is to be known before a kernel may be parked: gathered from the devices, the system and the kernel itself.

`look` is cheap and asks nobody: it is for showing the answer before anything is pressed. `examine` reads the devices
afresh, asks the kernel what goes on inside it, and is what a park stands on.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jupyter_gpushare.devices.identity import identify
from jupyter_gpushare.parking.facts import Background, DeviceFacts, Facts, KernelFacts, Outside
from jupyter_gpushare.parking.gather import gather_host, gather_process
from jupyter_gpushare.parking.preflight import first_look, preflight
from jupyter_gpushare.parking.probe import background_of
from jupyter_gpushare.parking.sequence import Target
from jupyter_gpushare.parking.verdict import Parkable
from jupyter_gpushare.session.lease.pool import verdict_under
from jupyter_gpushare.session.parking.parts import Examined
from jupyter_gpushare.session.parking.sentences import ENDED_MEANWHILE, FAR_AWAY, UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from jupyter_gpushare.broker.pool_policy import PoolPolicy
    from jupyter_gpushare.devices.attribution import OwnerUse
    from jupyter_gpushare.devices.device import Device, DeviceUse
    from jupyter_gpushare.devices.identity import Identity
    from jupyter_gpushare.parking.checkpoint import CheckpointDriver
    from jupyter_gpushare.parking.facts import ProcessFacts, Settings
    from jupyter_gpushare.parking.speed import Speed
    from jupyter_gpushare.parking.verdict import Verdict
    from jupyter_gpushare.session.isolation.mode import Isolation
    from jupyter_gpushare.session.kernels import Kernel
    from jupyter_gpushare.session.meter import Sample

__all__ = ["Examiner", "Surroundings"]

_LAGGING_S = 0.1


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where the examiner asks. Memory is in bytes.

    Attributes:
        kernel: one kernel, None when it ended.
        kernel_ids: all living kernels.
        traits: what kind of kernel it is.
        last: the newest sample, None before the first; *fresh* waits for a new one.
        counted: bytes that a kernel itself counted last on its GPUs, 0 when it did not.
        driver: the driver that parks, None while it has not been asked yet; *ask_driver* asks it.
        probe: the kernel's own answer about what goes on in it, after a moment given by a monotonic clock.
        settings: what admin and owner decided for a kernel.
        cpu: CPU seconds of the kernel's process tree, and in how many seconds.
        speed: how fast memory moves here.
        budget_left: what is left of the host's parking budget; None while unknown.
        features: what a process uses, on the simulated machine only.
        name: a process's name, for people.
    """

    kernel: Callable[[str], Kernel | None]
    kernel_ids: Callable[[], Iterable[str]]
    traits: Callable[[Kernel], KernelFacts]
    last: Callable[[], Sample | None]
    fresh: Callable[[], Awaitable[Sample]]
    counted: Callable[[str], int]
    driver: Callable[[], CheckpointDriver | None]
    ask_driver: Callable[[], Awaitable[CheckpointDriver]]
    probe: Callable[[str], Awaitable[object]]
    settings: Callable[[str], Settings]
    cpu: Callable[[str], Awaitable[tuple[float | None, float]]]
    speed: Callable[[], Speed]
    budget_left: Callable[[], Awaitable[int | None]]
    features: Callable[[Identity], frozenset[str]] | None
    name: Callable[[int], str]


class Examiner:
    """Finds out whether kernels can be parked.

    Args:
        surroundings: where it asks.
        foreign: bytes on each device that nobody's lease covers; None where no broker says so, and then everything that
            is not this session's counts as foreign.
        pool: what the pool of the share decides; None for nothing.
        deadline_s: how long the devices may take to be read.
    """

    def __init__(
        self,
        surroundings: Surroundings,
        *,
        foreign: Callable[[], Awaitable[Mapping[str, int] | None]] | None = None,
        pool: Callable[[], PoolPolicy | None] = lambda: None,
        deadline_s: float = 5.0,
    ) -> None:
        self._at = surroundings
        self._foreign = foreign
        self._pool = pool
        self._deadline_s = deadline_s
        #: How a kernel is isolated: programs of some modes cannot be parked.
        self.isolation_of: Callable[[str], Isolation] | None = None

    async def examine(self, kernel_id: str) -> Examined:
        """Everything, afresh. A kernel that holds nothing has no target."""
        kernel = self._at.kernel(kernel_id)
        if kernel is None:
            return Examined(ENDED_MEANWHILE, None)
        try:
            background = await self.background(kernel_id)
            sample = await asyncio.wait_for(self._settled(kernel_id), self._deadline_s)
            driver = await self._at.ask_driver()
        except (TimeoutError, RuntimeError):
            return Examined(UNREADABLE, None)
        target = _target(kernel_id, sample)
        facts = await self._facts(kernel, sample, driver, target, background)
        return Examined(self._unless_isolated(kernel_id, preflight(facts)), target)

    async def _settled(self, kernel_id: str) -> Sample:
        """A fresh sample that shows at least what the kernel itself counts: a driver's figures may lag behind.

        What is not counted now would be missing when it comes back, and without room for it all would be lost.
        """
        while True:
            sample = await self._at.fresh()
            if not sample.attributed.trusted or _target(kernel_id, sample).total >= self._at.counted(kernel_id):
                return sample
            await asyncio.sleep(_LAGGING_S)

    async def look(self, kernel_id: str, background: Background | None) -> Examined:
        """By what is known already; *background* is the kernel's last answer, None when it has not been asked."""
        kernel, sample = self._at.kernel(kernel_id), self._at.last()
        if kernel is not None and self._at.traits(kernel).is_gateway:
            return Examined(FAR_AWAY, None)  # what holds for this host does not matter there
        if kernel is None or sample is None:
            return Examined(UNREADABLE, None)
        target = _target(kernel_id, sample)
        driver = self._at.driver() or await self._at.ask_driver()
        facts = await self._facts(kernel, sample, driver, target, background or Background())
        verdict = first_look(facts) if background is None else preflight(facts)
        return Examined(self._unless_isolated(kernel_id, verdict), target)

    def _unless_isolated(self, kernel_id: str, verdict: Verdict) -> Verdict:
        refusal = None if self.isolation_of is None else self.isolation_of(kernel_id).not_parkable
        if refusal is not None and isinstance(verdict, Parkable):
            return refusal
        return verdict_under(self._pool(), verdict)

    async def background(self, kernel_id: str) -> Background:
        """What the kernel says goes on inside it."""
        cpu_s, window_s = await self._at.cpu(kernel_id)
        kernel = self._at.kernel(kernel_id)
        if kernel is None or not kernel.releases_cache:
            return Background(probe="not_asked", cpu_s=cpu_s, window_s=window_s)  # nothing in it could answer
        try:
            reply = await self._at.probe(kernel_id)
        except (TimeoutError, KeyError):
            return Background(probe="no_answer", cpu_s=cpu_s, window_s=window_s)
        return background_of(reply, cpu_s=cpu_s, window_s=window_s)

    async def _facts(
        self, kernel: Kernel, sample: Sample, driver: CheckpointDriver, target: Target, background: Background
    ) -> Facts:
        budget_left = await self._at.budget_left()
        processes = await asyncio.to_thread(self._gather, target.processes)
        is_simulated = driver.vendor == "simulated"
        host = await asyncio.to_thread(lambda: gather_host(budget_left=budget_left, simulated=is_simulated))
        use = _use(kernel.id, sample)
        return Facts(
            driver=driver,
            host=host,
            settings=self._at.settings(kernel.id),
            kernel=self._at.traits(kernel),
            memory=None if use is not None and use.memory.value is None else target.total,
            devices=await self._devices(sample, target),
            processes=processes,
            outside=tuple(self._outside(sample)),
            background=background,
            speed=self._at.speed(),
        )

    async def _devices(self, sample: Sample, target: Target) -> tuple[DeviceFacts, ...]:
        found = tuple(_devices(sample, target))
        foreign = None if self._foreign is None else await self._foreign()
        return found if foreign is None else tuple(_without_leased(each, foreign) for each in found)

    def _gather(self, processes: Sequence[Identity]) -> tuple[ProcessFacts, ...]:
        return tuple(gather_process(process, features=self._at.features) for process in processes)

    def _outside(self, sample: Sample) -> Iterable[Outside]:
        living = set(self._at.kernel_ids())
        for use in sample.attributed.owners:
            owner = use.owner
            if owner.kind == "kernel" and owner.key in living:
                continue
            kind = owner.kind if owner.kind in ("terminal", "server") else "process"
            yield Outside(kind, self._at.name(use.pids[0]), use.pids[0])


def _use(kernel_id: str, sample: Sample) -> OwnerUse | None:
    owners = sample.attributed.owners
    return next((use for use in owners if use.owner.kind == "kernel" and use.owner.key == kernel_id), None)


def _target(kernel_id: str, sample: Sample) -> Target:
    """What the kernel holds. A process that ended since the sample holds nothing any more."""
    use = _use(kernel_id, sample)
    if use is None:
        return Target(kernel_id, (), {})
    processes = tuple(process for pid in use.pids if (process := identify(pid)) is not None)
    memory = {uuid: reading.value or 0 for uuid, reading in use.by_device.items()}
    return Target(kernel_id, processes, memory, dict(_parts(sample, processes)))


def _parts(sample: Sample, processes: Iterable[Identity]) -> Iterable[tuple[Identity, Mapping[str, int]]]:
    for process in processes:
        listed = [(use.uuid, held) for use in sample.uses for held in use.processes or () if held.pid == process.pid]
        if all(held.memory.value is not None for _, held in listed):
            yield process, {uuid: held.memory.value or 0 for uuid, held in listed}


def _devices(sample: Sample, target: Target) -> Iterable[DeviceFacts]:
    """The devices that the kernel is on; all that the session may see when the driver does not list processes."""
    uses = {use.uuid: use for use in sample.uses}
    splits = {split.uuid: split for split in sample.attributed.devices}
    trusted = sample.attributed.trusted
    for device in sample.devices:
        if device.uuid in uses and (device.uuid in target.memory or not trusted):
            others = splits[device.uuid].other_holders if device.uuid in splits else None
            yield _device(device, uses[device.uuid], sample, others)


def _without_leased(device: DeviceFacts, foreign: Mapping[str, int]) -> DeviceFacts:
    """Neighbours who hold leases are no strangers: the broker keeps their share and ours apart."""
    if device.uuid not in foreign:
        return device
    held = foreign[device.uuid]
    return replace(device, foreign=held, foreign_processes=device.foreign_processes if held else 0)


def _device(device: Device, use: DeviceUse, sample: Sample, others: int | None) -> DeviceFacts:
    listed = sample.attributed.trusted and use.processes is not None
    ours = {pid for owner in sample.attributed.owners for pid in owner.pids}
    parts = [process.memory.value for process in use.processes or () if process.pid not in ours]
    return DeviceFacts(
        uuid=device.uuid,
        name=device.name,
        is_mig=device.is_mig,
        listed=listed,
        why_not_listed="" if listed else sample.attributed.reason,
        foreign_processes=others,
        foreign=None if None in parts else sum(part or 0 for part in parts),
    )
