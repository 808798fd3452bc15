"""How much memory of a device an isolation mode leaves to a process, as its environment says."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["is_mps_client", "memory_limit"]

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_AMOUNT = re.compile(r"([0-9]{1,15})([kmg]?)b?", re.IGNORECASE)

_MPS_LIMIT = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
_HAMI_LIMIT = "CUDA_DEVICE_MEMORY_LIMIT"
_HAMI_SWITCH = "GPUSHARE_SIMULATED_HAMI"


def is_mps_client(environ: Mapping[str, str]) -> bool:
    """Whether a process with *environ* reaches its devices through MPS."""
    return bool(environ.get("CUDA_MPS_PIPE_DIRECTORY"))


def memory_limit(environ: Mapping[str, str], ordinal: int, uuid: str) -> int | None:
    """The bytes that a process with *environ* may hold on its device number *ordinal*, None without a limit.

    MPS: ``CUDA_MPS_PINNED_DEVICE_MEM_LIMIT``, such as ``0=8G,1=512M`` or ``GPU-…=8G`` (NVIDIA MPS documentation).
    HAMi-core, where `LD_PRELOAD` names its library or ``GPUSHARE_SIMULATED_HAMI=1``: ``CUDA_DEVICE_MEMORY_LIMIT_0``
    or, for all devices, ``CUDA_DEVICE_MEMORY_LIMIT``, such as ``5g``. The smaller one holds.

    Raises:
        ValueError: a limit is not an amount of memory; the message names the variable.
    """
    limits = [_mps(environ, ordinal, uuid), _hami(environ, ordinal)]
    return min((limit for limit in limits if limit is not None), default=None)


def _mps(environ: Mapping[str, str], ordinal: int, uuid: str) -> int | None:
    if not is_mps_client(environ):
        return None
    for entry in filter(None, environ.get(_MPS_LIMIT, "").split(",")):
        device, _, amount = entry.strip().partition("=")
        if device in (str(ordinal), uuid):
            return _bytes(_MPS_LIMIT, amount)
    return None


def _hami(environ: Mapping[str, str], ordinal: int) -> int | None:
    preloaded = "libvgpu.so" in (os.path.basename(one) for one in re.split("[: ]", environ.get("LD_PRELOAD", "")))  # noqa: PTH119  # text, no path of ours
    if not preloaded and environ.get(_HAMI_SWITCH) != "1":
        return None
    for variable in (f"{_HAMI_LIMIT}_{ordinal}", _HAMI_LIMIT):
        if amount := environ.get(variable, "").strip():
            return _bytes(variable, amount) or None  # HAMi-core takes 0 for no limit.
    return None


def _bytes(variable: str, amount: str) -> int:
    match = _AMOUNT.fullmatch(amount.strip())
    if match is None:
        raise ValueError(f"{variable}: {amount!r} is not an amount of memory; write for example 8G")
    return int(match[1]) * _UNITS[match[2].lower()]
