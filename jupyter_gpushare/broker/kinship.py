"""Whose a process is: the lease of the nearest process above it that a holder named.

Every process is known by its id and its start, so that a number which is used again is never taken for the process that
ended; unlike `devices.process_tree`, which looks for one server's kernels, thousands of roots cost nothing here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jupyter_gpushare.devices.identity import Identity
from jupyter_gpushare.devices.process_tree import Stat, read_stat

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

__all__ = ["Kinship"]

# Far deeper than real trees; ends a walk on a platform that answers in circles.
_DEEPEST: Final = 128


class Kinship:
    """Remembers whose a process was found to be while it is asked about: it may outlive those above it."""

    def __init__(self, read: Callable[[int], Stat | None] = read_stat) -> None:
        self._read = read
        self._known: dict[Identity, str] = {}

    def leases_of(self, pids: Collection[int], roots: Mapping[Identity, str]) -> dict[int, str]:
        """The lease of each of *pids* that has one."""
        known: dict[Identity, str] = {}
        found: dict[int, str] = {}
        for pid in pids:
            if (stat := self._read(pid)) is None:
                continue
            me = Identity(pid, int(stat.started))
            lease = self._search(me, stat, roots) or self._known.get(me)
            if lease is not None:
                found[pid] = known[me] = lease
        self._known = known
        return found

    def _search(self, process: Identity, stat: Stat, roots: Mapping[Identity, str]) -> str | None:
        leader, me, at = stat.session, process, stat
        for _ in range(_DEEPEST):
            if (lease := roots.get(me)) is not None:
                return lease
            above = self._read(at.parent) if at.parent > 0 else None
            # A parent younger than its child is another process that was given the number meanwhile.
            if above is None or above.started > at.started:
                break
            me, at = Identity(at.parent, int(above.started)), above
        # It lost its parent before it was ever seen (nohup): it is still in the POSIX session of one that was named.
        stat_of_leader = self._read(leader)
        return None if stat_of_leader is None else roots.get(Identity(leader, int(stat_of_leader.started)))
