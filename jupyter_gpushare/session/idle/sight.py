"""What one sample shows of each kernel that holds GPU memory. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from jupyter_gpushare.devices.attribution import OwnerUse
    from jupyter_gpushare.session.meter import Sample

__all__ = ["Sight", "held_outside_kernels", "sights"]


@dataclass(frozen=True, slots=True)
class Sight:
    """One kernel that holds GPU memory, or may.

    Attributes:
        kernel_id: which.
        pids: its processes that hold a device, as far as they are known.
        memory: bytes; None where they cannot be told.
        utilisation: per cent, of its own processes; None where it cannot be told.
        device: per cent, of the busiest of its devices, whoever uses it; None where it cannot be told.
        allocated: bytes that its frameworks count; None where nobody counts.
    """

    kernel_id: str
    pids: tuple[int, ...]
    memory: int | None
    utilisation: int | None
    device: int | None
    allocated: int | None


def sights(sample: Sample, kernel_ids: Collection[str], reports: Mapping[str, int]) -> dict[str, Sight]:
    """The kernels among *kernel_ids* that hold GPU memory, by the driver's lists or by their own *reports*."""
    uses = {use.owner.key: use for use in sample.attributed.owners if use.owner.kind == "kernel"}
    seen = {kernel_id: _sight(sample, kernel_id, uses.get(kernel_id), reports) for kernel_id in kernel_ids}
    return {kernel_id: sight for kernel_id, sight in seen.items() if sight is not None}


def held_outside_kernels(sample: Sample) -> bool:
    """Whether a terminal or another process of this session holds GPU memory."""
    return any(use.owner.kind != "kernel" and use.memory.value != 0 for use in sample.attributed.owners)


def _sight(sample: Sample, kernel_id: str, use: OwnerUse | None, reports: Mapping[str, int]) -> Sight | None:
    reported = reports.get(kernel_id)
    if use is None and (sample.attributed.trusted or not reported):
        return None
    exact = use.memory.value if use else None
    if exact == 0:
        return None
    return Sight(
        kernel_id,
        pids=use.pids if use else (),
        memory=reported if exact is None else exact,
        utilisation=use.utilisation.value if use else None,
        device=_device_utilisation(sample, use.by_device.keys() if use else ()),
        allocated=reported,
    )


def _device_utilisation(sample: Sample, uuids: Collection[str]) -> int | None:
    """Of the devices that it holds, or of all where that cannot be told: then all must be quiet to prove anything."""
    read = [use.utilisation.value for use in sample.uses if not uuids or use.uuid in uuids]
    numbers = [value for value in read if value is not None]
    return max(numbers) if numbers and len(numbers) == len(read) else None
