"""How much host memory a kernel may still take: its control groups' limits, and what the host has.

The copy of a parked process's GPU memory lands in that process, so its own limits count. Linux, cgroup v1 and v2.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

__all__ = ["cgroup_headroom", "memory_available", "memory_total"]

_PROC: Final = Path("/proc")
_CGROUPS: Final = Path("/sys/fs/cgroup")
# cgroup v1 writes "no limit" as the largest multiple of a page below 2**63.
_NO_LIMIT: Final = 1 << 62
_MEMINFO: Final = re.compile(rb"^(MemAvailable|MemTotal):\s+(\d+) kB$", re.MULTILINE)


def cgroup_headroom(pid: int, proc: Path = _PROC, cgroups: Path = _CGROUPS) -> int | None:
    """Bytes that *pid* may take before a control group of its own or above it is full; None without any limit.

    Reclaimable page cache counts as free: the system drops it before it ends a process.
    """
    lefts = [left for folder, names in _groups(pid, proc, cgroups) if (left := _left(folder, names)) is not None]
    return min(lefts, default=None)


def memory_available(proc: Path = _PROC) -> int | None:
    """Bytes that this host can give without swapping (MemAvailable); None when it does not say."""
    return _meminfo(proc).get("MemAvailable")


def memory_total(proc: Path = _PROC) -> int | None:
    """Bytes of memory of this host; None when it does not say."""
    return _meminfo(proc).get("MemTotal")


def _meminfo(proc: Path) -> dict[str, int]:
    try:
        text = (proc / "meminfo").read_bytes()
    except OSError:
        return {}
    return {name.decode(): int(number) << 10 for name, number in _MEMINFO.findall(text)}


_V2: Final = ("memory.max", "memory.current", "inactive_file")
_V1: Final = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def _groups(pid: int, proc: Path, cgroups: Path) -> list[tuple[Path, tuple[str, str, str]]]:
    """The folders of *pid*'s memory groups up to the root, each with its names of limit, use and cache."""
    try:
        lines = (proc / str(pid) / "cgroup").read_text(errors="replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers == "":
            found += [(folder, _V2) for folder in _upwards(cgroups, path) + _upwards(cgroups / "unified", path)]
        elif "memory" in controllers.split(","):
            found += [(folder, _V1) for folder in _upwards(cgroups / "memory", path)]
    return found


def _upwards(root: Path, path: str) -> list[Path]:
    """*path* under *root* and everything above it. In a container the path may be the host's: then the root is ours."""
    parts = [part for part in path.split("/") if part not in {"", ".", ".."}]
    return [root.joinpath(*parts[:depth]) for depth in range(len(parts), -1, -1)]


def _left(folder: Path, names: tuple[str, str, str]) -> int | None:
    limit_name, use_name, cache_name = names
    try:
        limit = int((folder / limit_name).read_text())
        use = int((folder / use_name).read_text())
    except (OSError, ValueError):  # "max", or a group that is not there
        return None
    if limit >= _NO_LIMIT:
        return None
    return max(0, limit - use + min(use, _cache(folder, cache_name)))


def _cache(folder: Path, name: str) -> int:
    try:
        fields = dict(line.split(" ", 1) for line in (folder / "memory.stat").read_text().splitlines())
        return int(fields[name])
    except (OSError, ValueError, KeyError):
        return 0
