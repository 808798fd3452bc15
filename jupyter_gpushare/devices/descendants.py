"""All processes that descend from some, without reading the whole process table where the system offers that."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

__all__ = ["descendants"]


def descendants(roots: Collection[int]) -> frozenset[int]:
    """*roots* and every living process below them."""
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting.extend(_children(pid))
    return frozenset(found)


def _children(pid: int) -> Iterator[int]:
    return _proc_children(pid) if _HAS_CHILDREN_FILES else _psutil_children(pid)


def _proc_children(pid: int) -> Iterator[int]:
    """proc(5), ``/proc/<pid>/task/<tid>/children``: each thread lists the processes that it started."""
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            yield from map(int, (task / "children").read_bytes().split())
    except OSError:
        return  # it ended while we looked: then it has no children left under it


def _psutil_children(pid: int) -> Iterator[int]:
    import psutil

    try:
        yield from (child.pid for child in psutil.Process(pid).children())
    except psutil.Error:
        return


# Kernels built without CONFIG_PROC_CHILDREN lack these files.
_HAS_CHILDREN_FILES = (
    sys.platform == "linux"
    and Path("/proc/self/task").is_dir()
    and bool(list(Path("/proc/self/task").glob("*/children")))
)
