"""From a sample to what people see: pure, on the event loop, well under a millisecond."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import msgspec

from jupyter_gpushare.devices.device import Attribution, Device, DeviceUse, Reading
from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.session.state import holding
from jupyter_gpushare.session.wire import (
    CullingModel,
    DeviceModel,
    DriverModel,
    KernelModel,
    KernelView,
    LeaseView,
    MessageModel,
    NoticeModel,
    ParkingMode,
    ParkingModel,
    ProcessModel,
    ReadingModel,
    ReleaseLevel,
    ReleaseModel,
    Snapshot,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jupyter_gpushare.devices.attribution import DeviceSplit, Owner, OwnerUse
    from jupyter_gpushare.session.kernels import Kernel
    from jupyter_gpushare.session.meter import Sample
    from jupyter_gpushare.session.own_share import OwnShare

__all__ = ["Scene", "message_model", "session_memory", "snapshot", "view_of"]

# What is said of the driver or the share, which every kernel may hear.
_ABOUT_NOBODY = {"READING", "NO_GPU", "NO_DRIVER", "DRIVER_LOST", "SHARE_DOES_NOT_FIT"}

# What moves, waits or has just come back is told before a cell that runs.
_TOLD_FIRST = {"ASKED", "PARKING", "PARKED", "WAITING_FOR_ROOM", "RESUMING", "RESUMED", "BUSY_BUT_QUIET"}

NOT_LOCAL = Message("NOT_LOCAL", "This kernel runs on another machine; its GPU use cannot be seen from here.")
NOT_LOADED = Message(
    "NOT_LOADED",
    "This kernel's Python has no jupyter_gpushare: %gpushare and freeing its cache are missing; ending it works.",
)
NO_PROVISIONER = Message(
    "NO_PROVISIONER",
    "Another provisioner started this kernel: %gpushare and freeing its cache are missing; ending it works.",
)


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything a snapshot is made of. *reports* are bytes that kernels counted themselves, by kernel id.

    *parkings* are by kernel id, too; *parkable* are the kernels that may be parked in principle.
    """

    seq: int
    sample: Sample
    own: OwnShare
    kernels: Sequence[Kernel]
    execution_state: Callable[[str], str]
    pid: Callable[[str], int | None]
    state: Message
    releases: Sequence[ReleaseModel]
    reports: Mapping[str, int] = field(default_factory=dict)
    parkings: Mapping[str, ParkingModel] = field(default_factory=dict)
    parkable: frozenset[str] = frozenset()
    compute: Literal["shared", "enforced"] = "shared"
    parking_mode: ParkingMode = "off"
    handed_back_s: float = 0.0
    notices: Sequence[NoticeModel] = ()
    lease: LeaseView | None = None
    culling: CullingModel | None = None
    process_name: Callable[[int], str] = str


def message_model(message: Message) -> MessageModel:
    """The message as it travels."""
    return MessageModel.of(message)


def snapshot(scene: Scene) -> Snapshot:
    """What the sidebar shows."""
    sample = scene.sample
    return Snapshot(
        seq=scene.seq,
        at=sample.at,
        simulated=sample.driver.vendor == "simulated",
        driver=DriverModel(sample.driver.vendor, sample.driver.state, sample.driver.version, sample.driver.reason),
        share=msgspec.structs.replace(scene.own.model(sample.devices), compute=scene.compute),
        memory=_reading(session_memory(sample, scene.own)),
        utilisation=_reading(sample.attributed.utilisation),
        state=message_model(scene.state),
        devices=_devices(sample),
        kernels=_kernels(scene),
        processes=_processes(scene),
        releases=list(scene.releases),
        parking_mode=scene.parking_mode,
        handed_back_s=scene.handed_back_s,
        notices=list(scene.notices),
        lease=scene.lease,
        culling=scene.culling,
    )


def view_of(whole: Snapshot, kernel_id: str) -> KernelView | None:
    """What one kernel may see of *whole*: no other notebook's row. None when the kernel is not there."""
    own = next((kernel for kernel in whole.kernels if kernel.id == kernel_id), None)
    if own is None:
        return None
    return KernelView(
        at=whole.at,
        simulated=whole.simulated,
        driver=whole.driver,
        share=whole.share,
        memory=whole.memory,
        utilisation=whole.utilisation,
        state=_state_for(whole, own),
        devices=whole.devices,
        kernel=own,
        releases=[release for release in whole.releases if release.kernel_id == kernel_id],
        lease=whole.lease,
    )


def _state_for(whole: Snapshot, own: KernelModel) -> MessageModel:
    """How it is with this one kernel: made from its own part, so that no other notebook's name can be in it."""
    if whole.state.code in _ABOUT_NOBODY or (whole.lease is not None and whole.state == whole.lease.message):
        return whole.state
    if own.parking is not None and own.parking.message.code in _TOLD_FIRST:
        return own.parking.message
    release = next((release for release in reversed(whole.releases) if release.kernel_id == own.id), None)
    if release is not None and (release.status == "running" or own.busy_since is None):
        return release.message
    if own.busy_since is not None:
        return message_model(Message("ACTIVE", "Active. This notebook is running a cell."))
    if own.parking is not None and own.parking.message.code in ("COUNTING_DOWN", "KEPT") and own.memory.value:
        return own.parking.message
    held = Reading(own.memory.value, own.memory.attribution, own.memory.reason)
    return message_model(holding(held, whole.share.description))


