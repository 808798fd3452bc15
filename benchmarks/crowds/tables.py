"""What came of a crowd as tables, beside the targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.results import Table, Verdict, percentile

if TYPE_CHECKING:
    from benchmarks.crowds.classroom import Classroom, Lesson
    from benchmarks.crowds.monday import Monday, Morning
    from benchmarks.crowds.peaks import Peaks
    from benchmarks.replay.account import Account

__all__ = ["lesson_verdicts", "morning_verdicts", "table"]


def table(title: str, account: Account, peaks: Peaks) -> Table:
    """Waits and peaks."""
    waits = account.waited()
    late = sorted(account.waits) or [0.0]
    rows = [
        ["cells", f"{waits.executions:,}"],
        ["cells that waited over 2 s", f"{waits.noticed:,} ({waits.noticed_part:.1%})"],
        [
            "wait of all cells, p50 / p95 / p99 / longest",
            _seconds(waits.p50_s, waits.p95_s, waits.p99_s, waits.longest_s),
        ],
        ["wait of those that waited, p50 / p95", _seconds(percentile(late, 50), percentile(late, 95))],
        ["parks; not parked", f"{account.parks:,}; {account.not_parked:,}"],
        ["copies at once on a host, at most", str(peaks.most_copies)],
        ["saves at once on a host, at most", str(peaks.most_saves)],
        ["lost; not finished", f"{len(account.losses)}; {len(account.unfinished)}"],
    ]
    return Table(title, ["what", "came out"], rows)


def morning_verdicts(name: str, plan: Monday, found: Morning) -> list[Verdict]:
    """The targets of Monday at nine."""
    lost = len(found.account.losses) + len(found.account.unfinished)
    peaks = found.peaks
    return [
        Verdict(
            f"{name}: everything lent before", f"{found.lent:.1f} of {plan.devices} GPUs", found.lent >= plan.devices
        ),
        Verdict(f"{name}: none lost", f"{lost} of {plan.sessions}", lost == 0),
        _within(f"{name}: copies at once", peaks.most_copies, plan.copies),
        _within(f"{name}: saves at once", peaks.most_saves, plan.saves),
        Verdict(f"{name}: nine estimates in ten within 30 %", f"{found.near:.1%}", found.near >= 0.9),
    ]


def lesson_verdicts(plan: Classroom, found: Lesson) -> list[Verdict]:
    """The targets of the class."""
    lost = len(found.account.losses) + len(found.account.unfinished)
    admitted = found.admitted == plan.students and not found.refused
    return [
        Verdict("class: all admitted", f"{found.admitted} of {plan.students}", admitted),
        Verdict("class: none lost", f"{lost} of {plan.students}", lost == 0),
    ]


def _within(what: str, peak: int, most: int) -> Verdict:
    return Verdict(f"{what}: never above {most}", str(peak), peak <= most)


def _seconds(*values: float) -> str:
    return " / ".join(f"{value:.1f}" for value in values) + " s"
