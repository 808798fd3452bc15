"""What single versions of NVIDIA's kernel driver are known to do wrong when processes are parked.

Collected from issues of NVIDIA/cuda-checkpoint (the numbers below) and from one published validation on drivers
580.178 and 595.84. A defect counts for the whole branch in which it was seen, unless a release is known that mends it:
a refusal too many costs a wait, one too few costs somebody's work.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from jupyter_gpushare.parking.checkpoint import CheckpointDriver

__all__ = [
    "DEFECTS",
    "MINIMUM",
    "Defect",
    "Effect",
    "Version",
    "checkpoint_before_kill",
    "defect",
    "version_of",
    "why_unsupported",
]

Version = tuple[int, ...]

#: The first driver with CUDA's process checkpoint as an interface (CUDA 12.8).
MINIMUM: Final[Version] = (570,)

_VERSION: Final = re.compile(r"([0-9]{1,4})((?:\.[0-9]{1,4}){0,3})", re.ASCII)


class Effect(Enum):
    """What goes wrong."""

    #: Parking can destroy the program's state: no parking at all.
    DAMAGES_STATE = auto()
    #: The host hangs when a process that was resumed is killed while it runs: checkpoint it again before any kill.
    HANGS_AT_KILL = auto()
    #: A program with an NCCL process group ends when it is resumed.
    BREAKS_NCCL = auto()
    #: PyTorch programs are refused with "operation not supported".
    REFUSES_PYTORCH = auto()
    #: Memory shared between processes (CUDA IPC) cannot be parked; programs hang or end.
    LACKS_IPC = auto()


@dataclass(frozen=True, slots=True)
class Defect:
    """Versions from *first* up to, without, *fixed* (None: not fixed yet) show *effect*; *report* says who saw it."""

    effect: Effect
    first: Version
    fixed: Version | None
    report: str


DEFECTS: Final = (
    Defect(Effect.DAMAGES_STATE, (610,), (611,), "cuda-checkpoint issue 58: locking ended a program on 610.57.04"),
    Defect(Effect.HANGS_AT_KILL, (595,), (596,), "cuda-checkpoint issue 53: the host hung, 4 of 4, on 595.71.05"),
    Defect(Effect.BREAKS_NCCL, (595,), (596,), "published validation: 4 of 4 jobs aborted on 595.84, none on 580.178"),
    Defect(Effect.REFUSES_PYTORCH, (570,), (575, 57, 8), "cuda-checkpoint issues 24 and 34: fixed in 575.57.08"),
    Defect(Effect.LACKS_IPC, (570,), (610,), "cuda-checkpoint issue 56: memory shared by IPC since 610"),
)


def version_of(text: str) -> Version | None:
    """``580.95.05`` as numbers that compare; None for what is no version of NVIDIA's."""
    match = _VERSION.fullmatch(text)
    return None if match is None else tuple(int(part) for part in f"{match[1]}{match[2]}".split("."))


def why_unsupported(driver: CheckpointDriver) -> str:
    """Why *driver* cannot park anything, as a clause without a full stop; empty when it can."""
    if driver.missing:
        return driver.missing.rstrip(". ")
    version = version_of(driver.version)
    if version is None:
        return "" if driver.vendor == "simulated" else "its version cannot be told"
    return f"version {driver.version} is older than {MINIMUM[0]}" if version < MINIMUM else ""


def defect(effect: Effect, version: str) -> Defect | None:
    """The defect with *effect* that driver *version* has; None when none is known, or the text is no version."""
    number = version_of(version)
    if number is None:
        return None
    return next((one for one in DEFECTS if one.effect is effect and _has(one, number)), None)


def checkpoint_before_kill(version: str) -> bool:
    """Whether a process that was once resumed must be checkpointed again before anything kills it."""
    return defect(Effect.HANGS_AT_KILL, version) is not None


def _has(one: Defect, version: Version) -> bool:
    return version >= one.first and (one.fixed is None or version < one.fixed)
