"""The figures as a table, and each target beside what was measured."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Final

from benchmarks.results import Table, Verdict, spread

if TYPE_CHECKING:
    from benchmarks.latency.rounds import Path, Round

__all__ = ["tables", "verdicts"]

_LENT_S: Final = 3.0
_BACK_S: Final = 2.0
_NOTE: Final = (
    "Median (lowest to highest), in seconds. Lent: from the notebook's idle timeout, its copy to host memory included, "
    "to the first step that the job writes. Back: from sending a cell to its result. The copies are the bytes over the "
    "simulated machine's rate: of a real device they say nothing. Every fourth round begins with a new job; a round "
    "waits for the end of the job's back-off first."
)


def tables(found: dict[Path, list[Round]]) -> list[Table]:
    """Everything measured."""
    rows = [
        [
            path.name,
            str(len(rounds)),
            spread([each.lent_s for each in rounds]),
            spread([each.back_s for each in rounds]),
            spread([each.notebook_copy_s for each in rounds]),
            spread([each.job_copy_s for each in rounds]),
            "" if path.grace_s is None else f"{path.grace_s:.0f}",
        ]
        for path, rounds in found.items()
    ]
    columns = ["the job", "rounds", "lent", "back", "notebook copied", "job copied", "grace"]
    return [Table("A share that is lent and called back", columns, rows, _NOTE)]


def verdicts(found: dict[Path, list[Round]]) -> list[Verdict]:
    """Each target, for the medians."""
    return [verdict for path, rounds in found.items() for verdict in (_lent(path, rounds), _back(path, rounds))]


def _lent(path: Path, rounds: list[Round]) -> Verdict:
    median = statistics.median(each.lent_s for each in rounds)
    return Verdict(
        f"timeout to training running, {path.name}: at most {_LENT_S:g} s", f"{median:.2f} s", median <= _LENT_S
    )


def _back(path: Path, rounds: list[Round]) -> Verdict:
    median = statistics.median(each.back_s for each in rounds)
    allowed = statistics.median(_allowed(path, each) for each in rounds)
    words = "the two copies" if path.is_copied else "its copy and the job's grace" if path.grace_s else "its copy"
    target = f"cell to result, {path.name}: at most {_BACK_S:g} s and {words}, {allowed:.2f} s"
    return Verdict(target, f"{median:.2f} s", median <= allowed)


def _allowed(path: Path, each: Round) -> float:
    return _BACK_S + each.notebook_copy_s + each.job_copy_s + (path.grace_s or 0.0)
