"""What became of one person's leases, and what they cost in GPU-hours: told by the lines of the audit alone. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.change import Verb

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jupyter_gpushare.rules.change import Entry

__all__ = ["Story", "stories_of"]

_HOUR_S: Final = 3600.0
_THERE: Final = frozenset({Verb.GRANTED, Verb.STARTED, Verb.RESUMING, Verb.RESUMED})
_GONE: Final = frozenset({Verb.YIELDED, Verb.REQUEUED})
_OVER: Final = frozenset({Verb.ENDED, Verb.FAILED})


@dataclass(slots=True)
class Story:
    """One lease, from the first line about it.

    Attributes:
        began: seconds since the epoch, as is *ended*, which is None while it goes on.
        share: as it was asked for; empty where the line that says it is not among these.
        held: GPU-hours on the GPU, without what was lent to it.
        handed_back: GPU-hours kept for it while it was parked.
        parks: how often it was parked.
        has_failed: whether it ended by a failure.
        reason: the constant of why it failed or was refused; empty for none.
    """

    lease: str
    project: str
    began: float
    share: str = ""
    ended: float | None = None
    held: float = 0.0
    handed_back: float = 0.0
    parks: int = 0
    has_failed: bool = False
    reason: str = ""
    _since: float = 0.0
    _amount: int = 0
    _where: str = ""

    def take(self, entry: Entry) -> None:
        """Go on to *entry*."""
        self._count(entry.at)
        if entry.verb is Verb.SUBMITTED:
            self.share = entry.details.get("share", "")
        if entry.verb in _THERE or (entry.verb is Verb.SHARE_CHANGED and self._where):
            self._amount = _amount(entry)
        if entry.verb in _THERE:
            self._where = "there"
        elif entry.verb is Verb.PARKED:
            # A parked job keeps no promise, and so hands nothing back.
            self._where, self.parks = "parked", self.parks + 1
        elif entry.verb in _GONE:
            self._where = ""
        elif entry.verb in _OVER and "asked" not in entry.details:
            self._where, self.ended, self.has_failed = "", entry.at, entry.verb is Verb.FAILED
            self.reason = "" if entry.reason is None else entry.reason.value
        elif entry.verb is Verb.REFUSED and not self._where:
            self.ended, self.has_failed = entry.at, True
            self.reason = "" if entry.reason is None else entry.reason.value

    def until(self, now: float) -> None:
        """Count up to *now*."""
        if self.ended is None:
            self._count(now)

    def _count(self, at: float) -> None:
        hours = max(0.0, at - self._since) * self._amount / Fraction.PER_GPU / _HOUR_S
        if self._where == "there":
            self.held += hours
        elif self._where == "parked":
            self.handed_back += hours
        self._since = at


def stories_of(entries: Iterable[Entry], now: float) -> list[Story]:
    """The leases that *entries*, oldest first, tell of, newest first."""
    found: dict[str, Story] = {}
    for entry in entries:
        if entry.lease:
            found.setdefault(entry.lease, Story(entry.lease, entry.project, entry.at, _since=entry.at)).take(entry)
    for story in found.values():
        story.until(now)
    return sorted(found.values(), key=lambda story: (-story.began, story.lease))


def _amount(entry: Entry) -> int:
    if entry.amount is None:
        return 0
    return entry.amount.millionths - (0 if entry.lent is None else entry.lent.millionths)
