"""When an idle kernel is parked by itself. Pure: the clock is passed in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from jupyter_gpushare.session.idle.evidence import Activity
from jupyter_gpushare.session.idle.table import first_veto, idle_since

if TYPE_CHECKING:
    from jupyter_gpushare.session.idle.evidence import Evidence
    from jupyter_gpushare.session.wire import PolicyModel

__all__ = ["Active", "BusyButQuiet", "FixedTimeout", "Idle", "IdlePolicy", "Judgement", "Kept"]


@dataclass(frozen=True, slots=True)
class Active:
    """It is used, or may be: *why* says what speaks for it."""

    why: Activity


@dataclass(frozen=True, slots=True)
class BusyButQuiet:
    """A cell runs, yet its GPU has done nothing *since*: it may wait for input, sleep, or sit in a debugger."""

    since: float


@dataclass(frozen=True, slots=True)
class Kept:
    """It is idle, and its owner keeps it *until* then."""

    until: float


@dataclass(frozen=True, slots=True)
class Idle:
    """All evidence says idle *since* then. It is parked at *parks_at* and people are warned from *warns_at* on.

    Both are None where it is never parked by itself.
    """

    since: float
    parks_at: float | None = None
    warns_at: float | None = None


Judgement = Active | BusyButQuiet | Kept | Idle


class IdlePolicy(Protocol):
    """Decides for one kernel. No I/O, and the same answer for the same arguments."""

    def judge(self, evidence: Evidence, policy: PolicyModel, now: float) -> Judgement:
        """What *evidence* means under *policy* at *now* (seconds since the epoch)."""


@dataclass(frozen=True, slots=True)
class FixedTimeout:
    """Parks what has been idle for the policy's timeout. A cell that runs is never parked, however quiet its GPU.

    Attributes:
        warning_s: how long before parking people are warned; at most the timeout itself.
        busy_quiet_s: how long the GPU may be quiet under a running cell before that is told.
    """

    warning_s: float = 300.0
    busy_quiet_s: float = 900.0

    def judge(self, evidence: Evidence, policy: PolicyModel, now: float) -> Judgement:
        """What *evidence* means under *policy* at *now*."""
        veto = first_veto(evidence, policy, now)
        if veto is Activity.CELL_RUNNING:
            return self._judge_running(evidence, now)
        if veto is Activity.KEPT and evidence.kept_until is not None:
            return Kept(evidence.kept_until)
        if veto is not None:
            return Active(veto)
        return self._count_down(idle_since(evidence, policy), policy.idle_timeout_s)

    def _judge_running(self, evidence: Evidence, now: float) -> Judgement:
        began, quiet = evidence.cell_began, evidence.gpu.quiet_since
        if began is None or quiet is None or now - max(began, quiet) < self.busy_quiet_s:
            return Active(Activity.CELL_RUNNING)
        return BusyButQuiet(max(began, quiet))

    def _count_down(self, since: float, timeout_s: float | None) -> Idle:
        if timeout_s is None:
            return Idle(since)
        parks_at = since + timeout_s
        return Idle(since, parks_at, parks_at - min(self.warning_s, timeout_s))
