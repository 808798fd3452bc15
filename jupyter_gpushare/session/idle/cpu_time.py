"""CPU time of whole process trees, and whether it stays low enough for idle.

A kernel that waits uses 0 to 1 clock tick of 10 ms in a minute, and 3 in 15 s with a debugger and sleeping workers;
60 ticks within 60 s is work.
"""

from __future__ import annotations

import os
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from jupyter_gpushare.devices.descendants import descendants
from jupyter_gpushare.devices.identity import Identity
from jupyter_gpushare.session.idle.evidence import IN_USE, UNREADABLE, Signal

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["CpuWindow", "Ticks", "Tree", "read_tree", "spent_ticks"]

_LONGEST_STAT: Final = 4096
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


class Ticks(NamedTuple):
    """Clock ticks that a process used itself, and those of its ended children that it has waited for."""

    own: int
    children: int


Tree = dict[Identity, Ticks]


def read_tree(roots: Collection[int]) -> Tree:
    """Every process of *roots* and below, from ``/proc``; empty where there is none to read."""
    return dict(read for pid in descendants(roots) if (read := _read(pid)) is not None)


def spent_ticks(before: Mapping[Identity, Ticks], after: Mapping[Identity, Ticks]) -> int:
    """Ticks used between two readings of a tree.

    What an ended child used is in its parent's count of children, if the parent waited for it: of that growth, what
    the child had used at the first reading is no news. A child nobody waited for takes its last ticks with it.
    """
    own = sum(ticks.own - before[process].own for process, ticks in after.items() if process in before)
    waited = sum(ticks.children - before[process].children for process, ticks in after.items() if process in before)
    born = sum(sum(ticks) for process, ticks in after.items() if process not in before)
    known = sum(sum(ticks) for process, ticks in before.items() if process not in after)
    return own + born + max(0, waited - known)


class CpuWindow:
    """Whether a tree's CPU time stays at or below *allowed_s* within every *window_s*, and since when it does."""

    def __init__(self, *, window_s: float = 60.0, allowed_s: float = 0.6) -> None:
        self._window_s = window_s
        self._allowed_s = allowed_s
        self._tree: Tree = {}
        self._spent: deque[tuple[float, float]] = deque()
        self._quiet_since: float | None = None

    @property
    def signal(self) -> Signal:
        """What the readings so far say; before the first one, or where there is no process, it cannot be told."""
        if not self._spent:
            return UNREADABLE
        return IN_USE if self._quiet_since is None else Signal(self._quiet_since)

    def note(self, at: float, tree: Tree) -> None:
        """Take a reading of *at*, in seconds on any one clock that goes forward."""
        if not tree:
            self.restart()
            return
        total = self._spent[-1][1] + spent_ticks(self._tree, tree) / _TICKS_PER_S if self._spent else 0.0
        self._tree = tree
        self._spent.append((at, total))
        self._forget_before(at - self._window_s)
        if total - self._spent[0][1] > self._allowed_s:
            self._quiet_since = None
        elif self._quiet_since is None:
            self._quiet_since = at

    def restart(self) -> None:
        """Begin anew: what was used so far was a cell's."""
        self._tree, self._quiet_since = {}, None
        self._spent.clear()

    def _forget_before(self, begin: float) -> None:
        """Keep one reading from before the window, so that what is left spans all of it."""
        while len(self._spent) > 1 and self._spent[1][0] <= begin:
            self._spent.popleft()


def _read(pid: int) -> tuple[Identity, Ticks] | None:
    """proc(5), ``/proc/<pid>/stat``: fields 14 to 17 and 22, counted after the name, which may hold anything."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:  # noqa: PTH123  # half the time of a Path
            line = file.read(_LONGEST_STAT)
        fields = line[line.rindex(b")") + 2 :].split(None, 20)
        own, children = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
        return Identity(pid, int(fields[19])), Ticks(own, children)
    except (OSError, ValueError, IndexError):
        return None
