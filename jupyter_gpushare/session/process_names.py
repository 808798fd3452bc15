"""Short names of processes, for rows that no notebook names."""

from __future__ import annotations

import psutil

__all__ = ["ProcessNames"]


class ProcessNames:
    """Remembers names, because a row is drawn every second and a name hardly ever changes."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}

    def name(self, pid: int) -> str:
        """The command's name, or the pid when it has ended."""
        if pid not in self._names:
            if len(self._names) > 1000:  # noqa: PLR2004  # far more rows than anybody reads
                self._names.clear()
            self._names[pid] = _look_up(pid)
        return self._names[pid]


def _look_up(pid: int) -> str:
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return f"process {pid}"
