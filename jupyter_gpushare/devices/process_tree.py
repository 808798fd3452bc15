"""From a process to the kernel, terminal or server that it descends from."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.devices.attribution import Owner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["ProcessTree", "Stat", "in_host_pid_namespace", "read_stat"]

# Far deeper than real trees; ends a walk on a platform that answers in circles.
_DEEPEST: Final = 128
_MOST_REMEMBERED: Final = 4096
# One miss may be a parent that ended between two reads.
_MISSES_OF_A_STRANGER: Final = 2
_LONGEST_STAT: Final = 4096
# The host's own pid namespace has a fixed inode: PROC_PID_INIT_INO in Linux, include/linux/proc_ns.h.
_HOST_PID_NAMESPACE: Final = f"pid:[{0xEFFFFFFC}]"


@dataclass(frozen=True, slots=True)
class Stat:
    """One process: its parent, its POSIX session's leader and its start, in a unit that only compares."""

    parent: int
    session: int
    started: float


class ProcessTree:
    """Finds the owner of a process by walking from child to parent, a few small reads each.

    An owner once found stays, by process id and start time, so that a process which outlives its parent and is given
    to another keeps its owner. One that lost its parent before it was ever seen (``nohup … &``) is still in the POSIX
    session of its kernel or terminal.
    """

    def __init__(self, read: Callable[[int], Stat | None] | None = None) -> None:
        self._read = read or read_stat
        self._known: dict[tuple[int, float], Owner] = {}
        self._misses: dict[tuple[int, float], int] = {}
        self._roots: dict[int, Owner] = {}

    def owner_of(self, pid: int, roots: Mapping[int, Owner]) -> Owner | None:
        """The owner of *pid* among *roots*, the innermost; None when it descends from none of them.

        A child of the server outside kernels and terminals is an owner of its own, of kind ``process``, with the
        process id of the server's direct child as its key.
        """
        if pid in roots:
            return roots[pid]
        stat = self._read(pid)
        if stat is None:
            return None
        identity = (pid, stat.started)
        self._start_over_for(roots)
        known = self._known.get(identity)
        if known is not None and _is_final(known):
            return known
        if self._misses.get(identity, 0) >= _MISSES_OF_A_STRANGER:
            return None
        found = self._search(pid, stat, roots) or known
        self._remember(identity, found)
        return found

    def _start_over_for(self, roots: Mapping[int, Owner]) -> None:
        """Strangers stay strangers while the roots are the same: a busy host has hundreds of them to walk."""
        if roots != self._roots:
            self._roots = dict(roots)
            self._misses.clear()

    def _search(self, pid: int, stat: Stat, roots: Mapping[int, Owner]) -> Owner | None:
        walked = self._walk(pid, stat, roots)
        if walked is not None and _is_final(walked):
            return walked
        leader = roots.get(stat.session)
        if leader is not None and _is_final(leader):
            return leader
        if walked is None and leader is not None:
            return Owner("process", str(pid))
        return walked

    def _walk(self, pid: int, stat: Stat, roots: Mapping[int, Owner]) -> Owner | None:
        for _ in range(_DEEPEST):
            if (owner := roots.get(stat.parent)) is not None:
                return owner if owner.kind != "server" else Owner("process", str(pid))
            parent = self._read(stat.parent) if stat.parent > 0 else None
            # A parent younger than its child is another process that was given the number meanwhile.
            if parent is None or parent.started > stat.started:
                return None
            pid, stat = stat.parent, parent
            if (known := self._known.get((pid, stat.started))) is not None and _is_final(known):
                return known
        return None

    def _remember(self, identity: tuple[int, float], owner: Owner | None) -> None:
        if owner is None:
            if len(self._misses) >= _MOST_REMEMBERED:
                self._misses.clear()
            self._misses[identity] = self._misses.get(identity, 0) + 1
            return
        self._known[identity] = owner
        if len(self._known) > _MOST_REMEMBERED:
            self._known = {key: owner for key, owner in self._known.items() if self._is_alive(key)}

    def _is_alive(self, identity: tuple[int, float]) -> bool:
        pid, started = identity
        stat = self._read(pid)
        return stat is not None and stat.started == started


def read_stat(pid: int) -> Stat | None:
    """What the system says of *pid*; None when it has ended or may not be seen."""
    return _read_proc(pid) if sys.platform == "linux" else _read_psutil(pid)


def in_host_pid_namespace() -> bool:
    """Whether this process's ids are the ones that a GPU driver reports. False when that cannot be known."""
    try:
        return str(Path("/proc/self/ns/pid").readlink()) == _HOST_PID_NAMESPACE
    except OSError:
        return False


def _is_final(owner: Owner) -> bool:
    """A kernel is the server's child before it is known as a kernel: only its own name is final."""
    return owner.kind in {"kernel", "terminal"}


def _read_proc(pid: int) -> Stat | None:
    """proc(5), ``/proc/<pid>/stat``: fields 4, 6 and 22, counted after the name, which may hold anything."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123  # half the time of a Path
            line = file.read(_LONGEST_STAT)
        fields = line[line.rindex(b")") + 2 :].split(None, 20)
        return Stat(parent=int(fields[1]), session=int(fields[3]), started=float(fields[19]))
    except (OSError, ValueError, IndexError):
        return None


def _read_psutil(pid: int) -> Stat | None:
    import psutil

    try:
        process = psutil.Process(pid)
        return Stat(parent=process.ppid(), session=os.getsid(pid), started=process.create_time())
    except (psutil.Error, OSError):
        return None
