"""Where the books are kept. One contract, tested by one suite, whatever stands behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from jupyter_gpushare.broker.ledger_records import Ask, AskState, Idle, Membership, Moment
    from jupyter_gpushare.rules.change import Change, Entry
    from jupyter_gpushare.rules.pace import Pace
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["AUDIT_COLUMNS", "EVER", "ConflictError", "Ledger", "LedgerError", "NotLeaderError", "Recorded", "Span"]
__all__ += ["UsageHours"]

#: What the audit can be searched by.
AUDIT_COLUMNS: Final = frozenset({"verb", "lease", "project", "person", "reason", "because_of", "by"})


class LedgerError(Exception):
    """The ledger cannot be used now: locked, full, gone, damaged. Says which, where, and what to do."""


class NotLeaderError(LedgerError):
    """Another broker has taken this ledger over. This one must stop: it decides nothing any more."""


class ConflictError(LedgerError):
    """The change breaks what the ledger itself guards. Nothing of it was kept, and trying it again is no use."""


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


@dataclass(frozen=True, slots=True)
class Span:
    """A part of the audit, and the order to read it in.

    Attributes:
        newest_first: the newest line first; else the oldest.
        before: lines with a smaller number only.
        since: lines of then or later; *until*: lines of before then.
    """

    newest_first: bool = False
    before: int | None = None
    since: float | None = None
    until: float | None = None

    def holds(self, line: Recorded) -> bool:
        """Whether *line* is in it."""
        at = line.entry.at
        return (
            (self.before is None or line.number < self.before)
            and (self.since is None or at >= self.since)
            and (self.until is None or at < self.until)
        )


EVER: Final = Span()


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
            ConflictError: it breaks what the ledger itself guards: one live lease for each id, and for each person and
                key; one restore on each device at a time; no epoch that goes back; no amount below zero; no time that
                is no number; no text that a database cannot hold.
            LedgerError: the ledger cannot be used. Trying the same again, alone or before later changes, does no harm:
                should it have been kept after all, it is not kept twice.
        """

    def audit(
        self,
        *,
        after: int = 0,
        limit: int = 1000,
        where: Mapping[str, str] | None = None,
        span: Span = EVER,
        projects: Collection[str] | None = None,
    ) -> Sequence[Recorded]:
        """Lines with a number above *after*; *where* wants some of `AUDIT_COLUMNS` to be equal.

        They are the first *limit* lines in the order of *span*. With *projects*, only lines of these.

        Raises:
            ValueError: *where* names something else.
        """

    def prune_audit(self, before: float) -> int:
        """Forget the lines that are older than *before*, for good; how many. Younger ones stay protected.

        Raises:
            NotLeaderError: another writer has taken over.
        """

    def add_usage(self, usage: Sequence[UsageHours]) -> None:
        """Add to what each hour, project and person has already.

        Raises:
            NotLeaderError: another writer has taken over.
        """

    def usage(self, *, since: float, until: float) -> Sequence[UsageHours]:
        """What was used in the hours that begin in that time."""

    def usage_of_projects(self, *, since: float, until: float) -> Sequence[UsageHours]:
        """The same, summed up: one for each project, with its first hour and no person."""

    def keep_paces(self, paces: Mapping[str, Pace]) -> None:
        """Keep how fast these hosts are, by name, in place of what was kept of them.

        Raises:
            NotLeaderError: another writer has taken over.
        """

    def paces(self) -> Mapping[str, Pace]:
        """How fast hosts were, as was kept last, by name."""

    def keep_memberships(self, memberships: Mapping[str, Membership]) -> None:
        """Keep the groups of these people, by name, in place of what was kept of them.

        Raises:
            NotLeaderError: another writer has taken over.
        """

    def memberships(self) -> Mapping[str, Membership]:
        """The groups of people, by name."""

    def add_ask(self, ask: Ask) -> Ask:
        """Keep an ask, with the number that it gets.

        Raises:
            NotLeaderError: another writer has taken over.
            ConflictError: the same person has one open for the same thing of the same project.
        """

    def decide_ask(self, decided: Ask) -> bool:
        """Keep how the ask of that number was decided; whether it was open until now: else nothing is changed.

        Raises:
            NotLeaderError: another writer has taken over.
        """

    def asks(self, *, number: int | None = None, state: AskState | None = None, limit: int = 1000) -> Sequence[Ask]:
        """The newest asks, newest first; those with that number or in that state."""

    def add_past(self, moments: Sequence[Moment], idles: Sequence[Idle]) -> None:
        """Add to what each moment, and each hour, project and pool, has already.

        Raises:
            NotLeaderError: another writer has taken over.
        """

    def moments(self, *, since: float) -> Sequence[Moment]:
        """What the GPUs did in the moments that begin then or later, oldest first."""

    def idles(self, *, since: float) -> Sequence[Idle]:
        """What ran idle in the hours that begin then or later: one for each project and pool, with its first hour."""

    def prune_past(self, *, moments: float, idles: float) -> None:
        """Forget moments, and idle hours, that began before then.

        Raises:
            NotLeaderError: another writer has taken over.
        """

    def close(self) -> None:
        """Let go of it."""
