"""Which devices the environment lets this process see: ``CUDA_VISIBLE_DEVICES`` and its relatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Physical", "visible_to_cuda", "visible_to_rocm"]

_ALL: Final = "all"
_NOBODY: Final = frozenset({"none", "nodevfiles", "-1"})
# A container runtime that has already given the devices by CDI says "void"; an empty value is like none at all.
_NO_RESTRICTION: Final = frozenset({"", _ALL, "void"})


@dataclass(frozen=True, slots=True)
class Physical:
    """What the environment names a device by: its GPU's position and UUID, and a MIG instance's own UUID."""

    index: int
    gpu_uuid: str
    mig_uuid: str = ""


class _Named(Protocol):
    @property
    def physical(self) -> Physical: ...


N = TypeVar("N", bound=_Named)


def visible_to_cuda(devices: Sequence[N], environ: Mapping[str, str]) -> list[N]:
    """Those of *devices* that CUDA in this environment would see, in their own order.

    ``CUDA_VISIBLE_DEVICES`` holds positions, UUIDs, or beginnings of UUIDs; as in CUDA, a name that fits none ends
    the list. Positions are those of the PCI bus, which are CUDA's too unless the machine mixes GPU models.

    ``NVIDIA_VISIBLE_DEVICES`` is an order to the container runtime. Where that has carried it out, positions in it
    count on the host and mean nothing here, so it restricts only while more devices show than it names.
    """
    allowed = list(devices)
    ordered = environ.get("NVIDIA_VISIBLE_DEVICES", _ALL).strip()
    if ordered.lower() not in _NO_RESTRICTION:
        allowed = _restrict_as_runtime(allowed, ordered)
    if "CUDA_VISIBLE_DEVICES" in environ:
        allowed = _restrict(allowed, environ["CUDA_VISIBLE_DEVICES"])
    return allowed


def visible_to_rocm(devices: Sequence[N], environ: Mapping[str, str]) -> list[N]:
    """Those of *devices* that HIP in this environment would see; positions in the second count after the first."""
    allowed = list(devices)
    for name in ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        if name in environ:
            allowed = _restrict(allowed, environ[name], renumbered=name.startswith("HIP"))
    return allowed


def _restrict_as_runtime(devices: list[N], ordered: str) -> list[N]:
    if ordered.lower() in _NOBODY:
        return []
    names = ordered.split(",")
    if len(_gpus(devices)) <= len(names):
        return devices
    return _restrict(devices, ordered)


def _restrict(devices: list[N], value: str, *, renumbered: bool = False) -> list[N]:
    if value.strip().lower() == _ALL:
        return devices
    positions = {uuid: at if renumbered else index for at, (uuid, index) in enumerate(_gpus(devices).items())}
    chosen: set[int] = set()
    for name in value.split(","):
        found = [at for at, device in enumerate(devices) if _fits(name.strip(), device.physical, positions)]
        if not found:
            break
        chosen.update(found)
    return [device for at, device in enumerate(devices) if at in chosen]


def _gpus(devices: Sequence[N]) -> dict[str, int]:
    return {device.physical.gpu_uuid: device.physical.index for device in devices}


def _fits(name: str, physical: Physical, positions: Mapping[str, int]) -> bool:
    if name.isascii() and name.isdecimal():
        return int(name) == positions[physical.gpu_uuid]
    if name.startswith("MIG-"):
        return physical.mig_uuid.startswith(name)
    return name.startswith("GPU-") and physical.gpu_uuid.startswith(name)
