"""What came of it: GPU-hours by gap, waits of cells, losses."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from benchmarks.results import percentile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.replay.trace import Session

__all__ = ["COUNTINGS", "NOTICED_S", "Account", "Counting", "Gap", "Hours", "Waits"]

_HOUR_S: Final = 3600.0
#: A longer wait counts as one that its user notices.
NOTICED_S: Final = 2.0
#: Nights, and what the cutting of the trace merged, live in longer gaps.
_SHORT_GAP_S: Final = 8 * 3600.0

Counting = Literal["raw", "weighted", "gaps to 8 h"]
COUNTINGS: Final[tuple[Counting, ...]] = ("raw", "weighted", "gaps to 8 h")


@dataclass(slots=True)
class Gap:
    """One idle time of one session. *handed_back_s* is of the session; the others are GPU-seconds.

    Attributes:
        seconds: how long it would be if nothing ever waited.
        gpus: how many the session has.
        handed_back_s: from the attested release until its user wants it back.
        lent: what was on loan from it to jobs, their saving and parking after that moment included.
        good: what of that survived as computing: copies, starts, saves and lost steps are taken off.
    """

    seconds: float
    gpus: float
    handed_back_s: float = 0.0
    lent: float = 0.0
    good: float = 0.0


@dataclass(frozen=True, slots=True)
class Hours:
    """GPU-hours, counted in one way: *raw* counts each session as one GPU, *weighted* as many as it has.

    *gaps to 8 h* is raw and leaves out longer gaps, with all that was won in them.
    """

    reserved: float
    used: float
    idle: float
    handed_back: float
    lent: float
    good: float

    @property
    def handed_back_part(self) -> float:
        """Of the idle time."""
        return self.handed_back / self.idle if self.idle else 0.0

    @property
    def good_part(self) -> float:
        """Of what was lent."""
        return self.good / self.lent if self.lent else 0.0


@dataclass(frozen=True, slots=True)
class Waits:
    """How long cells waited beyond what they wait anyway."""

    executions: int
    noticed: int
    p50_s: float
    p95_s: float
    p99_s: float
    longest_s: float

    @property
    def noticed_part(self) -> float:
        """The part of all cells that waited noticeably."""
        return self.noticed / self.executions if self.executions else 0.0


@dataclass(slots=True)
class Account:
    """All that one run counts.

    Attributes:
        gaps: of every session, as they were.
        expected: (seconds, GPUs) of every gap, if nothing ever waited.
        reserved: (seconds from first to last cell, GPUs) of each session, if nothing ever waited.
        executions: how many cells ran.
        waits: of the cells that waited at all; the others waited for nothing.
        losses: every ending of a session's state that its user did not ask for, a sentence each.
        unfinished: sessions that had not ended when the run was over, a sentence each.
        parks: how often a session was parked.
        not_parked: how often that failed or was refused.
        job_gpu_s: GPU-seconds of jobs, outside loans too.
        late_starts: sessions that had no GPU when their first cell came.
    """

    gaps: list[Gap] = field(default_factory=list)
    expected: list[tuple[float, float]] = field(default_factory=list)
    reserved: list[tuple[float, float]] = field(default_factory=list)
    executions: int = 0
    waits: list[float] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    parks: int = 0
    not_parked: int = 0
    job_gpu_s: float = 0.0
    late_starts: int = 0

    def expect(self, session: Session, gpus: float) -> None:
        """Note what *session* comes to by itself."""
        self.reserved.append((session.ends_s - session.begins_s, gpus))
        self.expected += [(until - since, gpus) for since, until in session.gaps()]

    def hours(self, counting: Counting) -> Hours:
        """GPU-hours in that way of counting."""
        weighted, short = counting == "weighted", counting == "gaps to 8 h"
        gaps = [gap for gap in self.gaps if not short or gap.seconds <= _SHORT_GAP_S]
        expected = [(span, gpus if weighted else 1.0) for span, gpus in self.expected]
        everything = sum(span * (gpus if weighted else 1.0) for span, gpus in self.reserved)
        idle = sum(span * times for span, times in expected)
        counted = sum(span * times for span, times in expected if not short or span <= _SHORT_GAP_S)
        return Hours(
            reserved=(everything - idle + counted) / _HOUR_S,
            used=(everything - idle) / _HOUR_S,
            idle=counted / _HOUR_S,
            handed_back=sum(gap.handed_back_s * (gap.gpus if weighted else 1.0) for gap in gaps) / _HOUR_S,
            lent=sum(gap.lent / (1.0 if weighted else gap.gpus) for gap in gaps) / _HOUR_S,
            good=sum(gap.good / (1.0 if weighted else gap.gpus) for gap in gaps) / _HOUR_S,
        )

    def waited(self) -> Waits:
        """Of all cells, those that waited for nothing included."""
        everybody = _with_zeros(self.waits, self.executions)
        p50, p95, p99 = (percentile(everybody, per_cent) if everybody else 0.0 for per_cent in (50, 95, 99))
        noticed = sum(wait > NOTICED_S for wait in self.waits)
        return Waits(self.executions, noticed, p50, p95, p99, max(self.waits, default=0.0))


def _with_zeros(waits: Sequence[float], count: int) -> list[float]:
    return [0.0] * (count - len(waits)) + sorted(waits)
