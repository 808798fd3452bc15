"""How much is measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["FULL", "QUICK", "Plan"]


@dataclass(frozen=True, slots=True)
class Plan:
    """Counts.

    Attributes:
        windows: how often each server is measured, each round in another order.
        cells: empty cells in one window.
        browser_windows: the same in the browser.
        browser_cells: the same in the browser.
    """

    windows: int = 20
    cells: int = 100
    browser_windows: int = 5
    browser_cells: int = 60


FULL: Final = Plan()
QUICK: Final = Plan(windows=4, cells=50, browser_windows=1, browser_cells=20)
