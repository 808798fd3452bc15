"""Who a process is, so that a reused process id is never taken for the process that ended."""

from __future__ import annotations

import os
from typing import NamedTuple

__all__ = ["Identity", "identify", "is_alive", "myself"]


class Identity(NamedTuple):
    """A process: its id and its start time in clock ticks since the system started (proc_pid_stat(5))."""

    pid: int
    start: int


def identify(pid: int, proc: str = "/proc") -> Identity | None:
    """The process that now has *pid*; None when there is none, or only a zombie, which holds no GPU.

    *proc* is where proc(5) is mounted.
    """
    try:
        with open(f"{proc}/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123 - pathlib takes twice as long
            stat = file.read(1024)
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the program's name and may hold spaces and brackets: count from its end.
    fields = stat[stat.rindex(b")") + 2 :].split(maxsplit=20)
    return None if fields[0] in b"ZX" else Identity(pid, int(fields[19]))


def is_alive(process: Identity) -> bool:
    """Whether *process* still runs."""
    return identify(process.pid) == process


def myself() -> Identity:
    """The calling process.

    Raises:
        OSError: this system has no ``/proc``.
    """
    me = identify(os.getpid())
    if me is None:
        raise OSError("the simulated machine knows processes by /proc, which this system lacks: run it on Linux")
    return me
