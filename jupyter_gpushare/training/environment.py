"""What a job is told in its environment: which devices are its own, how much of them, and where its supervisor is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.training.job import RESTARTS, SHARE, SOCKET

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from jupyter_gpushare.broker.wire import LeaseModel

__all__ = ["CAPS", "LEASE", "job_environment", "memory_on"]

#: ``limit/total`` in bytes for each device, in the order of ``CUDA_VISIBLE_DEVICES``, as notebooks' kernels have it.
CAPS: Final = "GPUSHARE_MEMORY_CAPS"
#: The id of the job's lease.
LEASE: Final = "GPUSHARE_LEASE"

_VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
#: JAX takes three quarters of a device at its start and TensorFlow all of it, unless told otherwise; a park would move
#: that much (docs.jax.dev, "GPU memory allocation"; tensorflow.org, "Use a GPU").
_SWITCHES: Final = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
#: A context and the libraries' work space lie outside of the frameworks' allocators, and count against the share.
_OUTSIDE: Final = 640 << 20
_CUPY_LIMIT: Final = "CUPY_GPU_MEMORY_LIMIT"
#: Two names for one thing. JAX refuses to start on a GPU when both are set.
_JAX_LIMITS: Final = ("XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION")


def job_environment(
    given: Mapping[str, str], lease: LeaseModel, totals: Mapping[str, int], *, socket: Path, restarts: int
) -> dict[str, str]:
    """The environment of a job that starts with what *lease* grants it.

    Args:
        given: that of ``run`` itself.
        lease: a lease with its grants.
        totals: the whole memory of each device by UUID, in bytes, where it is known.
        socket: where the job finds its supervisor.
        restarts: how often it had to give its GPU back so far.
    """
    memory = memory_on(lease)
    share = {
        "share": lease.share,
        "project": lease.project,
        "devices": list(memory),
        "memory": list(memory.values()),
    }
    ours = {
        _VISIBLE: ",".join(memory),
        SOCKET: str(socket),
        SHARE: json.dumps(share),
        RESTARTS: str(restarts),
        LEASE: lease.id,
    }
    switches = {name: value for name, value in _SWITCHES.items() if name not in given}
    return {**given, **switches, **ours, **_caps(given, lease, memory, totals)}


def memory_on(lease: LeaseModel) -> dict[str, int]:
    """The bytes that *lease* may hold on each of its devices, bursts included, in the order of its grants."""
    memory = {grant.device: grant.memory for grant in lease.grants}
    for burst in lease.bursts:
        memory[burst.device] = memory.get(burst.device, 0) + burst.memory
    return memory


def _caps(
    given: Mapping[str, str], lease: LeaseModel, memory: Mapping[str, int], totals: Mapping[str, int]
) -> dict[str, str]:
    """The frameworks' own limits, for a part of a device only; what the user has set stays."""
    is_part = any(Fraction.parse(grant.amount) < Fraction.ONE for grant in lease.grants)
    if not is_part or any(totals.get(device, 0) < limit for device, limit in memory.items()):
        return {}
    inside = {device: max(limit - _OUTSIDE, limit // 2) for device, limit in memory.items()}
    caps = {CAPS: ",".join(f"{limit}/{totals[device]}" for device, limit in memory.items())}
    if _CUPY_LIMIT not in given:
        caps[_CUPY_LIMIT] = str(min(inside.values()))
    if not any(name in given for name in _JAX_LIMITS):
        caps[_JAX_LIMITS[0]] = f"{min(limit / totals[device] for device, limit in inside.items()):.4f}"
    return caps
