"""A share as a picture, for those who do not read: what is guaranteed solid, what it may burst to pale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jupyter_gpushare.quantity import Fraction

if TYPE_CHECKING:
    from jupyter_gpushare.share import Share

__all__ = ["draw"]

_MOST_BARS: Final = 4
_WIDTH: Final = 96
_HEIGHT: Final = 8
_GAP: Final = 4
_QUARTER: Final = _WIDTH // 4


def draw(share: Share) -> str:
    """One bar for each GPU, with marks at its quarters. The headline says the same in words."""
    bars = min(share.count, _MOST_BARS)
    height = bars * (_HEIGHT + _GAP) - _GAP
    drawn = "".join(_bar(share, number * (_HEIGHT + _GAP)) for number in range(bars))
    return (
        f'<svg class="gpushare-bars" width="{_WIDTH}" height="{height}" aria-hidden="true" focusable="false">'
        f"{drawn}</svg>"
    )


def _bar(share: Share, top: int) -> str:
    whole = _rectangle(top, _WIDTH, "none")
    if not (isinstance(share.request, Fraction) and isinstance(share.limit, Fraction)):
        return whole  # how much of a GPU it is depends on the GPU
    marks = "".join(
        f'<line x1="{x}" x2="{x}" y1="{top}" y2="{top + _HEIGHT}" class="gpushare-mark"/>'
        for x in range(_QUARTER, _WIDTH, _QUARTER)
    )
    limit, request = _rectangle(top, _part(share.limit), "burst"), _rectangle(top, _part(share.request), "own")
    return whole + (limit if share.bursts else "") + request + marks


def _part(amount: Fraction) -> int:
    return max(1, amount.millionths * _WIDTH // Fraction.PER_GPU)


def _rectangle(top: int, width: int, what: str) -> str:
    return f'<rect x="0" y="{top}" width="{width}" height="{_HEIGHT}" rx="1" class="gpushare-{what}"/>'
