"""Which devices a process may see, as ``CUDA_VISIBLE_DEVICES`` restricts them (CUDA C++ Programming Guide)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_gpushare.devices.device import Device

__all__ = ["HOST_VARIABLE", "MACHINE_VARIABLE", "visible_devices"]

MACHINE_VARIABLE = "GPUSHARE_SIMULATED_MACHINE"
HOST_VARIABLE = "GPUSHARE_SIMULATED_HOST"


def visible_devices(devices: Sequence[Device], environ: Mapping[str, str]) -> tuple[Device, ...]:
    """The devices of *environ*'s host (of every host, where it names none) that it lets a process see, in its order.

    ``CUDA_VISIBLE_DEVICES`` lists indexes or UUIDs, which may be shortened while they stay unique. As with CUDA, the
    first entry that names no device ends the list, and a device named twice hides all.
    """
    host = environ.get(HOST_VARIABLE)
    here = [device for device in devices if host in (None, "", device.host)]
    listed = environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return tuple(here)
    chosen: list[Device] = []
    for entry in listed.split(","):
        device = _find(here, entry.strip())
        if device is None:
            break
        chosen.append(device)
    return tuple(chosen) if len(set(chosen)) == len(chosen) else ()


def _find(devices: Sequence[Device], entry: str) -> Device | None:
    if entry.isascii() and entry.isdigit():
        index = int(entry[:9])
        return devices[index] if index < len(devices) else None
    named = [device for device in devices if device.uuid.startswith(entry)] if entry else []
    return named[0] if len(named) == 1 else None
