"""What a job asks of the broker, from what its owner wrote on the command line."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from jupyter_gpushare.broker.wire import ClaimModel
from jupyter_gpushare.share import Share, ShareError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ClaimOptions", "OptionError", "claim_of"]

_LONGEST_NAME: Final = 200
_DAY_S: Final = 86400.0
_INTERPRETERS: Final = ("python", "bash", "sh", "env", "torchrun", "accelerate")


class OptionError(ValueError):
    """An option cannot be; the text names it and says what to write."""


@dataclass(frozen=True, slots=True)
class ClaimOptions:
    """The options of ``jupyter gpushare run`` that the broker hears of.

    Attributes:
        project: whose quota it counts against.
        share: the GPU, as people write it.
        name: what people call the job; empty for the program's name.
        pool: in which pool; any when empty.
        max_reclaims: how often it may lose its share before it fails; None for any number of times.
        grace_s: what it gets to save its work; None leaves it to the pool.
        start_cost_s: what a start costs it, in seconds of computing: loans that are shorter are not for it.
    """

    project: str
    share: str = "1"
    name: str = ""
    pool: str = ""
    max_reclaims: int | None = None
    grace_s: float | None = None
    start_cost_s: float = 0.0


def claim_of(options: ClaimOptions, argv: Sequence[str]) -> ClaimModel:
    """The claim of one run of *argv*.

    Raises:
        OptionError: an option cannot be.
    """
    if not options.project:
        raise OptionError("--project: no project is given; `jupyter gpushare projects` lists them")
    if options.grace_s is not None and not 0 <= options.grace_s <= _DAY_S:
        raise OptionError(f"--grace: {options.grace_s:g} is not between 0 and {_DAY_S:g} s; write for example 60")
    if options.max_reclaims is not None and options.max_reclaims < 0:
        raise OptionError(f"--max-reclaims: {options.max_reclaims} is below zero; write for example 3")
    if not 0 <= options.start_cost_s <= _DAY_S:
        raise OptionError(f"--start-cost: {options.start_cost_s:g} is not between 0 and {_DAY_S:g} s")
    try:
        share = str(Share.parse(options.share))
    except ShareError as error:
        raise OptionError(f"--gpu: {error}") from None
    return ClaimModel(
        key=f"run-{os.getpid()}-{uuid.uuid4().hex}",
        kind="training",
        project=options.project[:_LONGEST_NAME],
        share=share,
        name=(options.name or _program(argv))[:_LONGEST_NAME],
        pool=options.pool,
        grace_s=options.grace_s,
        start_cost_s=options.start_cost_s,
        most_turns_lost=options.max_reclaims,
    )


def _program(argv: Sequence[str]) -> str:
    """What people would call ``python -u train.py --lr 1``: train.py."""
    names = [PurePath(word).name for word in argv if not word.startswith("-")]
    known = [name for name in names if name and not name.startswith(_INTERPRETERS)]
    return (known or names or ["job"])[0]
