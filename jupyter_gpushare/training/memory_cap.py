"""How much host memory a job may take, so that jobs and parked state cannot starve each other.

The system's limit on a process's data (RLIMIT_DATA, getrlimit(2)): an allocation beyond it fails in the job that makes
it, and nobody is ended. It holds for each process of the job by itself; where an admin wants the whole tree held, the
job belongs in a control group (``systemd-run --scope -p MemoryMax=…``), which the cap does not replace. It guards
against accidents and not against malice: a process may raise its own.
"""

from __future__ import annotations

import resource
from typing import Final

from jupyter_gpushare.quantity import Memory, QuantityError

__all__ = ["AUTO", "CapError", "automatic_cap", "cap", "parse_cap"]

AUTO: Final = "auto"
_NONE: Final = "none"
#: Below which hardly any framework starts.
_LEAST: Final = 2 << 30


class CapError(ValueError):
    """The text is no cap; it names the option and says what to write."""


def parse_cap(text: str) -> int | str:
    """Bytes for ``16GiB``; ``auto`` and ``none`` as they are.

    Raises:
        CapError: it is neither.
    """
    if text in (AUTO, _NONE):
        return text
    try:
        amount = Memory.parse(text)
    except QuantityError as error:
        raise CapError(f"--memory-cap: {error}, or auto, or none") from None
    if amount.is_unlimited or amount <= Memory.ZERO:
        raise CapError(f"--memory-cap: {text!r} is no amount; write for example 16GiB, auto, or none")
    return amount.bytes


def automatic_cap(*, host: int, parking_budget: int, part: float) -> int:
    """What a job with *part* of the host's devices may take of the memory that is not kept for parked state.

    Args:
        host: the host's memory, in bytes.
        parking_budget: what parked state may take of it.
        part: the job's devices, of all devices of the host: 0 to 1.
    """
    return max(_LEAST, int(max(0, host - parking_budget) * min(1.0, part)))


def cap(pid: int, size: int | None) -> None:
    """Hold the process *pid*, one of our own, to *size* bytes; None holds it to nothing.

    What it starts afterwards is held likewise. One that has ended meanwhile needs no cap.
    """
    try:
        _, hard = resource.prlimit(pid, resource.RLIMIT_DATA)
        wanted = resource.RLIM_INFINITY if size is None else size
        soft = wanted if hard == resource.RLIM_INFINITY else (hard if size is None else min(size, hard))
        resource.prlimit(pid, resource.RLIMIT_DATA, (soft, hard))
    except ProcessLookupError:
        return
