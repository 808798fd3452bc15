"""The figures of a replay as tables and plots, and each target beside what came out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from benchmarks.plot import Axis, Bars, Plot, Series
from benchmarks.replay.account import COUNTINGS, NOTICED_S
from benchmarks.results import Table, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.replay.run import Outcome

__all__ = ["Found", "figures", "named", "plots", "tables", "verdicts"]

_MOST_NOTICED: Final = 0.10
_LEAST_GOOD: Final = 0.85
#: Of raw idle GPU time, by the trace's name; 94 % for those not named here.
_LEAST_HANDED_BACK: Final = {"tiresias": 0.95}
_LEAST_HANDED_BACK_ELSEWHERE: Final = 0.94


@dataclass(frozen=True, slots=True)
class Found:
    """All runs over one trace: each policy, and the parking ones once more under bad luck."""

    trace: str
    plain: Sequence[Outcome]
    hostile: Sequence[Outcome]

    @property
    def ours(self) -> list[Outcome]:
        """Those that park by a timeout."""
        return [each for each in self.plain if each.policy.way == "park" and not each.policy.knows_gaps]


def named(found: Found) -> Outcome | None:
    """The run at the one timeout by which the targets are judged: the shortest with few enough noticed waits."""
    calm = [each for each in found.ours if each.account.waited().noticed_part <= _MOST_NOTICED]
    return min(calm, key=lambda each: each.policy.timeout_s, default=None)


def tables(found: Found) -> list[Table]:
    """GPU-hours in each way of counting; waits; what the bad luck did."""
    return [
        *(_hours(found, counting) for counting in COUNTINGS),
        _waits(f"{found.trace}: waits of cells", found.plain),
        _waits(f"{found.trace}: the same with 1 % failed parks and a tenth of the host memory", found.hostile),
    ]


def verdicts(found: Found) -> list[Verdict]:
    """The targets for this trace, at the one timeout that is named."""
    chosen = named(found)
    least = _LEAST_HANDED_BACK.get(found.trace, _LEAST_HANDED_BACK_ELSEWHERE)
    head = f"{found.trace}: at one timeout with at most {_MOST_NOTICED:.0%} of cells waiting over {NOTICED_S:g} s"
    if chosen is None:
        return [Verdict(head, "no timeout was tried that does it", met=False)]
    hours, waits = chosen.account.hours("raw"), chosen.account.waited()
    return [
        Verdict(head, f"{chosen.policy.minutes:g} min: {waits.noticed_part:.1%}", met=True),
        Verdict(
            f"{found.trace}: at least {least:.0%} of raw idle GPU time handed back there",
            f"{hours.handed_back_part:.2%}",
            hours.handed_back_part >= least,
        ),
        Verdict(
            f"{found.trace}: goodput at least {_LEAST_GOOD:.0%} of GPU-hours lent there",
            f"{hours.good_part:.1%}",
            hours.good_part >= _LEAST_GOOD,
        ),
        _losses(found),
    ]


def plots(found: Found) -> dict[str, str]:
    """SVG by the end of its name."""
    return {
        "frontier": _frontier(found).svg(),
        "waits": _wait_plot(found).svg(),
        "hours": _bars(found).svg(),
    }


def figures(found: Found) -> dict[str, Any]:
    """Everything, for a program."""
    return {"plain": [_figure(each) for each in found.plain], "hostile": [_figure(each) for each in found.hostile]}


def _figure(outcome: Outcome) -> dict[str, Any]:
    account = outcome.account
    return {
        "policy": outcome.policy,
        "hosts": outcome.hosts,
        "sessions": outcome.sessions,
        "hours": {counting: account.hours(counting) for counting in COUNTINGS},
        "waits": account.waited(),
        "parks": account.parks,
        "not_parked": account.not_parked,
        "late_starts": account.late_starts,
        "losses": len(account.losses),
        "unfinished": account.unfinished,
        "job_gpu_hours": account.job_gpu_s / 3600,
        "decisions": outcome.decisions,
        "decision_ms": outcome.decision_ms,
        "seconds": outcome.seconds,
    }


def _losses(found: Found) -> Verdict:
    runs = [*found.ours, *(each for each in found.hostile if not each.policy.knows_gaps)]
    lost = sum(len(each.account.losses) + len(each.account.unfinished) for each in runs)
    return Verdict(f"{found.trace}: no loss, with good and with bad luck", f"{lost} in {len(runs)} runs", lost == 0)


def _hours(found: Found, counting: str) -> Table:
    rows = []
    for each in found.plain:
        hours = each.account.hours(counting)  # type: ignore[arg-type]  # one of COUNTINGS
        amounts = (hours.reserved, hours.used, hours.idle, hours.handed_back)
        rows.append(
            [
                each.policy.name,
                *(f"{amount:,.0f}" for amount in amounts),
                f"{hours.handed_back_part:.1%}",
                f"{hours.lent:,.0f}",
                f"{hours.good:,.0f}",
                f"{hours.good_part:.1%}" if hours.lent else "none",
            ]
        )
    columns = ["policy", "reserved", "used", "idle", "handed back", "of idle", "lent", "goodput", "of lent"]
    return Table(f"{found.trace}: GPU-hours, {counting}", columns, rows, _NOTES[counting])


_NOTES: Final = {
    "raw": "Each session counts as one GPU. Handed back: from the attested release to the next cell.",
    "weighted": "Each session counts as many GPUs as it has.",
    "gaps to 8 h": "As raw, without longer gaps and what was won in them: nights, and sessions that the trace merges.",
}


def _waits(title: str, outcomes: Sequence[Outcome]) -> Table:
    rows = []
    for each in outcomes:
        account, waits = each.account, each.account.waited()
        rows.append(
            [
                each.policy.name,
                f"{waits.noticed_part:.2%}",
                *(f"{value:.1f}" for value in (waits.p50_s, waits.p95_s, waits.p99_s, waits.longest_s)),
                f"{account.parks:,}",
                f"{account.not_parked:,}",
                f"{len(account.losses):,}",
                f"{each.decision_ms[1]:.1f}",
            ]
        )
    columns = [
        "policy",
        f"over {NOTICED_S:g} s",
        "p50 s",
        "p95 s",
        "p99 s",
        "longest s",
        "parks",
        "not parked",
        "losses",
    ]
    return Table(title, [*columns, "decision p99 ms"], rows, "Of all cells, those that never wait included.")


def _frontier(found: Found) -> Plot:
    points = [(each, _frontier_point(each)) for each in found.plain if each.policy.way in ("park", "end")]
    most = max((x for _, (x, _) in points), default=10.0)
    plot = Plot(
        f"{found.trace}: idle GPU time handed back, and what it costs",
        Axis(f"cells that waited over {NOTICED_S:g} s, %", 0.0, max(5.0, most * 1.1)),
        Axis("raw idle GPU time handed back, %", 80.0, 100.0),
    )
    plot.series.append(_series("ours, by timeout", [each for each in points if _is_ours(each[0])]))
    oracle = [each for each in points if each[0].policy.knows_gaps and not each[0].policy.ahead_s]
    plot.series.append(_series("oracle, by gap", oracle, is_dashed=True))
    plot.series.append(_series("oracle, back in time", [each for each in points if each[0].policy.ahead_s]))
    plot.series.append(_series("idle culler (loses state)", [each for each in points if each[0].policy.way == "end"]))
    return plot


def _is_ours(outcome: Outcome) -> bool:
    return outcome.policy.way == "park" and not outcome.policy.knows_gaps


def _frontier_point(outcome: Outcome) -> tuple[float, float]:
    account = outcome.account
    return 100 * account.waited().noticed_part, 100 * account.hours("raw").handed_back_part


def _series(name: str, points: list[tuple[Outcome, tuple[float, float]]], *, is_dashed: bool = False) -> Series:
    labels = [f"{each.policy.minutes:g} min" for each, _ in points]
    return Series(name, [point for _, point in points], labels, is_dashed)


def _wait_plot(found: Found) -> Plot:
    ours = found.ours
    plot = Plot(
        f"{found.trace}: how long cells wait",
        Axis("timeout, min", 1.0, 100.0, is_log=True),
        Axis("wait, s", 0.0, max((each.account.waited().p99_s for each in ours), default=1.0) * 1.1 + 1.0),
    )
    for name in ("p50_s", "p95_s", "p99_s"):
        points = [(each.policy.minutes, float(getattr(each.account.waited(), name))) for each in ours]
        plot.series.append(Series(name.removesuffix("_s"), points))
    return plot


def _bars(found: Found) -> Bars:
    rows = []
    for each in found.plain:
        if not each.policy.knows_gaps:
            hours = each.account.hours("weighted")
            kept = max(0.0, hours.idle - hours.handed_back)
            training = min(hours.good, hours.handed_back)
            rows.append((each.policy.name, (hours.used, training, hours.handed_back - training, kept)))
    parts = ("used by cells", "goodput of training", "handed back, rest", "idle and kept")
    return Bars(f"{found.trace}: where reserved GPU-hours go", "GPU-hours, weighted", parts, rows)
