"""Reads one table of a file, key by key: what is wrong is collected, so that all of it is told at once."""

from __future__ import annotations

import difflib
import json
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeVar

from jupyter_gpushare.quantity import Fraction, Memory, QuantityError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Problem", "TableReader", "WrongValueError", "choice", "duration", "flag", "gpus", "memory", "names"]
__all__ += ["names_in", "whole"]

_Value = TypeVar("_Value")

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)
_DURATION: Final = re.compile(r"(?:(\d{1,5})d)?(?:(\d{1,5})h)?(?:(\d{1,5})m)?(?:(\d{1,7}(?:\.\d{1,3})?)s)?", re.ASCII)
_UNITS_S: Final = (86400, 3600, 60, 1)
_LONGEST_NAME: Final = 200
_LONGEST_SHOWN: Final = 60


class WrongValueError(ValueError):
    """A value that cannot be. Says what the *problem* is and shows a right *example*, as it is written in the file."""

    def __init__(self, problem: str, example: str) -> None:
        super().__init__(f"{problem}; write for example {example}")
        self.problem, self.example = problem, example


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: in which *table*, at which *key*, and a right *example* if there is one."""

    table: str
    key: str
    problem: str
    example: str

    def __str__(self) -> str:
        place = " ".join(filter(None, (f"[{self.table}]" if self.table else "", self.key)))
        shown = f"{self.key} = {self.example}" if self.key and self.example else self.example
        return f"{place or 'the file'}: {self.problem}" + (f"; write for example {shown}" if shown else "")


class TableReader:
    """One table. Every key is asked for once; `finish` then names those that nobody asked for."""

    def __init__(self, path: str, table: object, problems: list[Problem]) -> None:
        self.path, self.problems = path, problems
        self._asked: list[str] = []
        self._table: dict[str, Any] = table if isinstance(table, dict) else {}
        if not isinstance(table, dict):
            problems.append(Problem(path, "", f"{_shown(table)} is not a table", f"[{path}]"))

    def take(self, key: str, read: Callable[[Any], _Value], default: _Value) -> _Value:
        """The value of *key*, or *default* if it is missing or wrong."""
        self._asked.append(key)
        if key not in self._table:
            return default
        try:
            return read(self._table[key])
        except WrongValueError as error:
            self.wrong(key, error.problem, error.example)
            return default

    def has(self, key: str) -> bool:
        """Whether the file says something of *key*."""
        return key in self._table

    def table(self, key: str) -> TableReader:
        """The table under *key*; an empty one if it is missing."""
        self._asked.append(key)
        return TableReader(".".join(filter(None, (self.path, _quoted(key)))), self._table.get(key, {}), self.problems)

    def tables(self, key: str, *, is_glob: bool = False) -> Iterable[tuple[str, TableReader]]:
        """The tables under *key*, by their names; with *is_glob* these are patterns."""
        under = self.table(key)
        for name in under.names():
            table = under.table(name)
            if is_glob or _NAME.fullmatch(name):
                yield name, table
            else:
                table.wrong("", "a name has letters, digits, dots, dashes and at most 63 of them", f"[{key}.team-a]")

    def names(self) -> list[str]:
        """All keys."""
        return list(self._table)

    def wrong(self, key: str, problem: str, example: str) -> None:
        """Note something that is wrong."""
        self.problems.append(Problem(self.path, key, problem, example))

    def finish(self) -> None:
        """Note every key that nobody asked for, with the one that was perhaps meant."""
        for key in self._table:
            if key not in self._asked:
                near = difflib.get_close_matches(key, self._asked, 1)
                meant = f"perhaps {near[0]} is meant" if near else f"known are {', '.join(sorted(self._asked))}"
                self.problems.append(Problem(self.path, _quoted(key), f"is unknown; {meant}", ""))


def gpus(value: object) -> Fraction:
    """An amount of GPUs: ``4``, ``0.5``, ``"unlimited"``."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal | str):
        raise WrongValueError(f"{_shown(value)} is no amount of GPUs", '2.5, or "unlimited"')
    try:
        return Fraction.parse(format(value, "f") if isinstance(value, Decimal) else str(value))
    except QuantityError as error:
        raise WrongValueError(error.problem.replace("'", ""), '2.5, or "unlimited"') from None


def memory(value: object) -> Memory:
    """An amount of memory: ``"64GiB"``, ``"unlimited"``."""
    if not isinstance(value, str):
        raise WrongValueError(f"{_shown(value)} has no unit", '"64GiB"')
    try:
        return Memory.parse(value)
    except QuantityError as error:
        raise WrongValueError(error.problem, '"64GiB"') from None


def duration(value: object) -> float:
    """Seconds of ``"90s"``, ``"10m"``, ``"1h30m"``, ``"2d"``."""
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        raise WrongValueError(f"{_shown(value)} has no unit", f'"{value}s"' if value >= 0 else '"10m"')
    match = _DURATION.fullmatch(value) if isinstance(value, str) and value else None
    if match is None:
        raise WrongValueError(f"{_shown(value)} is no duration", '"10m" or "1h30m"')
    return sum(float(number) * unit for number, unit in zip(match.groups(), _UNITS_S, strict=True) if number)


def whole(least: int, most: int) -> Callable[[object], int]:
    """A reader of whole numbers from *least* to *most*."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise WrongValueError(f"{_shown(value)} is no whole number from {least} to {most}", str(max(least, 2)))
        return value

    return read


def flag(value: object) -> bool:
    """``true`` or ``false``."""
    if not isinstance(value, bool):
        raise WrongValueError(f"{_shown(value)} is neither true nor false", "true")
    return value


def choice(*known: _Value) -> Callable[[object], _Value]:
    """A reader of one of *known*."""

    def read(value: object) -> _Value:
        for each in known:
            if value == each:
                return each
        raise WrongValueError(f"{_shown(value)} is none of {', '.join(map(str, known))}", f'"{known[0]}"')

    return read


def names(value: object) -> frozenset[str]:
    """Names of people: ``["alice", "bob"]``."""
    return frozenset(names_in(value, '["alice", "bob"]'))


def names_in(value: object, example: str) -> tuple[str, ...]:
    """A list of names, in its order."""
    if not isinstance(value, list):
        raise WrongValueError(f"{_shown(value)} is no list", example)
    for each in value:
        if not isinstance(each, str) or not 0 < len(each) <= _LONGEST_NAME or not each.isprintable():
            raise WrongValueError(f"{_shown(each)} is no name", example)
    return tuple(value)


def _shown(value: object) -> str:
    text = repr(str(value) if isinstance(value, Decimal) else value)
    if isinstance(value, Decimal):
        text = text.strip("'")
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"


def _quoted(key: str) -> str:
    """A key as it is written in the file; a long one is cut."""
    return key if _NAME.fullmatch(key) or key.isidentifier() else json.dumps(key[:_LONGEST_SHOWN])
