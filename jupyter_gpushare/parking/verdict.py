"""Whether something can be parked: a value with a reason, never a bare yes or no."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jupyter_gpushare.rules.message import Message

__all__ = ["NotParkable", "Parkable", "Verdict"]


@dataclass(frozen=True, slots=True)
class Parkable:
    """It can: *memory* bytes would move, in about so many seconds. *caution* is what is not guaranteed, if anything."""

    memory: int
    park_s: float
    resume_s: float
    caution: Message | None = None


@dataclass(frozen=True, slots=True)
class NotParkable:
    """It cannot, because of *reason*; *remedy* says what would help. `reason.code` is constant."""

    reason: Message
    remedy: Message


Verdict = Parkable | NotParkable