def _reading(reading: Reading) -> ReadingModel:
    return ReadingModel(reading.value, reading.attribution, reading.reason)


def session_memory(sample: Sample, own: OwnShare) -> Reading:
    """The session's memory, by the best evidence there is."""
    exact = sample.attributed.memory
    devices = {device.uuid for device in own.devices(sample.devices)}
    if exact.value is not None or not devices or not own.share.is_whole:
        return exact
    # Nobody else should be on a whole device, so all that is used there is this session's.
    used = [use.memory.value for use in sample.uses if use.uuid in devices]
    if None in used:
        return exact
    return Reading(sum(value or 0 for value in used), Attribution.DEVICE_TOTAL)


def _devices(sample: Sample) -> list[DeviceModel]:
    parts = {part.uuid: part for part in sample.attributed.devices}
    uses = {use.uuid: use for use in sample.uses}
    return [_device(device, uses[device.uuid], parts[device.uuid]) for device in sample.devices if device.uuid in uses]


def _device(device: Device, use: DeviceUse, part: DeviceSplit) -> DeviceModel:
    return DeviceModel(
        uuid=device.uuid,
        index=device.index,
        host=device.host,
        kind=device.kind,
        name=device.name,
        is_mig=device.is_mig,
        total=device.total.bytes,
        usable=device.usable.bytes,
        used=_reading(use.memory),
        utilisation=_reading(use.utilisation),
        mine=_reading(part.mine),
        others=_reading(part.others),
        other_holders=part.other_holders,
    )


def _kernels(scene: Scene) -> list[KernelModel]:
    owners = {use.owner.key: use for use in scene.sample.attributed.owners if use.owner.kind == "kernel"}
    return [_kernel(scene, kernel, owners.get(kernel.id)) for kernel in scene.kernels]


def _kernel(scene: Scene, kernel: Kernel, use: OwnerUse | None) -> KernelModel:
    local = scene.pid(kernel.id) is not None
    memory, utilisation = _kernel_readings(scene, kernel, use, local=local)
    return KernelModel(
        id=kernel.id,
        name=kernel.name,
        path=kernel.path,
        execution_state=scene.execution_state(kernel.id),
        busy_since=kernel.busy_since,
        idle_since=kernel.idle_since,
        running=kernel.running,
        memory=_reading(memory),
        utilisation=_reading(utilisation),
        processes=len(use.pids) if use else 0,
        levels=_levels(kernel, can_park=kernel.id in scene.parkable),
        note=_note(kernel, local=local),
        parking=scene.parkings.get(kernel.id),
    )


def _levels(kernel: Kernel, *, can_park: bool) -> list[ReleaseLevel]:
    """What may be tried, what loses least first."""
    levels: list[ReleaseLevel] = ["park"] if can_park else []
    return [*levels, "free_cache", "end_kernel"] if kernel.releases_cache else [*levels, "end_kernel"]


def _note(kernel: Kernel, *, local: bool) -> MessageModel | None:
    if not local:
        return message_model(NOT_LOCAL)
    if not kernel.managed:
        return message_model(NO_PROVISIONER)
    return None if kernel.releases_cache else message_model(NOT_LOADED)


def _kernel_readings(scene: Scene, kernel: Kernel, use: OwnerUse | None, *, local: bool) -> tuple[Reading, Reading]:
    reported = scene.reports.get(kernel.id)
    if not local:
        missing = Reading.unavailable(NOT_LOCAL.text)
        return missing, missing
    if use is None and scene.sample.attributed.trusted:
        return Reading.exact(0), Reading.exact(0)
    memory = use.memory if use else scene.sample.attributed.memory
    utilisation = use.utilisation if use else scene.sample.attributed.utilisation
    if memory.value is None and reported is not None:
        memory = Reading(reported, Attribution.IN_KERNEL)
    return memory, utilisation


def _processes(scene: Scene) -> list[ProcessModel]:
    living = {kernel.id for kernel in scene.kernels}
    owners = scene.sample.attributed.owners
    return [_process(scene, use) for use in owners if use.owner.kind != "kernel" or use.owner.key not in living]


def _process(scene: Scene, use: OwnerUse) -> ProcessModel:
    pid = use.pids[0]
    return ProcessModel(
        kind="terminal" if use.owner.kind == "terminal" else "process" if use.owner.key else "server",
        name=_process_label(use.owner, pid, scene.process_name),
        pid=pid,
        memory=_reading(use.memory),
        utilisation=_reading(use.utilisation),
    )


def _process_label(owner: Owner, pid: int, name: Callable[[int], str]) -> str:
    if owner.kind == "terminal":
        return f"Terminal {owner.key}: {name(pid)}"
    if owner.kind == "kernel":
        return f"{name(pid)}, left by an ended kernel"
    return name(pid) if owner.key else "Jupyter Server"
