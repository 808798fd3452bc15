"""What is measured, and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["FULL", "QUICK", "WATCHED", "Plan", "Watched"]


@dataclass(frozen=True, slots=True)
class Plan:
    """Durations and counts.

    Attributes:
        rounds: how often every arm is measured, each time in another order.
        window_s: how long one arm is watched at a time; a multiple of 5 s, the longest period of a front end.
        settle_s: between the first sample and the window.
        cold_starts: fresh servers for the time to the first sample.
        warm_opens: watchers that come and go for the same, one after another.
        cells: the most cells of one window of round trips.
        cells_s: the longest window of round trips.
    """

    rounds: int = 5
    window_s: float = 10
    settle_s: float = 1.5
    cold_starts: int = 5
    warm_opens: int = 10
    cells: int = 400
    cells_s: float = 6


FULL: Final = Plan()
QUICK: Final = Plan(rounds=2, window_s=5, cold_starts=1, warm_opens=3, cells=100, cells_s=3)


@dataclass(frozen=True, slots=True)
class Watched:
    """One arm: a server, and how many watchers with which front end."""

    server: str
    front_end: str
    watchers: int

    @property
    def name(self) -> str:
        """For tables."""
        return f"{self.front_end}, {self.watchers} watcher{'s' if self.watchers > 1 else ''}"


WATCHED: Final = tuple(
    Watched(server, front_end, watchers)
    for server, front_end in (
        ("ours", "jupyter_gpushare"),
        ("nvdashboard", "nvdashboard at 100 ms"),
        ("nvdashboard", "nvdashboard at 1,000 ms"),
        ("resource-usage", "resource-usage"),
    )
    for watchers in (1, 10)
)
