"""How much of a move is done: by what the processes have grown, or what left the device."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_gpushare.parking.sequence import Step

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_gpushare.devices.identity import Identity
    from jupyter_gpushare.session.meter import Sample
    from jupyter_gpushare.session.parking.record import Parking

__all__ = ["Progress"]

_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(slots=True)
class _Start:
    status: str
    since: float
    resident: int | None


class Progress:
    """Follows the moves of all kernels."""

    def __init__(self) -> None:
        self._starts: dict[str, _Start] = {}

    def note(self, parking: Parking) -> None:
        """A step began: remember how it was before the first byte moves."""
        start = self._starts.get(parking.kernel_id)
        if start is None or (start.status, start.since) != (parking.status, parking.since):
            self._starts[parking.kernel_id] = _Start(parking.status, parking.since, _resident(parking.processes))
        elif parking.step not in (Step.CHECKPOINT, Step.RESTORE):
            start.resident = _resident(parking.processes)

    def moved(self, parking: Parking, sample: Sample | None) -> int | None:
        """Bytes that have moved, None when nothing moves or it cannot be told."""
        start = self._starts.get(parking.kernel_id)
        if not parking.is_moving or parking.memory is None or start is None or start.status != parking.status:
            return None
        if parking.step not in (Step.CHECKPOINT, Step.RESTORE):
            return None
        sign = 1 if parking.status == "parking" else -1
        signs = [self._by_memory(parking, start, sign), _by_device(parking, sample, sign)]
        known = [moved for moved in signs if moved is not None]
        return min(max(0, *known), parking.memory) if known else None

    def forget(self, kernel_id: str) -> None:
        """The kernel is no more."""
        self._starts.pop(kernel_id, None)

    def _by_memory(self, parking: Parking, start: _Start, sign: int) -> int | None:
        now = _resident(parking.processes)
        return None if now is None or start.resident is None else sign * (now - start.resident)


def _by_device(parking: Parking, sample: Sample | None, sign: int) -> int | None:
    if sample is None or not sample.attributed.trusted or sample.at < parking.since or parking.memory is None:
        return None
    pids = {process.pid for process in parking.processes}
    parts = [held.memory.value for use in sample.uses for held in use.processes or () if held.pid in pids]
    if None in parts:
        return None
    on_device = sum(part or 0 for part in parts)
    return parking.memory - on_device if sign > 0 else on_device


def _resident(processes: Iterable[Identity]) -> int | None:
    """What *processes* have in main memory (proc(5), statm), None when one has ended."""
    try:
        return sum(int(Path(f"/proc/{each.pid}/statm").read_bytes().split()[1]) * _PAGE for each in processes)
    except (OSError, ValueError, IndexError):
        return None
