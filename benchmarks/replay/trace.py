"""Notebook sessions: read from a trace of executions, and what they come to by themselves."""

from __future__ import annotations

import csv
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = ["Execution", "Session", "TraceError", "read_trace"]

_MINUTE_S: Final = 60.0
_COLUMNS: Final = ("num_gpu", "submit_time", "duration")


class TraceError(ValueError):
    """A file that is no trace. Names the line and the column, and what belongs there."""


@dataclass(frozen=True, slots=True)
class Execution:
    """One cell: when it is sent, and how long it computes; seconds."""

    submit_s: float
    duration_s: float


@dataclass(frozen=True, slots=True)
class Session:
    """One notebook server and the cells that it gets, in the order in which they are sent.

    Cells may overlap: a server has several kernels.
    """

    name: str
    gpus: int
    executions: tuple[Execution, ...]

    @property
    def begins_s(self) -> float:
        """When its first cell is sent."""
        return self.executions[0].submit_s

    @property
    def ends_s(self) -> float:
        """When its last cell would end if nothing ever waited."""
        return max(each.submit_s + each.duration_s for each in self.executions)

    def gaps(self) -> list[tuple[float, float]]:
        """When it is idle, between its first and its last cell, if nothing ever waits: from, until."""
        found = []
        busy_until = self.begins_s
        for each in self.executions:
            if each.submit_s > busy_until:
                found.append((busy_until, each.submit_s))
            busy_until = max(busy_until, each.submit_s + each.duration_s)
        return found


def read_trace(path: Path) -> list[Session]:
    """The sessions of a file in the input format of the Tiresias simulator, with times in whole minutes.

    The file does not say where a session ends. As its readers agreed, one ends where ``submit_time`` decreases, which
    merges some; ``num_gpu`` of a merged session is the largest of its rows.

    Raises:
        TraceError: a column is missing, or a value is no number that it could be.
    """
    with path.open(newline="") as file:
        rows = list(_rows(csv.DictReader(file)))
    if not rows:
        raise TraceError(f"{path.name}: no executions; give a file with one row for each")
    return [_session(f"s{number:04}", part) for number, part in enumerate(_cut(rows), 1)]


def _rows(reader: csv.DictReader[str]) -> Iterator[tuple[int, Execution]]:
    missing = [column for column in _COLUMNS if column not in (reader.fieldnames or ())]
    if missing:
        raise TraceError(f"column {missing[0]} is missing; a trace has {', '.join(_COLUMNS)}")
    for number, row in enumerate(reader, 2):
        gpus, submit, duration = (_whole(row, column, number) for column in _COLUMNS)
        if not 1 <= gpus <= 1024 or duration < 1:
            raise TraceError(f"line {number}: num_gpu and duration are at least 1, num_gpu at most 1024")
        yield gpus, Execution(submit * _MINUTE_S, duration * _MINUTE_S)


def _whole(row: dict[str, str], column: str, number: int) -> int:
    text = row[column] or ""
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise TraceError(f"line {number}: {column} is {text[:40]!r}; write whole minutes or GPUs")
    return int(text)


def _cut(rows: Sequence[tuple[int, Execution]]) -> list[list[tuple[int, Execution]]]:
    starts = [n for n, (one, other) in enumerate(itertools.pairwise(rows), 1) if other[1].submit_s < one[1].submit_s]
    return [list(rows[begin:end]) for begin, end in itertools.pairwise([0, *starts, len(rows)])]


def _session(name: str, rows: list[tuple[int, Execution]]) -> Session:
    return Session(name, max(gpus for gpus, _ in rows), tuple(execution for _, execution in rows))
