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
        self._known: dict[int, tuple[Identity, str]] = {}

    def leases_of(self, pids: Collection[int], roots: Mapping[Identity, str]) -> dict[int, str]:
        """The lease of each of *pids* that has one. One that has ended since it was listed is still whose it was."""
        whose = ((pid, self._whose(pid, roots)) for pid in pids)
        self._known = {pid: known for pid, known in whose if known is not None}
        return {pid: lease for pid, (_, lease) in self._known.items()}

    def _whose(self, pid: int, roots: Mapping[Identity, str]) -> tuple[Identity, str] | None:
        known, stat = self._known.get(pid), self._read(pid)
        if stat is None:
            return known
        me = Identity(pid, int(stat.started))
        if (lease := self._search(me, stat, roots)) is not None:
            return me, lease
        return known if known is not None and known[0] == me else None

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
