"""Which process outside is the one that somebody in another pid namespace names by its own number (pid_namespaces(7)).

A container without the host's process ids numbers its processes from 1; a driver, and a broker on the host, know them
by other numbers. Three things are the same from both sides: the namespace's inode, the innermost of the process's
numbers, and when it began.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from jupyter_gpushare.devices.identity import Identity, identify

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

__all__ = ["Found", "Inside", "find", "namespace_of", "own_pid_namespace"]

_PROC: Final = "/proc"
_NAMESPACE: Final = re.compile(r"pid:\[(\d{1,19})\]")
# The last number of the line is the innermost. No program's name can look like this line: /proc escapes its newlines.
_INNERMOST: Final = re.compile(rb"^NSpid:[\t 0-9]*?(\d+)[\t ]*$", re.MULTILINE)


class Inside(NamedTuple):
    """A process as it is known in its own pid namespace.

    Attributes:
        namespace: the inode of that namespace, as ``/proc/<pid>/ns/pid`` shows it.
        pid: its number there.
        start: when it began, in clock ticks since boot. The same everywhere, except under a time namespace of its own
            (time_namespaces(7)), from where it looks like another process.
    """

    namespace: int
    pid: int
    start: int


@dataclass(frozen=True, slots=True)
class Found:
    """What a search came to.

    Attributes:
        told: who was looked for.
        outside: those that were found, by the numbers that hold here.
        hidden: those of which number and start were seen, and the namespace may not be read.
    """

    told: frozenset[Inside]
    outside: Mapping[Inside, Identity]
    hidden: frozenset[Inside]


def own_pid_namespace(proc: str = _PROC) -> int | None:
    """The inode of the calling process's pid namespace.

    None where that cannot be read, and where ``/proc`` shows the numbers of another namespace: then what is read from
    it under our own numbers is about others.
    """
    try:
        is_of_here = str(Path(proc, "self").readlink()) == str(os.getpid())
        return namespace_of(os.getpid(), proc) if is_of_here else None
    except OSError:
        return None


def namespace_of(pid: int, proc: str = _PROC) -> int | None:
    """The inode of the pid namespace of *pid*; None when it has ended.

    Raises:
        OSError: it may not be read: that takes the rights to trace *pid* (ptrace(2), PTRACE_MODE_READ_FSCREDS), which
            are those of its user *and* group where it has no capabilities that the reader lacks, or CAP_SYS_PTRACE.
    """
    try:
        link = os.readlink(f"{proc}/{pid}/ns/pid")  # noqa: PTH115  # for every process there is: no Path for each
    except (FileNotFoundError, ProcessLookupError):
        return None
    match = _NAMESPACE.fullmatch(link)
    return int(match[1]) if match else None


def find(told: Collection[Inside], proc: str = _PROC) -> Found:
    """Look for *told* among all processes that can be seen from here.

    Blocking: one small read for every process of the machine. A process counts only where all three agree; where its
    namespace may not be read it is not found, since number and start alone may by chance be those of another container.
    """
    wanted = frozenset(told)
    spaces = {each.namespace for each in wanted}
    outside: dict[Inside, Identity] = {}
    closed: list[int] = []
    for pid in _pids(proc):
        try:
            if (space := namespace_of(pid, proc)) in spaces and space is not None:
                outside |= _both_sides(pid, space, proc)
        except OSError:
            closed.append(pid)
    outside = {inside: who for inside, who in outside.items() if inside in wanted}
    return Found(wanted, outside, _hidden(wanted - outside.keys(), closed, proc))


def _both_sides(pid: int, space: int, proc: str) -> dict[Inside, Identity]:
    """*pid* as it is known in *space* and here; nothing when it has ended.

    Raises:
        OSError: it may not be read any more.
    """
    who, inner = identify(pid, proc), _innermost(pid, proc)
    # Between two reads the number may have become another process's: what was read counts if it is still the same one.
    if who is None or inner is None or namespace_of(pid, proc) != space or identify(pid, proc) != who:
        return {}
    return {Inside(space, inner, who.start): who}


def _hidden(lacking: frozenset[Inside], closed: Iterable[int], proc: str) -> frozenset[Inside]:
    """Which of *lacking* may be among the processes that may not be looked into."""
    starts = {each.start for each in lacking}
    seen: set[tuple[int | None, int]] = set()
    for pid in closed if lacking else ():
        try:
            who = identify(pid, proc)
            if who is not None and who.start in starts:
                seen.add((_innermost(pid, proc), who.start))
        except OSError:
            continue  # /proc hides even these of it (hidepid): nothing is known of it
    return frozenset(each for each in lacking if (each.pid, each.start) in seen)


def _innermost(pid: int, proc: str) -> int | None:
    """The number of *pid* in its own pid namespace (proc_pid_status(5), ``NSpid``); None when it has ended."""
    try:
        match = _INNERMOST.search(Path(proc, str(pid), "status").read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(match[1]) if match else None


def _pids(proc: str) -> list[int]:
    try:
        return [int(name) for name in os.listdir(proc) if name.isdecimal()]  # noqa: PTH208  # as in namespace_of
    except OSError:
        return []  # a system without /proc: nobody is found there
