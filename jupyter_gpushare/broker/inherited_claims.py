"""Whose GPU processes are of which nobody speaks: those of a hub's server without our extension.

The hub gives every server that it starts the key of its claim, and programs inherit it (``GPUSHARE_CLAIM``). Where no
holder has ever spoken for such a lease, as from VS Code, RStudio or an image without us, a GPU process that belongs to
no lease and whose initial environment names that claim is the lease's: what it holds is neither foreign nor counted a
second time beside the grant.

An environment is the word of the user whose process it is, trusted as far as a holder's word under the same user (see
`roster`): whoever runs as the same user may name another's claim and have its own memory counted there. Different users
are protected from each other, the superuser's leases too: a process counts only for a lease of its own user. Only the
hub makes a claim of a server that starts, so nobody else's claim takes anybody in. Where the environment may not be
read, as of containers that run as another user, their memory is foreign as it was.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.devices.environment import inherited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from jupyter_gpushare.broker.roster import Roster
    from jupyter_gpushare.broker.sighting import Sighting
    from jupyter_gpushare.devices.environment import Word
    from jupyter_gpushare.devices.identity import Identity
    from jupyter_gpushare.rules.lease import Lease
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["CLAIM", "InheritedClaims", "read"]

#: The variable in which the hub tells a server under which key it claimed the server's lease.
CLAIM: Final = "GPUSHARE_CLAIM"
# A look must not take long, however many strangers come at once; those left over are read at the next ones.
_MOST_AT_ONCE: Final = 100


@dataclass(slots=True)
class _Known:
    """What a stranger said, and for which lease that was last put to the roster: once is enough."""

    word: Word
    tried: str = ""


def read(strangers: Iterable[Identity], proc: str = "/proc") -> dict[Identity, Word]:
    """What each of *strangers* says. Blocking; any thread may call."""
    return {each: inherited(each, CLAIM, proc) for each in strangers}


class InheritedClaims:
    """Remembers what strangers said while they are there, so that each is asked once. For one event loop.

    Args:
        roster: takes the processes of each lease.
        uid_of: the Unix user as whom a person's processes run; None for the broker's own.
    """

    def __init__(self, roster: Roster, uid_of: Callable[[str], int | None]) -> None:
        self._roster = roster
        self._uid_of = uid_of
        self._known: dict[Identity, _Known] = {}

    def unread(self, seen: Sighting, books: Snapshot) -> list[Identity]:
        """Which strangers are to be `read` now: none while every lease has, or had, a holder of its own."""
        there = frozenset().union(*seen.strangers.values())
        self._known = {each: known for each, known in self._known.items() if each in there}
        new = sorted(there - self._known.keys())
        return new[:_MOST_AT_ONCE] if new and _unspoken(books) else []

    def take(self, said: Mapping[Identity, Word], books: Snapshot) -> bool:
        """Give strangers to the leases that they name, those of before too; whether any lease has more by it."""
        self._known |= {each: _Known(word) for each, word in said.items()}
        leases = _unspoken(books) if any(known.word.value for known in self._known.values()) else {}
        found: dict[str, list[Identity]] = {}
        for each, known in self._known.items():
            lease = leases.get(known.word.value)
            if lease is not None and known.tried != lease.id:
                known.tried = lease.id
                found.setdefault(known.word.value, []).append(each)
        news = [self._give(leases[key], processes) for key, processes in found.items()]
        return any(news)

    def _give(self, lease: Lease, processes: Iterable[Identity]) -> bool:
        uid = self._uid_of(lease.person)
        # The roster lets root speak for everybody; here it is each process that speaks for itself.
        own = os.geteuid() if uid is None else uid
        return self._roster.join(lease.id, [each for each in processes if self._known[each].word.uid == own], uid)


def _unspoken(books: Snapshot) -> dict[str, Lease]:
    """By key, the leases that a hub claimed for a server and of which no holder has ever spoken.

    Only the hub says that a server starts; and a lease is held so until its holder's first hello.
    """
    granted = (books.leases[key] for key in books.unsettled)
    return {each.key: each for each in granted if each.grants and each.hold is not None and each.hold.is_starting}
