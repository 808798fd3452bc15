"""Rounding to the steps in which a scheduler books."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.quantity import Fraction, Memory

if TYPE_CHECKING:
    from jupyter_gpushare.share import Share

__all__ = ["HUNDREDTH", "MEBIBYTE", "round_limit_down", "round_request_up"]

HUNDREDTH: Final = Fraction.parse("0.01")
MEBIBYTE: Final = Memory.parse("1MiB")


def round_request_up(share: Share) -> Share:
    """*share* with a request of whole hundredths or MiB: never less than was asked. The limit stays above it."""
    if isinstance(share.request, Fraction):
        request: Fraction | Memory = Fraction(
            -(-share.request.millionths // HUNDREDTH.millionths) * HUNDREDTH.millionths
        )
    else:
        request = MEBIBYTE * -(-share.request.bytes // MEBIBYTE.bytes)
    return replace(share, request=request, limit=_larger(share.limit, request))


def round_limit_down(share: Share, step: Fraction) -> Share:
    """*share* with its limit a multiple of *step* or of a MiB: never more than was asked, never below the request."""
    if isinstance(share.limit, Fraction):
        limit: Fraction | Memory = step * (share.limit.millionths // step.millionths)
    else:
        limit = MEBIBYTE * (share.limit.bytes // MEBIBYTE.bytes)
    return replace(share, limit=_larger(limit, share.request))


def _larger(one: Fraction | Memory, other: Fraction | Memory) -> Fraction | Memory:
    return max(other, one)
