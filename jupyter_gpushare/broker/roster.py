"""Which processes belong to which lease: what holders said, as far as the system confirms it.

It outlives the broker in a file beside its socket, which ends with the machine's uptime as processes do: a broker that
was killed must not take its holders' memory for foreign, nor a holder that does not come back for one that lives.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from jupyter_gpushare.devices.identity import Identity, identify, is_alive

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

__all__ = ["Roster"]

_Kept = dict[str, list[tuple[int, int]]]
_DECODER: Final = msgspec.json.Decoder(_Kept)
_LONGEST_FILE: Final = 64 << 20


class Roster:
    """The processes of every lease. For one thread; what `roots` gives is never changed again.

    Args:
        path: where it is kept; None keeps it in memory only.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._processes: dict[str, frozenset[Identity]] = {}
        self._owners: dict[Identity, str] = {}
        self._seen: dict[str, set[Identity]] = {}
        self._roots: Mapping[Identity, str] | None = None
        for lease, processes in _read(path).items():
            self._set(lease, frozenset(Identity(*each) for each in processes))
        self._written = self.roots()

    def put(self, lease: str, processes: Iterable[Identity], uid: int | None = None) -> None:
        """*lease* consists of *processes*, of which those count that live, are *uid*'s and no other lease's.

        Without a *uid* it is somebody who is no user of this machine, and whose processes run under the broker's own.

        What another lease has already is not taken from it: else one could have its memory counted as one's own.
        """
        before = self._processes.get(lease, frozenset())
        free = (each for each in processes if self._owners.get(each, lease) == lease)
        own = frozenset(each for each in free if each in before or _is_of(each, uid))
        if own != before:
            self._set(lease, own)

    def saw(self, lease: str, processes: Collection[Identity]) -> None:
        """*processes* of *lease*, or below it, were seen on a device."""
        self._seen.setdefault(lease, set()).update(processes)

    def forget(self, lease: str) -> None:
        """*lease* is over."""
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
        """The lease of each process that a holder named."""
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
