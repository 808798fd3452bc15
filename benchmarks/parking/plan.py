"""What is measured, and how often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["FULL", "GB", "QUICK", "Plan"]

GB: Final = 10**9


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes and counts.

    Attributes:
        sizes: bytes that one program holds while it is parked and resumed.
        rounds: how often each size is moved each way, in another order of the ways each time.
        sessions: how many programs share the device.
        session_size: bytes that each of them holds.
        work_s: how long they work at the same time.
    """

    sizes: tuple[int, ...] = (GB, 8 * GB, 32 * GB, 64 * GB)
    rounds: int = 3
    sessions: tuple[int, ...] = (2, 4, 8)
    session_size: int = 2 * GB
    work_s: float = 5.0


FULL: Final = Plan()
QUICK: Final = Plan((GB // 4, GB), rounds=2, sessions=(2, 4), session_size=GB // 4, work_s=0.5)
