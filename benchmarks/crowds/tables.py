"""What came of a crowd as tables, one column for each seed, beside the targets."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from benchmarks.results import Table, Verdict, percentile

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.crowds.classroom import Classroom, Lesson
    from benchmarks.crowds.monday import Monday, Morning
    from benchmarks.crowds.peaks import Peaks
    from benchmarks.replay.account import Account

__all__ = ["lesson_table", "lesson_verdicts", "morning_table", "morning_verdicts"]

_T = TypeVar("_T")
_JUDGED = (
    "An estimate is judged as it was first shown, with the commit that took the wish to come back, against the whole "
    "wait from then. The broker learned all speeds and saves by watching, and was told none."
)


def morning_table(title: str, found: Mapping[int, Morning]) -> Table:
    """Waits, peaks and estimates of each seed."""
    mornings = list(found.values())
    rows = [
        *_waits([each.account for each in mornings]),
        *_at_once([each.peaks for each in mornings]),
        _row("estimates within 30 %", mornings, lambda each: f"{each.near:.1%}"),
        _row("estimates: told less / more by over 30 %", mornings, _off),
        _row("sessions without an estimate", mornings, lambda each: str(each.unknown)),
        _row("took of told, p5 / p50 / p95", mornings, _took_of_told),
    ]
    return Table(title, ["what", *(f"seed {seed}" for seed in found)], rows, note=_JUDGED)


def lesson_table(found: Lesson) -> Table:
    """Waits and peaks of the class."""
    return Table("the class", ["what", "came out"], [*_waits([found.account]), *_at_once([found.peaks])])


def morning_verdicts(name: str, plan: Monday, found: Sequence[Morning]) -> list[Verdict]:
    """The targets of Monday at nine, over all seeds."""
    lost = sum(len(each.account.losses) + len(each.account.unfinished) for each in found)
    lent = min(each.lent for each in found)
    near, worst = sum(each.near for each in found) / len(found), min(each.near for each in found)
    return [
        Verdict(f"{name}: everything lent before", f"{lent:.1f} of {plan.devices} GPUs", lent >= plan.devices),
        Verdict(f"{name}: none lost", f"{lost} of {plan.sessions * len(found)}", lost == 0),
        _within(f"{name}: copies at once", max(each.peaks.most_copies for each in found), plan.copies),
        _within(f"{name}: saves at once", max(each.peaks.most_saves for each in found), plan.saves),
        Verdict(f"{name}: nine estimates in ten within 30 %", f"{near:.1%} (worst seed {worst:.1%})", near >= 0.9),
    ]


def lesson_verdicts(plan: Classroom, found: Lesson) -> list[Verdict]:
    """The targets of the class."""
    lost = len(found.account.losses) + len(found.account.unfinished)
    admitted = found.admitted == plan.students and not found.refused
    return [
        Verdict("class: all admitted", f"{found.admitted} of {plan.students}", admitted),
        Verdict("class: none lost", f"{lost} of {plan.students}", lost == 0),
    ]


def _waits(accounts: Sequence[Account]) -> list[list[str]]:
    return [
        _row("cells", accounts, lambda each: f"{each.executions:,}"),
        _row("cells that waited over 2 s", accounts, _noticed),
        _row("wait of all cells, p50 / p95 / p99 / longest", accounts, _all_waits),
        _row("wait of those that waited, p50 / p95", accounts, _late_waits),
        _row("parks; not parked", accounts, lambda each: f"{each.parks:,}; {each.not_parked:,}"),
        _row("lost; not finished", accounts, lambda each: f"{len(each.losses)}; {len(each.unfinished)}"),
    ]


def _at_once(peaks: Sequence[Peaks]) -> list[list[str]]:
    return [
        _row("copies at once on a host, at most", peaks, lambda each: str(each.most_copies)),
        _row("saves at once on a host, at most", peaks, lambda each: str(each.most_saves)),
    ]


def _row(what: str, each_of: Sequence[_T], show: Callable[[_T], str]) -> list[str]:
    return [what, *map(show, each_of)]


def _noticed(account: Account) -> str:
    waits = account.waited()
    return f"{waits.noticed:,} ({waits.noticed_part:.1%})"


def _all_waits(account: Account) -> str:
    waits = account.waited()
    return _seconds(waits.p50_s, waits.p95_s, waits.p99_s, waits.longest_s)


def _late_waits(account: Account) -> str:
    late = account.waits or [0.0]
    return _seconds(percentile(late, 50), percentile(late, 95))


def _off(morning: Morning) -> str:
    less = sum(told < 0.7 * took for told, took in morning.shown)
    more = sum(told > 1.3 * took for told, took in morning.shown)
    return f"{less} / {more}"


def _took_of_told(morning: Morning) -> str:
    ratios = [took / told for told, took in morning.shown if told > 0] or [0.0]
    return " / ".join(f"{percentile(ratios, part):.2f}" for part in (5, 50, 95))


def _within(what: str, peak: int, most: int) -> Verdict:
    return Verdict(f"{what}: never above {most}", str(peak), peak <= most)


def _seconds(*values: float) -> str:
    return " / ".join(f"{value:.1f}" for value in values) + " s"
