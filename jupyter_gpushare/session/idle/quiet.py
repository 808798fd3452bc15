"""From single readings to *quiet since*: GPU utilisation sample by sample, and counters that may change."""

from __future__ import annotations

from typing import Final

from jupyter_gpushare.session.idle.evidence import IN_USE, UNREADABLE, Signal

__all__ = ["CounterRun", "UtilisationRun"]

_STALE_S: Final = 60.0


class UtilisationRun:
    """The unbroken run of samples that read 0 %. A sample that is missing or late breaks it."""

    def __init__(self, stale_s: float = _STALE_S) -> None:
        self._stale_s = stale_s
        self._last: float | None = None
        self._quiet_since: float | None = None

    def note(self, at: float, percent: int | None) -> None:
        """Take one sample; None for one without a number."""
        if percent is None:
            self._last = self._quiet_since = None
            return
        if percent > 0 or self._is_stale(at):
            self._quiet_since = None
        if percent == 0 and self._quiet_since is None:
            self._quiet_since = at
        self._last = at

    def signal(self, now: float) -> Signal:
        """What the samples up to *now* say; nothing once the last one is old."""
        if self._last is None or self._is_stale(now):
            return UNREADABLE
        return IN_USE if self._quiet_since is None else Signal(self._quiet_since)

    def _is_stale(self, now: float) -> bool:
        return self._last is not None and now - self._last > self._stale_s


class CounterRun:
    """Since when a counter has read the same."""

    def __init__(self) -> None:
        self._value: int | None = None
        self._since = 0.0

    def note(self, at: float, value: int | None) -> None:
        """Take one reading; None for none."""
        if value != self._value:
            self._value, self._since = value, at

    @property
    def signal(self) -> Signal:
        """Quiet since the last change."""
        return UNREADABLE if self._value is None else Signal(self._since)
