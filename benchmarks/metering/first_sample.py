"""From opening the WebSocket to the first numbers, on fresh servers and on servers that were watched before."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from benchmarks.metering.watching import watching
from benchmarks.servers import NVDASHBOARD, OURS, Server

if TYPE_CHECKING:
    from benchmarks.metering.plan import Plan
    from benchmarks.servers import Workplace

__all__ = ["FirstSample", "measure"]

_ARMS: Final = {
    "jupyter_gpushare": OURS,
    "nvdashboard at 100 ms": NVDASHBOARD,
    "nvdashboard at 1,000 ms": NVDASHBOARD,
}
# Longer than one period of ours, so that each watcher has to be given a sample of its own.
_PAUSE_S: Final = 1.2


@dataclass(slots=True)
class FirstSample:
    """Milliseconds by front end: *cold* for a server's very first watcher, *warm* for later ones."""

    cold: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    warm: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))


def measure(workplace: Workplace, plan: Plan) -> FirstSample:
    """Fresh servers in turn; the last one of each arm also gets the warm watchers."""
    found = FirstSample()
    for number in range(plan.cold_starts):
        for front_end, extension in _ARMS.items():
            name = f"first {number} {front_end}".replace(" ", "-").replace(",", "")
            with Server(workplace, name, extension) as server:
                found.cold[front_end] += _open(server, front_end)
                for _ in range(plan.warm_opens if number == plan.cold_starts - 1 else 0):
                    found.warm[front_end] += _open(server, front_end)
    return found


def _open(server: Server, front_end: str) -> list[float]:
    time.sleep(_PAUSE_S)
    with watching(server, front_end, 1) as watchers:
        return watchers.first_sample_ms
