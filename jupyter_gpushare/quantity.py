"""Amounts of GPU and of memory: integers inside, exact and comparable.

Shares are added, compared and subtracted like money, so no float takes part: a fraction of a GPU is
counted in millionths, memory in bytes. ``UNLIMITED`` is a value of its own and saturates, so that no
``-1`` or ``None`` has to stand for infinity.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar, Final, Self

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Fraction", "Memory", "Quantity", "QuantityError"]

# Far above any sum of real amounts (2**62 bytes are 4 EiB), and still one machine word.
_CEILING: Final = 1 << 62
_PLAIN: Final = re.compile(r"[1-9][0-9]{0,5}", re.ASCII)
# Nineteen digits write the largest number of bytes below the ceiling.
_DECIMAL: Final = re.compile(r"([0-9]{1,19})(?:\.([0-9]{1,9}))?", re.ASCII)


class QuantityError(ValueError):
    """Text that is not an amount. Says what the *problem* is and shows a right *example*."""

    def __init__(self, problem: str, example: str) -> None:
        super().__init__(f"{problem}; write for example {example}")
        self.problem = problem
        self.example = example


class Quantity:
    """An exact amount of one unit. Amounts of different units never mix.

    ``+`` and ``-`` saturate at ``UNLIMITED``; differences may be negative, because a project can hold
    more than it now deserves.
    """

    __slots__ = ("_n",)

    ZERO: ClassVar[Self]
    UNLIMITED: ClassVar[Self]

    _n: int

    def __init__(self, n: int) -> None:
        if type(n) is not int:
            raise TypeError(f"{type(self).__name__} counts whole units, got {n!r}")
        object.__setattr__(self, "_n", min(n, _CEILING))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    @classmethod
    def total(cls, amounts: Iterable[Self]) -> Self:
        """The sum of *amounts*, ``ZERO`` for none. Much faster than adding one by one.

        Raises:
            TypeError: an amount is of another unit.
        """
        amounts = list(amounts)
        if strangers := set(map(type, amounts)) - {cls}:
            names = ", ".join(sorted(stranger.__name__ for stranger in strangers))
            raise TypeError(f"a total of {cls.__name__} cannot include {names}")
        counts = [amount._n for amount in amounts]  # noqa: SLF001  # of this very class
        return cls(_CEILING if _CEILING in counts else sum(counts))

    @property
    def is_unlimited(self) -> bool:
        """Whether this stands for "no bound"."""
        return self._n == _CEILING

    def __add__(self, other: Self) -> Self:
        if type(other) is not type(self):
            return NotImplemented
        return type(self)(_CEILING if self.is_unlimited or other.is_unlimited else self._n + other._n)

    def __sub__(self, other: Self) -> Self:
        if type(other) is not type(self):
            return NotImplemented
        if other.is_unlimited:
            raise ValueError("nothing can be taken away without bound")
        return self if self.is_unlimited else type(self)(self._n - other._n)

    def __mul__(self, times: int) -> Self:
        if type(times) is not int:
            return NotImplemented
        return self if self.is_unlimited else type(self)(self._n * times)

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._n == other._n

    def __lt__(self, other: Self) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._n < other._n

    def __le__(self, other: Self) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._n <= other._n

    def __gt__(self, other: Self) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._n > other._n

    def __ge__(self, other: Self) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._n >= other._n

    def __hash__(self) -> int:
        return hash((type(self), self._n))

    def __bool__(self) -> bool:
        return self._n != 0

    def __reduce__(self) -> tuple[type[Self], tuple[int]]:
        return type(self), (self._n,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"


class Fraction(Quantity):
    """An amount of GPUs, counted in millionths: ``Fraction.parse("0.5")`` is half of one device."""

    __slots__ = ()

    PER_GPU: ClassVar[int] = 1_000_000
    ONE: ClassVar[Fraction]

    @classmethod
    def parse(cls, text: str) -> Fraction:
        """Read a decimal such as ``0.5`` or ``2.25``; ``unlimited`` is the unbounded amount.

        Raises:
            QuantityError: *text* is not a decimal with at most six places.
        """
        if text == "unlimited":
            return cls.UNLIMITED
        return cls(_scaled(text, cls.PER_GPU, places=6, example="0.5"))

    @property
    def millionths(self) -> int:
        """This amount in millionths of a GPU."""
        return self._n

    @property
    def gpus(self) -> float:
        """This amount in GPUs, for display and metrics only."""
        return self._n / self.PER_GPU

    def of(self, whole: Memory) -> Memory:
        """This fraction of *whole*, rounded down so that fractions which fill a GPU never overfill it."""
        if self.is_unlimited or whole.is_unlimited:
            return Memory.UNLIMITED if self and whole else Memory.ZERO
        return Memory(whole.bytes * self._n // self.PER_GPU)

    def __str__(self) -> str:
        return "unlimited" if self.is_unlimited else _decimal(self._n, self.PER_GPU)


class Memory(Quantity):
    """An amount of memory in bytes, written in binary units: ``16GiB``, ``512MiB``."""

    __slots__ = ()

    UNITS: ClassVar[dict[str, int]] = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}

    @classmethod
    def parse(cls, text: str) -> Memory:
        """Read ``16GiB``, ``1.5GiB``, ``512MiB``; ``unlimited`` is the unbounded amount.

        Raises:
            QuantityError: the number or the unit is wrong, or the amount is not a whole number of bytes.
        """
        if text == "unlimited":
            return cls.UNLIMITED
        number, unit = _split_unit(text)
        if unit not in cls.UNITS:
            shown = number if _PLAIN.fullmatch(number) else "16"
            raise QuantityError(f"{unit or 'nothing'!r} is not a unit of memory", f"{shown}GiB")
        return cls(_scaled(number, cls.UNITS[unit], places=9, example="16GiB"))

    @property
    def bytes(self) -> int:
        """This amount in bytes."""
        return self._n

    @property
    def mib(self) -> int:
        """This amount in whole MiB, rounded down."""
        return self._n >> 20

    @property
    def human(self) -> str:
        """This amount as people read it everywhere: GB (10^9 bytes) with one decimal."""
        return f"{self._n / 1e9:.1f} GB"

    def fraction_of(self, whole: Memory) -> Fraction:
        """What part of *whole* this is, rounded up so that what is booked always covers what was asked.

        Raises:
            ValueError: *whole* is nothing or without bound, or this amount is without bound.
        """
        if self.is_unlimited or whole.is_unlimited or whole <= Memory.ZERO:
            raise ValueError(f"{self} is no part of {whole}")
        return Fraction(-(-self._n * Fraction.PER_GPU // whole.bytes))

    def __str__(self) -> str:
        if self.is_unlimited:
            return "unlimited"
        for unit, size in reversed(self.UNITS.items()):
            places = 9 if size > 1 else 0
            # The largest unit in which the amount is at least one and has an exact, short decimal.
            if abs(self._n) >= size and self._n * 10**places % size == 0:
                return _decimal(self._n, size) + unit
        return f"{self._n}B"


Fraction.ZERO, Fraction.ONE, Fraction.UNLIMITED = Fraction(0), Fraction(Fraction.PER_GPU), Fraction(_CEILING)
Memory.ZERO, Memory.UNLIMITED = Memory(0), Memory(_CEILING)


def _split_unit(text: str) -> tuple[str, str]:
    number = text.rstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
    return number, text[len(number) :]


def _scaled(text: str, scale: int, *, places: int, example: str) -> int:
    match = _DECIMAL.fullmatch(text)
    if match is None:
        raise QuantityError(f"{text!r} is not a number", example)
    whole, decimals = match[1], match[2] or ""
    if len(decimals) > places:
        raise QuantityError(f"{text!r} has more than {places} decimal places", example)
    parts: int = 10 ** len(decimals)
    value, remainder = divmod(int(whole + decimals) * scale, parts)
    if remainder:
        raise QuantityError(f"{text!r} is not a whole number of bytes", example)
    if value >= _CEILING:
        raise QuantityError(f"{text!r} is more than any machine has", example)
    return value


def _decimal(n: int, scale: int) -> str:
    """Write n / scale without an exponent and without trailing zeros."""
    sign, n = ("-", -n) if n < 0 else ("", n)
    whole, rest = divmod(n, scale)
    if not rest:
        return f"{sign}{whole}"
    digits = f"{rest * 10**9 // scale:09d}".rstrip("0")
    return f"{sign}{whole}.{digits}"
