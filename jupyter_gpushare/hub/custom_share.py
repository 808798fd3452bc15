"""A share that somebody wrote, against the largest one that the admin lets people write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_gpushare.quantity import Fraction, Memory

if TYPE_CHECKING:
    from collections.abc import Collection

    from jupyter_gpushare.share import Share

__all__ = ["is_within"]


def is_within(share: Share, most: Share, kinds: Collection[str]) -> bool:
    """Whether *share* asks for no more than *most*, on one of *kinds*, among which an empty one means any.

    On each GPU it stays within the limit of *most*; its GPUs are no more; and what is guaranteed on all of them
    together is no more. Where *most* names a kind, nothing else may be asked for.
    """
    if share.kind != most.kind if most.kind else share.kind not in kinds:
        return False
    if share.count > most.count:
        return False
    if isinstance(share.limit, Memory) and isinstance(most.limit, Fraction):
        # How much of a GPU that is depends on the GPU, and no more than a whole one can be had of each.
        return most.limit == Fraction.ONE
    if isinstance(share.limit, Fraction) and isinstance(most.limit, Fraction):
        return share.limit <= most.limit and _total(share) <= _total(most)
    if isinstance(share.limit, Memory) and isinstance(most.limit, Memory):
        return share.limit <= most.limit and share.request <= most.request  # type: ignore[operator]  # one unit: Share
    return False  # a part of a GPU may be more memory than is allowed


def _total(share: Share) -> Fraction:
    return Fraction.total([share.request] * share.count)  # type: ignore[list-item]  # a fraction: checked by the caller
