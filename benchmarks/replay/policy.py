"""What is done with an idle session: the ways that people have today, ours, and what perfect foresight would do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["TIMEOUTS_MIN", "Policy", "culler", "kernel_culling", "oracle", "ours", "policies", "reservation"]

_MINUTE_S: Final = 60.0
_HOUR_S: Final = 3600.0
_SHORTEST_FORESEEN_MIN: Final = 5
_IN_TIME_MIN: Final = 10
TIMEOUTS_MIN: Final = (1, 2, 5, 10, 20, 30, 40, 60)


@dataclass(frozen=True, slots=True)
class Policy:
    """One way.

    Attributes:
        name: for tables and plots.
        way: ``keep`` the GPUs; ``park``; ``end`` the server, its state lost; ``forget``: end the kernels and keep the
            server, which on a hub keeps its GPUs.
        timeout_s: how long a session is idle before that.
        knows_gaps: it sees how long a gap will be, and acts only at the beginning of those of *timeout_s* or more.
        ahead_s: with that knowledge, how long before the next cell it brings the session back.
    """

    name: str
    way: Literal["keep", "park", "end", "forget"]
    timeout_s: float = 0.0
    knows_gaps: bool = False
    ahead_s: float = 0.0

    def delay_s(self, gap_s: float) -> float | None:
        """How long after the beginning of a gap of *gap_s* it acts; None when it does not."""
        if self.way == "keep":
            return None
        if self.knows_gaps:
            return 0.0 if gap_s >= self.timeout_s else None
        return self.timeout_s

    @property
    def minutes(self) -> float:
        """Its timeout."""
        return self.timeout_s / _MINUTE_S


def reservation() -> Policy:
    """Whole GPUs for as long as the server lives: what most hubs do."""
    return Policy("whole GPUs kept", "keep")


def culler() -> Policy:
    """The usual idle culler of a hub, at one hour."""
    return Policy("culled at 1 h", "end", _HOUR_S)


def kernel_culling() -> Policy:
    """Jupyter Server's own culling of kernels, at one hour."""
    return Policy("kernels culled", "forget", _HOUR_S)


def ours(minutes: float) -> Policy:
    """Parking after *minutes*."""
    return Policy(f"parked {minutes:g} min", "park", minutes * _MINUTE_S)


def oracle(minutes: float, ahead_s: float = 0.0) -> Policy:
    """Parking at once in every gap of at least *minutes*, in no other; with *ahead_s*, back before the next cell."""
    name = f"oracle {minutes:g} min" + (", in time" if ahead_s else "")
    return Policy(name, "park", minutes * _MINUTE_S, knows_gaps=True, ahead_s=ahead_s)


def policies(timeouts_min: Sequence[float] = TIMEOUTS_MIN) -> list[Policy]:
    """Everything that is compared: each of ours, and an oracle for it unless its gaps are too many to be worth it."""
    foreseen = [oracle(minutes) for minutes in timeouts_min if minutes >= _SHORTEST_FORESEEN_MIN]
    fixed = [reservation(), kernel_culling(), culler()]
    return [*fixed, *(ours(minutes) for minutes in timeouts_min), *foreseen, oracle(_IN_TIME_MIN, ahead_s=180.0)]
