"""Where the books are kept. One contract, tested by one suite, whatever stands behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_gpushare.rules.change import Change, Entry
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["Ledger", "LedgerError", "NotLeaderError", "Recorded", "UsageHours"]


class LedgerError(Exception):
    """The ledger cannot be used now: locked, full, gone, damaged. Says which, where, and what to do."""


class NotLeaderError(LedgerError):
    """Another broker has taken this ledger over. This one must stop: it decides nothing any more."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A line of the audit with its number, which grows."""

    number: int
    entry: Entry


@dataclass(frozen=True, slots=True)
class UsageHours:
    """GPU-hours of one person in one project in one hour (*hour*: seconds since the epoch, rounded down)."""

    hour: int
    project: str
    person: str
    held: float = 0.0
    handed_back: float = 0.0
    lent: float = 0.0
    computed: float = 0.0


class Ledger(Protocol):
    """Every method may block: call it in a thread. For one writer; a second one that takes over fences off the first.

    Every method raises LedgerError when the ledger cannot be used, and nothing is half-done then.
    """

    def take_over(self, incarnation: str) -> None:
        """Be the one writer from now on. Whoever was it before gets NotLeaderError."""

    def load(self) -> Snapshot:
        """The books as they were committed last."""

    def commit(self, change: Change) -> None:
        """Keep the whole of *change*, durably, or nothing of it.

        Raises:
            NotLeaderError: another writer has taken over.
            LedgerError: it breaks what the ledger itself guards (one live lease per id and holder, one restore per
                device at a time, no negative amounts), or the ledger cannot be used.
        """

    def audit(self, *, after: int = 0, limit: int = 1000, where: Mapping[str, str] | None = None) -> Sequence[Recorded]:
        """Lines with a number above *after*, oldest first; *where* wants columns to be equal."""

    def add_usage(self, usage: Sequence[UsageHours]) -> None:
        """Add to what each hour, project and person has already."""

    def usage(self, *, since: float, until: float) -> Sequence[UsageHours]:
        """What was used in the hours that begin in that time."""

    def close(self) -> None:
        """Let go of it."""
