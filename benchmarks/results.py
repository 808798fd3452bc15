"""Tables of a benchmark: printed for people, kept as Markdown and JSON."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table as RichTable

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Report", "Table", "Verdict", "percentile", "spread"]

FOLDER: Final = Path(__file__).parent / "results"


def spread(values: Sequence[float], digits: int = 2) -> str:
    """The median and, in brackets, the lowest and the highest."""
    if not values:
        return "not measured"
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def percentile(values: Sequence[float], per_cent: int) -> float:
    """The smallest value that *per_cent* of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * per_cent // 100) - 1)]


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a heading and what has to be known to read it."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    note: str = ""

    def markdown(self) -> str:
        """As Markdown."""
        lines = [f"## {self.title}", "", _row(self.columns), _row(["---"] * len(self.columns))]
        return "\n".join([*lines, *map(_row, self.rows), "", *([self.note, ""] if self.note else [])])

    def show(self, console: Console) -> None:
        """On a terminal."""
        table = RichTable(*self.columns, title=self.title, caption=self.note or None, box=box.SIMPLE_HEAD)
        for row in self.rows:
            table.add_row(*row)
        console.print(table)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A target of this project, what was measured and whether that is in it; None when it was not measured."""

    target: str
    measured: str
    met: bool | None

    @property
    def word(self) -> str:
        """For the table."""
        return {True: "met", False: "MISSED", None: "not measured"}[self.met]


@dataclass(slots=True)
class Report:
    """All that one benchmark found."""

    name: str
    facts: dict[str, str]
    tables: list[Table] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)

    def show(self) -> None:
        """Print every table."""
        console = Console()
        for table in self._all_tables():
            table.show(console)

    def write(self, folder: Path = FOLDER) -> list[Path]:
        """Keep it in *folder* as Markdown and JSON, named after the day."""
        folder.mkdir(parents=True, exist_ok=True)
        stem = f"{self.name}-{time.strftime('%Y-%m-%d')}"
        page, data = folder / f"{stem}.md", folder / f"{stem}.json"
        heading = f"# {self.name.capitalize()}, {time.strftime('%Y-%m-%d')}\n"
        page.write_text("\n".join([heading, *(table.markdown() for table in self._all_tables())]).rstrip() + "\n")
        content = {"facts": self.facts, "verdicts": self.verdicts, "figures": self.figures}
        data.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")
        return [page, data]

    def _all_tables(self) -> list[Table]:
        verdicts = [[verdict.target, verdict.measured, verdict.word] for verdict in self.verdicts]
        return [
            *self.tables,
            Table("Targets", ["target", "measured", "verdict"], verdicts),
            Table("Measured on", ["what", "is"], [[key, value] for key, value in self.facts.items()]),
        ]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
