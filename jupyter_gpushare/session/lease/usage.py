"""What the session uses, told to the broker: memory, and GPU-seconds computed, from the meter's samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_gpushare.session.meter import Sample

__all__ = ["Computed"]

_LONGEST_GAP_S = 60.0
_PER_CENT = 100.0


class Computed:
    """GPU-seconds: utilisation over time, summed over devices. None where utilisation cannot be read."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._seconds = 0.0
        self._is_known = False

    def take(self, sample: Sample) -> None:
        """Count the time since the last sample as this one shows it; a longer gap says nothing about itself."""
        before, self._last = self._last, sample.taken
        utilisation = sample.attributed.utilisation.value
        if before is None or utilisation is None:
            return
        self._is_known = True
        held = {uuid for owner in sample.attributed.owners for uuid in owner.by_device}
        gap_s = min(sample.taken - before, _LONGEST_GAP_S)
        self._seconds += gap_s * utilisation / _PER_CENT * len(held)

    def since_last(self) -> float | None:
        """What was computed since the last call."""
        seconds, known = self._seconds, self._is_known
        self._seconds, self._is_known = 0.0, False
        return seconds if known else None
