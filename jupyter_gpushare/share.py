"""What one holder asks for: a guaranteed request, a burst limit, how many GPUs and of which kind.

The grammar, as people write it::

    share  = [count "x"] amount [".." amount] ["@" kind]
    amount = a fraction of one GPU ("0.5", "1") or memory on it ("16GiB")

``4`` alone means four whole GPUs. A fraction is of one device's *usable* memory: its total minus what the
driver keeps for itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from jupyter_gpushare.quantity import Fraction, Memory, QuantityError

__all__ = ["Resolved", "Share", "ShareError"]

_LONGEST: Final = 128
_MOST_GPUS: Final = 1024
_KIND: Final = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,61}[a-z0-9])?", re.ASCII)
_COUNTED: Final = re.compile(r"([0-9]+)x(.*)", re.ASCII | re.DOTALL)
_VULGAR: Final = {"0.5": "½", "0.25": "¼", "0.75": "¾", "0.2": "⅕", "0.125": "⅛"}


class ShareError(ValueError):
    """A share that cannot be. Names the wrong *part* and shows a right *example*."""

    def __init__(self, part: str, problem: str, example: str) -> None:
        super().__init__(f"{part}: {problem}; write for example {example}")
        self.part = part
        self.problem = problem
        self.example = example


@dataclass(frozen=True, slots=True)
class Resolved:
    """A share on one device: what is guaranteed there and how far it may burst, in memory."""

    request: Memory
    limit: Memory


@dataclass(frozen=True, slots=True)
class Share:
    """A wish for GPU: *request* is guaranteed, *limit* is the burst ceiling, both per device.

    Args:
        request: a fraction of each device, or memory on it.
        limit: the same unit as *request*, and not below it.
        count: how many devices, all on one host.
        kind: which GPUs, for example ``a100``; any when empty.

    Raises:
        ShareError: the parts do not fit together.
    """

    request: Fraction | Memory
    limit: Fraction | Memory
    count: int = 1
    kind: str = ""

    def __post_init__(self) -> None:
        _check_amount("request", self.request)
        _check_amount("limit", self.limit)
        if type(self.request) is not type(self.limit):
            raise ShareError("limit", "request and limit need the same unit", "0.25..0.8 or 8GiB..24GiB")
        if self.limit < self.request:  # type: ignore[operator]  # both have one type: checked above
            raise ShareError(
                "limit", f"{self.limit} is below the request {self.request}", f"{self.limit}..{self.request}"
            )
        if not 1 <= self.count <= _MOST_GPUS:
            raise ShareError("count", f"{self.count} is not between 1 and {_MOST_GPUS}", "2x0.5")
        if self.kind and not _KIND.fullmatch(self.kind):
            raise ShareError("kind", f"{_clip(self.kind)!r} is not a name in lower case", "0.5@a100")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a share as people write it: ``0.5``, ``0.25..0.8``, ``2x0.5``, ``16GiB``, ``4``, ``0.5@a100``.

        Raises:
            ShareError: names the part that is wrong and shows a right example.
        """
        if not isinstance(text, str):
            raise ShareError("share", f"{_clip(repr(text))} is not text", "0.5")
        if not text.strip():
            raise ShareError("share", "nothing is written", "0.5")
        if len(text) > _LONGEST:
            raise ShareError("share", f"{len(text)} characters are too many", "0.25..0.8@a100")
        rest, at, kind = text.strip().partition("@")
        if at and not kind:
            raise ShareError("kind", "no name follows the @", "0.5@a100")
        count, rest = _take_count(rest)
        low, dots, high = rest.partition("..")
        request = _parse_amount("request", low)
        limit = _parse_amount("limit", high) if dots else request
        if count is None:
            count, request, limit = _whole_gpus(request, limit)
        return cls(request, limit, count, kind)

    @property
    def is_whole(self) -> bool:
        """Whether the share is of whole GPUs, which get devices of their own."""
        return self.request == Fraction.ONE

    @property
    def bursts(self) -> bool:
        """Whether the limit lies above the request."""
        return self.limit != self.request

    def resolve(self, usable: Memory) -> Resolved:
        """What this share is on one device with *usable* memory.

        Raises:
            ShareError: a share in GiB asks for more than the device has.
        """
        if isinstance(self.request, Fraction) and isinstance(self.limit, Fraction):
            return Resolved(self.request.of(usable), self.limit.of(usable))
        assert isinstance(self.request, Memory)  # noqa: S101  # narrows the type; __post_init__ checked it
        assert isinstance(self.limit, Memory)  # noqa: S101
        if self.request > usable:
            raise ShareError("request", f"{self.request} do not fit a device with {usable} usable", str(usable))
        return Resolved(self.request, min(self.limit, usable))

    def describe(self) -> str:
        """The share in people's words: "½ GPU guaranteed, up to 1"."""
        text = f"{_words(self.request)} guaranteed"
        if self.bursts:
            text += f", up to {_words(self.limit).removesuffix(' GPU')}"
        if self.count > 1:
            text = f"{self.count} GPUs" if self.is_whole else f"{self.count} times {text}"
        return f"{text} on {self.kind}" if self.kind else text

    def __str__(self) -> str:
        amount = f"{self.request}..{self.limit}" if self.bursts else str(self.request)
        if self.count > 1:
            amount = str(self.count) if self.is_whole else f"{self.count}x{amount}"
        return f"{amount}@{self.kind}" if self.kind else amount


def _take_count(text: str) -> tuple[int | None, str]:
    match = _COUNTED.fullmatch(text)
    if match is None:
        return None, text
    if len(match[1]) > len(str(_MOST_GPUS)) or not 1 <= int(match[1]) <= _MOST_GPUS:
        raise ShareError("count", f"{_clip(match[1])} is not between 1 and {_MOST_GPUS}", "2x0.5")
    return int(match[1]), match[2]


def _whole_gpus(
    request: Fraction | Memory, limit: Fraction | Memory
) -> tuple[int, Fraction | Memory, Fraction | Memory]:
    """Read ``4`` as four whole GPUs."""
    if isinstance(request, Fraction) and request > Fraction.ONE and request == limit:
        count, rest = divmod(request.millionths, Fraction.PER_GPU)
        if rest:
            nearest = min(count + 1, _MOST_GPUS)
            raise ShareError("request", f"{request} is neither one GPU's part nor whole GPUs", f"{nearest} or 2x0.75")
        return count, Fraction.ONE, Fraction.ONE
    return 1, request, limit


def _parse_amount(part: str, text: str) -> Fraction | Memory:
    text = text.strip()
    if not text:
        raise ShareError(part, "no amount is written", "0.25..0.8")
    try:
        return Memory.parse(text) if text[-1].isalpha() else Fraction.parse(text)
    except QuantityError as error:
        raise ShareError(part, _clip(error.problem, 120), error.example) from None


def _check_amount(part: str, amount: Fraction | Memory) -> None:
    if amount.is_unlimited:
        raise ShareError(part, "a share needs a bound", "0.25..1")
    if amount <= type(amount).ZERO:  # type: ignore[operator]  # both have one type
        raise ShareError(part, f"{amount} is not an amount above zero", "0.5")
    if isinstance(amount, Fraction) and amount > Fraction.ONE:
        raise ShareError(part, f"{amount} is more than one GPU", "2x0.75, or 2 for two whole GPUs")


def _words(amount: Fraction | Memory) -> str:
    if isinstance(amount, Memory):
        return str(amount)
    return f"{_VULGAR.get(str(amount), str(amount))} GPU"


def _clip(text: str, longest: int = 40) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
