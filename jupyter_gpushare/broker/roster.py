"""Which processes belong to which lease: what holders said, as far as the system confirms it.

A holder in a container names its processes by the numbers of its own pid namespace, and tells that namespace's inode.
Such a process is the one outside with that inode, that innermost number and that start (`devices.pid_namespace`), and
counts under the same rules as any other: it lives, is of the caller's user, and no other lease has it.

What this does not protect against: the inode is the holder's word, as its numbers are. Whoever runs as the same user,
in another container too, may name somebody else's process if it knows when that began, and is believed while no other
lease has it: what that process holds is then counted for the wrong lease. With the host's numbers it could do the same.
Only different users are protected from each other; and the superuser speaks for everybody, also one in a container that
reaches the broker's socket. A process whose namespace may not be read belongs to nobody.

It outlives the broker in a file beside its socket, which ends with the machine's uptime as processes do: a broker that
was killed must not take its holders' memory for foreign, nor a holder that does not come back for one that lives.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from jupyter_gpushare.devices.identity import Identity, identify, is_alive
from jupyter_gpushare.devices.pid_namespace import Inside, own_pid_namespace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from jupyter_gpushare.devices.pid_namespace import Found

__all__ = ["Roster"]

_Kept = dict[str, list[tuple[int, int]]]
_DECODER: Final = msgspec.json.Decoder(_Kept)
_LONGEST_FILE: Final = 64 << 20
# One that is not found was named after it had ended, or may not be read; or was just becoming another program (execve).
_MOST_SEARCHES: Final = 3


@dataclass(slots=True)
class _Asked:
    """What a holder in another pid namespace named, and how often it is still looked for."""

    uid: int | None
    told: frozenset[Inside]
    searches: int = _MOST_SEARCHES


class Roster:
    """The processes of every lease. For one thread; what `roots` gives is never changed again.

    Args:
        path: where it is kept; None keeps it in memory only.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._namespace = own_pid_namespace()
        self._asked: dict[str, _Asked] = {}
        self._hidden: set[str] = set()
        self._processes: dict[str, frozenset[Identity]] = {}
        self._owners: dict[Identity, str] = {}
        self._seen: dict[str, set[Identity]] = {}
        self._roots: Mapping[Identity, str] | None = None
        for lease, processes in _read(path).items():
            self._set(lease, frozenset(Identity(*each) for each in processes))
        self._written = self.roots()

    def put(
        self, lease: str, processes: Collection[Identity], uid: int | None = None, namespace: int | None = None
    ) -> None:
        """*lease* consists of *processes*, of which those count that live, are *uid*'s and no other lease's.

        Without a *uid* it is somebody who is no user of this machine, and whose processes run under the broker's own.

        What another lease has already is not taken from it: else one could have its memory counted as one's own.

        *namespace* is the inode of the pid namespace whose numbers these are; None for ours. Those of another one count
        once they are `found`; until then, what counted before does.
        """
        self._asked.pop(lease, None)
        if processes and namespace is not None and self._namespace not in (None, namespace):
            told = frozenset(Inside(namespace, each.pid, each.start) for each in processes)
            self._asked[lease] = _Asked(uid, told)
        else:
            self._replace(lease, self._confirmed(lease, processes, uid))

    def join(self, lease: str, processes: Collection[Identity], uid: int | None = None) -> bool:
        """*processes* are *lease*'s too, under the rules of `put`, beside those there that live; whether that is news.

        Not while those of a holder in another pid namespace are looked for: its word replaces this.
        """
        before = self._processes.get(lease, frozenset())
        more = frozenset() if lease in self._asked else self._confirmed(lease, processes, uid) - before
        if more:
            self._set(lease, more | {each for each in before if is_alive(each)})
        return bool(more)

    def unfound(self) -> frozenset[Inside]:
        """Which processes of other pid namespaces are to be looked for."""
        return frozenset().union(*(asked.told for asked in self._asked.values()))

    def found(self, found: Found) -> frozenset[str]:
        """Take what a search for those that were `unfound` came to.

        Gives the leases of which processes may be there that may not be looked into, each once.
        """
        hidden = {lease for lease, asked in list(self._asked.items()) if self._take(lease, asked, found)}
        new = hidden - self._hidden
        self._hidden |= new
        return frozenset(new)

    def saw(self, lease: str, processes: Collection[Identity]) -> None:
        """*processes* of *lease*, or below it, were seen on a device."""
        self._seen.setdefault(lease, set()).update(processes)

    def forget(self, lease: str) -> None:
        """*lease* is over."""
        self._asked.pop(lease, None)
        self._hidden.discard(lease)
        self._seen.pop(lease, None)
        if lease in self._processes:
            self._set(lease, frozenset())

    def keep_only(self, leases: Collection[str]) -> None:
        """Forget all but *leases*."""
        for lease in [key for key in self._processes if key not in leases]:
            self.forget(lease)

    def has(self, lease: str) -> bool:
        """Whether any process of *lease* was ever confirmed."""
        return bool(self._processes.get(lease) or self._seen.get(lease))

    def is_dead(self, lease: str) -> bool:
        """Whether everything that was ever seen of *lease* has ended. Not of one of which nothing was seen."""
        known = self._processes.get(lease, frozenset()) | self._seen.get(lease, set())
        return bool(known) and not any(is_alive(each) for each in known)

    def roots(self) -> Mapping[Identity, str]:
        """The lease of each process that a holder named, or that named a lease itself."""
        if self._roots is None:
            self._roots = dict(self._owners)
        return self._roots

    def write(self, roots: Mapping[Identity, str]) -> None:
        """Keep *roots*, if there is something new since the last time. Blocking; any thread may call.

        Raises:
            OSError: it cannot be written.
        """
        # What is there by now may be newer than *roots*, and is then still to be written.
        if self._path is None or roots is self._written:
            return
        kept: _Kept = {}
        for process, lease in roots.items():
            kept.setdefault(lease, []).append((process.pid, process.start))
        with tempfile.NamedTemporaryFile(dir=self._path.parent, prefix=".roster-", delete=False) as new:
            new.write(msgspec.json.encode(kept))
        Path(new.name).replace(self._path)
        self._written = roots

    def _confirmed(self, lease: str, processes: Iterable[Identity], uid: int | None) -> frozenset[Identity]:
        """Which of *processes* count for *lease*."""
        before = self._processes.get(lease, frozenset())
        free = (each for each in processes if self._owners.get(each, lease) == lease)
        return frozenset(each for each in free if each in before or _is_of(each, uid))

    def _take(self, lease: str, asked: _Asked, found: Found) -> bool:
        """Take what was found for *lease*; whether the search is over and some of it may be hidden."""
        if not asked.told <= found.told:
            return False  # it was named while the search went on
        outside = [found.outside[each] for each in asked.told if each in found.outside]
        own = self._confirmed(lease, outside, asked.uid)
        asked.searches -= 1
        is_over = asked.searches <= 0 or asked.told <= found.outside.keys()
        self._replace(lease, own if is_over else own | self._processes.get(lease, frozenset()))
        if is_over:
            del self._asked[lease]
        return is_over and not asked.told.isdisjoint(found.hidden)

    def _replace(self, lease: str, processes: frozenset[Identity]) -> None:
        if processes != self._processes.get(lease, frozenset()):
            self._set(lease, processes)

    def _set(self, lease: str, processes: frozenset[Identity]) -> None:
        for each in self._processes.pop(lease, frozenset()):
            del self._owners[each]
        if processes:
            self._processes[lease] = processes
            self._owners |= dict.fromkeys(processes, lease)
        self._roots = None


def _is_of(process: Identity, uid: int | None) -> bool:
    """Whether *process* lives, and is *uid*'s; our own for who is no user here. Root speaks for everybody."""
    if identify(process.pid) != process:
        return False
    if uid == 0:
        return True
    try:
        return os.stat(f"/proc/{process.pid}").st_uid == (os.geteuid() if uid is None else uid)  # noqa: PTH116  # thousands at once: no Path for each
    except OSError:
        return False


def _read(path: Path | None) -> _Kept:
    """What an earlier broker kept; nothing when that is not there or makes no sense: holders say it again."""
    if path is None:
        return {}
    try:
        with path.open("rb") as file:
            return _DECODER.decode(file.read(_LONGEST_FILE))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return {}
