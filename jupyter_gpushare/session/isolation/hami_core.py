"""HAMi-core: a library before CUDA's own that refuses what is beyond the limit and throttles compute.

https://github.com/Project-HAMi/HAMi-core: ``LD_PRELOAD=…/libvgpu.so``, ``CUDA_DEVICE_MEMORY_LIMIT[_<n>]`` (``5120m``),
``CUDA_DEVICE_SM_LIMIT`` in per cent, ``CUDA_DEVICE_MEMORY_SHARED_CACHE``: processes with the same file share one limit,
and a limit holds for as long as its file is there.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.parking.verdict import NotParkable
from jupyter_gpushare.rules.message import Message
from jupyter_gpushare.session.isolation.mode import Isolation, parts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_gpushare.session.isolation.mode import Slice

__all__ = ["HamiCore", "find_library"]

_LIBRARY: Final = "libvgpu.so"
#: Where HAMi's device plugin and its packages put it.
_PLACES: Final = ("/usr/local/vgpu", "/usr/local/lib", "/usr/lib")
_MEMORY: Final = "CUDA_DEVICE_MEMORY_LIMIT"
_COMPUTE: Final = "CUDA_DEVICE_SM_LIMIT"
_CACHE: Final = "CUDA_DEVICE_MEMORY_SHARED_CACHE"
_NOT_MEASURED: Final = NotParkable(
    Message("HAMI_NOT_MEASURED", "whether programs under HAMi-core come back whole has not been measured here."),
    Message("HAMI_NOT_MEASURED_REMEDY", "An admin who has measured it sets c.GpuShare.park_under_hami = True."),
)


def find_library(configured: str) -> Path | None:
    """HAMi-core's library: *configured*, or where it is usually found; None when it is not there."""
    places = [Path(configured)] if configured else [Path(place) / _LIBRARY for place in _PLACES]
    return next((place for place in places if place.is_file()), None)


class HamiCore(Isolation):
    """Limits of the whole session, which all its processes share through one file.

    Args:
        library: where the library is; empty for the usual places.
        directory: where the file of the limits goes, for this user alone.
        session: tells one server's file from every other's.
        parkable: an admin has measured that programs under it can be parked.
    """

    name = "hami-core"
    memory = "preventive: an allocation beyond the share fails when it is tried"
    compute = "enforced: throttled to the share, on average"
    notes = "Not parked until an admin has measured it (`park_under_hami`). Holds only programs that load the library."
    enforces_memory = True
    enforces_compute = True
    limits = (_MEMORY, _COMPUTE, _CACHE)
    not_parkable: NotParkable | None = _NOT_MEASURED

    def __init__(self, *, library: str, directory: Path, session: str, parkable: bool = False) -> None:
        self._configured = library
        self._cache = directory / f"hami-{session}.cache"
        if parkable:
            self.not_parkable = None

    def problem(self, slices: Sequence[Slice]) -> Message | None:  # noqa: ARG002  # the interface
        """It needs its library."""
        if find_library(self._configured) is not None:
            return None
        template = "Isolation hami-core needs HAMi-core's {library}, which is not at {places}. Set {setting}."
        places = self._configured or ", ".join(_PLACES)
        values = {"library": _LIBRARY, "places": places, "setting": "c.GpuShare.hami_library to where it is"}
        return Message("ISOLATION_HAMI_MISSING", template, values)

    def environment(self, slices: Sequence[Slice], given: Mapping[str, str]) -> dict[str, str]:
        """The library before all others, the limit of each device, and the least one for any other device."""
        preloaded = [name for name in re.split("[: ]", given.get("LD_PRELOAD", "")) if name]
        if not any(Path(name).name == _LIBRARY for name in preloaded):
            preloaded.insert(0, str(find_library(self._configured)))
        own = {"LD_PRELOAD": ":".join(preloaded)}
        if any(name.startswith(_MEMORY) for name in given):
            return own  # HAMi's device plugin has set limits and file for the whole pod.
        return own | _limits(slices, ordered="CUDA_VISIBLE_DEVICES" not in given) | {_CACHE: str(self._cache)}

    async def close(self) -> None:
        """Remove the file of the limits."""
        self._cache.unlink(missing_ok=True)


def _limits(slices: Sequence[Slice], *, ordered: bool) -> dict[str, str]:
    """*ordered*: the devices are numbered as they stand in *slices*."""
    least = min(slices, key=lambda each: each.memory)
    limits = {_MEMORY: f"{parts(least.memory, 1)}m", _COMPUTE: str(min(each.percent for each in slices))}
    numbered = {f"{_MEMORY}_{at}": f"{parts(each.memory, 1)}m" for at, each in enumerate(slices)}
    return limits | numbered if ordered else limits
