"""Short names of processes, for rows that no notebook names."""

from __future__ import annotations

import time

import psutil

from jupyter_gpushare.session.untrusted import sendable

__all__ = ["ProcessNames"]

_FRESH_S = 30.0


class ProcessNames:
    """Remembers names for a while, because a row is drawn every second and a name hardly ever changes."""

    def __init__(self) -> None:
        self._names: dict[int, tuple[float, str]] = {}

    def name(self, pid: int) -> str:
        """The command's name, or the pid when it has ended."""
        now = time.monotonic()
        if pid not in self._names or now - self._names[pid][0] > _FRESH_S:
            self._names = {known: entry for known, entry in self._names.items() if now - entry[0] <= _FRESH_S}
            self._names[pid] = (now, _look_up(pid))
        return self._names[pid][1]


def _look_up(pid: int) -> str:
    try:
        return sendable(psutil.Process(pid).name(), 60)
    except psutil.Error:
        return f"process {pid}"
