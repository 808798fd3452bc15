"""How projects stand against their quota, as far as a viewer may see it: the others together, without their names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.ledger import UsageHours
from jupyter_gpushare.hub.pages.wording import gpus, hours, number_of, plain
from jupyter_gpushare.quantity import Fraction
from jupyter_gpushare.rules.snapshot import ProjectBooks

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from jupyter_gpushare.hub.site import Viewer
    from jupyter_gpushare.rules.snapshot import Snapshot

__all__ = ["StandingRow", "rows_of", "total_hours"]

_WHOLE: Final = 100.0


@dataclass(frozen=True, slots=True)
class StandingRow:
    """One project, or several of others together. Widths are in per cent of the bar.

    Attributes:
        name: of the project; empty for the others together, of which there are *count*.
        use: "4.0 / 2".
        sessions_width: what its sessions have, running or parked.
        training_width: what its jobs have besides.
        mark: where its quota is; None where nothing bounds it or it lies outside.
        text: what the bar shows, in words.
        over: what it has above its quota; empty for nothing.
        waiting: claims in line; empty for none.
        held: GPU-hours, as are *handed_back*, *lent* and *computed*.
    """

    name: str
    count: int
    use: str
    sessions_width: float
    training_width: float
    mark: float | None
    text: str
    over: str
    waiting: str
    held: str
    handed_back: str
    lent: str
    computed: str


@dataclass(slots=True)
class _Sum:
    """What one or several projects come to, in millionths of a GPU. *quota* is None where nothing bounds it."""

    count: int = 0
    sessions: int = 0
    counted: int = 0
    lent: int = 0
    quota: int | None = 0
    waiting: int = 0
    hours: UsageHours = field(default_factory=lambda: UsageHours(0, "", ""))

    def add(self, quota: Fraction, books: ProjectBooks, used: UsageHours | None) -> None:
        """One more project."""
        self.count += 1
        self.sessions += books.sessions.millionths
        self.counted += books.counted.millionths
        self.lent += books.lent.millionths
        self.quota = None if quota.is_unlimited or self.quota is None else self.quota + quota.millionths
        self.waiting += books.waiting
        if used is not None:
            mine = self.hours
            self.hours = UsageHours(
                0,
                "",
                "",
                mine.held + used.held,
                mine.handed_back + used.handed_back,
                mine.lent + used.lent,
                mine.computed + used.computed,
            )


def rows_of(books: Snapshot, used: Mapping[str, UsageHours], viewer: Viewer) -> list[StandingRow]:
    """A row for each project that *viewer* sees, by name, and one for all others; *used* is GPU-hours by project."""
    seen: list[tuple[str, _Sum]] = []
    others = _Sum()
    for name, project in sorted(books.projects.items()):
        total = _Sum() if viewer.sees_project(name) else others
        total.add(project.quota, books.project_books.get(name, ProjectBooks()), used.get(name))
        if total is not others:
            seen.append((name, total))
    everybody = [*seen, *([("", others)] if others.count else [])]
    scale = max([1, *(_reach(total) for _, total in everybody)])
    return [_row(name, total, scale) for name, total in everybody]


def _reach(total: _Sum) -> int:
    return max(total.counted + total.lent, total.quota or 0)


def _row(name: str, total: _Sum, scale: int) -> StandingRow:
    sessions = min(total.sessions, total.counted)
    training = total.counted - sessions
    quota = Fraction.UNLIMITED if total.quota is None else Fraction(total.quota)
    over = Fraction.ZERO if quota.is_unlimited else Fraction(max(0, total.counted - quota.millionths))
    said = [f"notebooks {gpus(Fraction(sessions))}", f"training {gpus(Fraction(training))}", f"quota {plain(quota)}"]
    return StandingRow(
        name=name,
        count=total.count,
        use=f"{gpus(Fraction(total.counted))} / {plain(quota)}",
        sessions_width=_WHOLE * sessions / scale,
        training_width=_WHOLE * training / scale,
        mark=None if total.quota is None else _WHOLE * total.quota / scale,
        text=", ".join(said),
        over=f"{gpus(over)} GPU" if over else "",
        waiting=number_of(total.waiting, "claim") if total.waiting else "",
        **_hours(total.hours),
    )


def _hours(used: UsageHours) -> dict[str, str]:
    return {name: hours(getattr(used, name)) for name in ("held", "handed_back", "lent", "computed")}


def total_hours(used: Iterable[UsageHours]) -> tuple[float, float, float]:
    """GPU-hours handed back, lent and computed, of all together."""
    listed: Sequence[UsageHours] = list(used)
    return (
        sum(each.handed_back for each in listed),
        sum(each.lent for each in listed),
        sum(each.computed for each in listed),
    )
